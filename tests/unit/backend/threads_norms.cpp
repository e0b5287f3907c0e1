#include "threads.hpp"

namespace {

using namespace tessera;
using namespace tessera::test;
using tessera::index_t;

}  // namespace

TEST_CASE_TEMPLATE("several threads: batch norm, column sums, biases", T, float, double) {
  for (shape<2> const& s : {shape<2>{91, 51}, shape<2>{1011, 16}, shape<2>{0, 8}, shape<2>{3, 7}}) {
    auto x = random_values<T>(s, 1);
    for (index_t i = 0; i < x.size(); ++i) x.data()[i] += static_cast<T>(i % s[1]);
    const auto dy = random_values<T>(s, 2);
    const auto gamma = random_values<T>(shape<1>{s[1]}, 3);
    tensor<double, 1> mean(shape<1>{s[1]}, 0.25);
    tensor<double, 1> inv_std(shape<1>{s[1]}, 1.5);
    const auto sums = random_values<T>(shape<1>{2 * s[1]}, 4);
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(s);
      e.batch_norm_normalize(x.read(), mean.read(), inv_std.read(), gamma.read(), gamma.read(), y.view());
      out.add(y);
      e.batch_norm_backward_input(x.read(), dy.read(), mean.read(), inv_std.read(), gamma.read(), sums.read(), 77.0,
                                  y.view());
      out.add(y);
      e.batch_norm_backward_input_evaluation(dy.read(), inv_std.read(), gamma.read(), y.view());
      e.add_bias(y.view(), gamma.read());
      out.add(y);
    });
    compare(
        [&](eigen& e, written& out) {
          tensor<double, 2> moments(shape<2>{s[1], 3}, -1.0);
          auto both = unwritten<T>(shape<1>{2 * s[1]});
          auto rows = unwritten<T>(shape<1>{s[1]});
          e.batch_norm_moments(x.read(), moments.view());
          e.batch_norm_backward_sums(x.read(), dy.read(), mean.read(), inv_std.read(), both.view());
          e.sum_rows(x.read(), rows.view());
          out.add(moments);
          out.add(both);
          out.add(rows);
        },
        tolerance<T>);
  }
}

TEST_CASE_TEMPLATE("several threads: a block that goes past the caches as a whole, but not in parts", T, float,
                   double) {
  using detail::eigen_kernels::writer;
  const shape<2> s{writer<T>::large / 19 + 1, 19};
  const auto x = random_values<T>(s, 1);
  const auto gamma = random_values<T>(shape<1>{s[1]}, 2);
  tensor<double, 1> mean(shape<1>{s[0]}, 0.0);
  tensor<double, 1> inv_std(shape<1>{s[0]}, 0.0);
  compare([&](eigen& e, written& out) {
    auto y = unwritten<T>(s);
    e.layer_norm_forward(x.read(), 1e-5, gamma.read(), gamma.read(), mean.view(), inv_std.view(), y.view());
    out.add(y);
  });
}

TEST_CASE_TEMPLATE("several threads: norms of rows and groups", T, float, double) {
  for (shape<2> const& s : {shape<2>{61, 47}, shape<2>{0, 8}, shape<2>{5, 3}}) {
    const auto x = random_values<T>(s, 1);
    const auto dy = random_values<T>(s, 2);
    const auto gamma = random_values<T>(shape<1>{s[1]}, 3);
    tensor<double, 1> mean(shape<1>{s[0]}, 0.0);
    tensor<double, 1> inv_std(shape<1>{s[0]}, 0.0);
    const auto sums = random_values<T>(shape<1>{2 * s[0]}, 4);
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(s);
      tensor<double, 2> moments(shape<2>{s[0], 3}, -1.0);
      auto row_sums = unwritten<T>(shape<1>{2 * s[0]});
      e.rms_norm_forward(x.read(), 1e-5, gamma.read(), inv_std.view(), y.view());
      out.add(y);
      e.layer_norm_forward(x.read(), 1e-5, gamma.read(), gamma.read(), mean.view(), inv_std.view(), y.view());
      out.add(mean);
      out.add(inv_std);
      out.add(y);
      e.row_moments(x.read(), moments.view());
      out.add(moments);
      e.row_normalize(x.read(), mean.read(), inv_std.read(), gamma.read(), gamma.read(), y.view());
      out.add(y);
      e.row_normalize_backward_input(x.read(), dy.read(), mean.read(), inv_std.read(), gamma.read(), sums.read(), 99.0,
                                     y.view());
      out.add(y);
      e.row_normalize_backward(x.read(), dy.read(), mean.read(), inv_std.read(), gamma.read(), y.view(), {}, {});
      out.add(y);
      e.row_normalize_backward_sums(x.read(), dy.read(), mean.read(), inv_std.read(), gamma.read(), row_sums.view(), {},
                                    {});
      out.add(row_sums);
    });
    compare(
        [&](eigen& e, written& out) {
          auto y = unwritten<T>(s);
          auto dgamma = unwritten<T>(shape<1>{s[1]});
          auto dbeta = unwritten<T>(shape<1>{s[1]});
          e.row_normalize_backward(x.read(), dy.read(), mean.read(), inv_std.read(), gamma.read(), y.view(),
                                   dgamma.view(), dbeta.view());
          out.add(dgamma);
          out.add(dbeta);
        },
        tolerance<T>);
  }
  // Several samples, and one whose pixels the threads share.
  for (shape<4> const& s : {shape<4>{7, 12, 5, 7}, shape<4>{1, 6, 31, 13}, shape<4>{0, 4, 3, 3}}) {
    const index_t groups = 2;
    const auto x = random_values<T>(s, 1);
    const auto dy = random_values<T>(s, 2);
    const auto gamma = random_values<T>(shape<1>{s[1]}, 3);
    const auto sums = random_values<T>(shape<1>{2 * s[0] * groups}, 4);
    tensor<double, 1> mean(shape<1>{s[0] * groups}, 0.1);
    tensor<double, 1> inv_std(shape<1>{s[0] * groups}, 1.7);
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(s);
      e.group_norm_normalize(x.read(), groups, mean.read(), inv_std.read(), gamma.read(), gamma.read(), y.view());
      out.add(y);
      e.group_norm_backward_input(x.read(), dy.read(), groups, mean.read(), inv_std.read(), gamma.read(), sums.read(),
                                  99.0, y.view());
      out.add(y);
    });
    compare(
        [&](eigen& e, written& out) {
          tensor<double, 2> moments(shape<2>{s[0] * groups, 3}, -1.0);
          auto found = unwritten<T>(shape<1>{2 * s[0] * groups});
          auto dgamma = unwritten<T>(shape<1>{s[1]});
          auto dbeta = unwritten<T>(shape<1>{s[1]});
          e.group_norm_moments(x.read(), groups, moments.view());
          e.group_norm_backward_sums(x.read(), dy.read(), groups, mean.read(), inv_std.read(), gamma.read(),
                                     found.view(), dgamma.view(), dbeta.view());
          out.add(moments);
          out.add(found);
          out.add(dgamma);
          out.add(dbeta);
        },
        tolerance<T>);
  }
}

TEST_CASE_TEMPLATE("several threads: poolings and layouts of images", T, float, double) {
  for (const index_t images : {0, 1, 5}) {
    const shape<4> s{images, 33, 31, 37};
    const pool2d_geometry g{.kernel = {3, 3}, .stride = {2, 2}, .padding_before = {1, 1}, .padding_after = {1, 1}};
    const shape<4> made{images, 33, 16, 19};
    const auto x = random_values<T>(s, 1);
    const auto dy = random_values<T>(made, 2);
    const image_part part{.begins = {0, 0}, .extents = {31, 37}};
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(made);
      auto dx = unwritten<T>(s);
      auto one = unwritten<T>(shape<4>{images, 33, 1, 1});
      auto flat = unwritten<T>(shape<2>{images, 33 * 31 * 37});
      tensor<std::int32_t, 4> argmax(made, 0);
      e.max_pool2d_forward(x.read(), y.view(), argmax.view(), g);
      e.max_pool2d_backward(dy.read(), argmax.read(), dx.view(), g);
      out.add(y);
      out.add(argmax);
      out.add(dx);
      e.avg_pool2d_forward(x.read(), y.view(), g);
      e.avg_pool2d_backward(dy.read(), dx.view(), g);
      out.add(y);
      out.add(dx);
      e.adaptive_avg_pool_forward(x.read(), y.view(), part);
      e.adaptive_avg_pool_backward(dy.read(), dx.view(), part);
      out.add(y);
      out.add(dx);
      e.global_avg_pool_backward(unwritten<T>(one.extents()).read(), dx.view(), 99);
      out.add(dx);
      e.flatten(x.read(), flat.view());
      e.unflatten(flat.read(), dx.view());
      out.add(flat);
      out.add(dx);
      if (images != 1) {
        e.global_avg_pool_forward(x.read(), one.view(), 99);
        out.add(one);
      }
    });
  }
  // The pixels of one image are summed by all threads.
  const auto x = random_values<T>(shape<4>{1, 33, 11, 17}, 1);
  compare(
      [&](eigen& e, written& out) {
        auto one = unwritten<T>(shape<4>{1, 33, 1, 1});
        e.global_avg_pool_forward(x.read(), one.view(), 1);
        out.add(one);
      },
      tolerance<T>);
}

TEST_CASE_TEMPLATE("several threads: embeddings", T, float, double) {
  for (const index_t features : {0, 5, 67}) {
    const index_t rows = 301;
    const index_t places = 1001;
    const auto weight = random_values<T>(shape<2>{rows, features}, 1);
    const auto dy = random_values<T>(shape<2>{places, features}, 2);
    tensor<std::int64_t, 1> indices(shape<1>{places});
    // A row that most places name, some that the block does not have.
    for (index_t i = 0; i < places; ++i) indices.data()[i] = i % 3 != 0 ? 17 : i * 7919 % 400;
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(dy.extents());
      auto dweight = unwritten<T>(weight.extents());
      e.embedding_forward(indices.read(), weight.read(), 3, y.view());
      e.embedding_backward(indices.read(), dy.read(), 3, 20, dweight.view());
      out.add(y);
      out.add(dweight);
    });
  }
}

TEST_CASE_TEMPLATE("several threads: attention", T, float, double) {
  for (const bool causal : {false, true})
    for (shape<4> const& s : {shape<4>{2, 3, 150, 20}, shape<4>{1, 1, 260, 33}, shape<4>{1, 2, 0, 8}}) {
      attention_geometry g;
      g.batch = s[0];
      g.heads = s[1];
      g.queries = g.keys = s[2];
      g.width = g.value_width = s[3];
      g.causal = causal;
      g.scale = 0.3;
      const auto q = random_values<T>(s, 1);
      const auto k = random_values<T>(s, 2);
      const auto v = random_values<T>(s, 3);
      const auto dy = random_values<T>(s, 4);
      // Samples, positions, heads; the kernels take any.
      const auto rows = [&]<class V>(V* data) { return head_rows<V>{data, s[1] * s[2] * s[3], s[3], s[1] * s[3]}; };
      compare([&](eigen& e, written& out) {
        auto y = unwritten<T>(s);
        tensor<T, 4> dq(s, T{1});
        tensor<T, 4> dk(s, T{2});
        tensor<T, 4> dv(s, T{3});
        tensor<double, 3> log_sum(shape<3>{s[0], s[1], s[2]}, 0.0);
        tensor<double, 3> delta(shape<3>{s[0], s[1], s[2]}, 0.0);
        e.attention_forward(rows(q.data()), rows(k.data()), rows(v.data()), rows(y.data()), log_sum.view(), g);
        e.attention_forward(rows(q.data()), rows(v.data()), rows(k.data()), rows(y.data()), log_sum.view(), g, true);
        e.attention_delta(rows(static_cast<T const*>(y.data())), rows(dy.data()), delta.view(), g);
        e.attention_backward(rows(q.data()), rows(k.data()), rows(v.data()), rows(dy.data()), log_sum.read(),
                             delta.read(), rows(dq.data()), rows(dk.data()), rows(dv.data()), g);
        out.add(y);
        out.add(log_sum);
        out.add(delta);
        out.add(dq);
        out.add(dk);
        out.add(dv);
        e.copy_heads(rows(q.data()), packed_heads(y.data(), s[1], s[2], s[3]), s);
        out.add(y);
      });
    }
}
