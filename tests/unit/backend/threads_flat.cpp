#include "threads.hpp"

namespace {

using namespace tessera;
using namespace tessera::test;
using tessera::index_t;

}  // namespace

TEST_CASE_TEMPLATE("several threads: flat kernels, in place and at any alignment", T, float, double) {
  for (const index_t size : {index_t{0}, index_t{17}, index_t{5003}})
    for (const index_t skipped : {0, 3}) {
      const auto a = random_values<T, 1>({size + skipped}, 1);
      const auto b = random_values<T, 1>({size + skipped}, 2);
      const block<T const, 1> x{a.data() + skipped, {size}};
      const block<T const, 1> z{b.data() + skipped, {size}};
      compare([&](eigen& e, written& out) {
        auto t = unwritten<T>(shape<1>{size + skipped});
        const block<T, 1> y{t.data() + skipped, {size}};
        const auto keep = [&](auto call) {
          call();
          out.add(t);
        };
        keep([&] { e.add(x, z, y); });
        keep([&] { e.mul(y, z, y); });
        keep([&] { e.sub(x, y, y); });
        keep([&] { e.div(x, z, y); });
        keep([&] { e.relu_forward(x, y); });
        keep([&] { e.relu_backward(x, z, y); });
        keep([&] { e.scale(x, T{3}, y); });
        keep([&] { e.axpy(static_cast<T>(0.1), z, y); });
        keep([&] { e.exp(x, y); });
        keep([&] { e.log(y, y); });
        keep([&] { e.gelu_forward(x, y); });
        keep([&] { e.gelu_backward(x, z, y); });
        keep([&] { e.gelu_tanh_forward(x, y); });
        keep([&] { e.silu_forward(x, y); });
        keep([&] { e.sigmoid_forward(x, y); });
        keep([&] { e.tanh_forward(x, y); });
        keep([&] { e.tanh_backward(y, z, y); });
        keep([&] { e.dropout(x, philox(7, 0), 1001, 0.7, y); });
        auto buffer = random_values<T, 1>({size}, 3);
        auto second = random_values<T, 1>({size}, 4);
        for (T& v : second.view()) v *= v;
        keep([&] { e.sgd_update(y, z, buffer.view(), {.learning_rate = 0.1, .momentum = 0.9}); });
        keep([&] { e.sgd_update(y, z, block<T, 1>{}, {.learning_rate = 0.1}); });
        keep([&] {
          e.adam_update(y, z, buffer.view(), second.view(),
                        {.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .number = 3});
        });
        out.add(buffer);
        out.add(second);
      });
      compare(
          [&](eigen& e, written& out) {
            tensor<double, 1> sum(shape<1>{1});
            sum.data()[0] = e.square_sum(x);
            out.add(sum);
          },
          1e-13);
    }
}

TEST_CASE_TEMPLATE("several threads: repeated operands, reductions, permutations", T, float, double) {
  for (shape<6> const& s : {shape<6>{1, 1, 7, 31, 1, 17}, shape<6>{1, 1, 1, 1, 1, 3003}, shape<6>{5, 3, 3, 1, 11, 5},
                            shape<6>{2, 0, 3, 1, 1, 1}, shape<6>{1, 1, 1, 1, 1, 1}})
    for (int mask = 0; mask < 64; mask += 3) {
      shape<6> part = s;
      for (int d = 0; d < 6; ++d)
        if ((mask >> d & 1) != 0) part[d] = 1;
      const auto a = random_values<T>(s, 1);
      const auto b = random_values<T>(part, 2);
      const int outer = detail::eigen_kernels::outermost(s);
      compare([&](eigen& e, written& out) {
        auto y = unwritten<T>(s);
        e.add_broadcast(a.read(), b.read(), y.view());
        e.div_broadcast(b.read(), y.read(), y.view());
        out.add(y);
        auto most = unwritten<T>(part);
        e.max_broadcast(a.read(), most.view());
        out.add(most);
      });
      // The outermost dimension is cut among the several threads: sums over it are sums of theirs.
      compare(
          [&](eigen& e, written& out) {
            auto y = unwritten<T>(part);
            e.sum_broadcast(a.read(), y.view());
            out.add(y);
          },
          part[outer] == s[outer] ? 0 : tolerance<T>);
    }
  struct order {
    shape<6> x;
    std::array<int, 6> from;
  };
  for (order const& o :
       {order{{1, 1, 1, 1, 61, 53}, {0, 1, 2, 3, 5, 4}}, order{{1, 1, 1, 1, 61, 53}, {0, 1, 2, 3, 4, 5}},
        order{{2, 3, 5, 4, 6, 7}, {0, 2, 4, 1, 3, 5}}, order{{2, 3, 5, 4, 6, 7}, {5, 3, 1, 0, 2, 4}},
        order{{1, 1, 1, 0, 3, 2}, {5, 4, 3, 2, 1, 0}}}) {
    shape<6> extents{};
    for (int d = 0; d < 6; ++d) extents[d] = o.x[o.from[static_cast<std::size_t>(d)]];
    const auto values = random_values<T>(o.x, 5);
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(extents);
      e.permute(values.read(), o.from, y.view());
      out.add(y);
    });
  }
}

TEST_CASE_TEMPLATE("several threads: softmax and cross-entropy", T, float, double) {
  for (shape<3> const& s : {shape<3>{71, 41, 1}, shape<3>{7, 13, 35}, shape<3>{0, 5, 3}, shape<3>{5, 0, 1}}) {
    const auto x = random_values<T>(s, 1);
    const auto dy = random_values<T>(s, 2);
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(s);
      auto dx = unwritten<T>(s);
      auto rows = unwritten<T>(shape<2>{s[0], s[2]});
      auto sums = unwritten<T>(shape<2>{s[0], s[2]});
      e.softmax_forward(x.read(), y.view());
      e.softmax_backward(y.read(), dy.read(), dx.view());
      out.add(y);
      out.add(dx);
      e.log_softmax_forward(x.read(), y.view());
      e.log_softmax_backward(y.read(), dy.read(), dx.view());
      out.add(y);
      out.add(dx);
      e.row_max(x.read(), rows.view());
      e.row_sum_exp(x.read(), rows.read(), sums.view());
      e.softmax_finish(x.read(), rows.read(), sums.read(), y.view());
      e.row_dot(y.read(), dy.read(), rows.view());
      e.softmax_backward_finish(y.read(), dy.read(), rows.read(), dx.view());
      out.add(rows);
      out.add(sums);
      out.add(y);
      out.add(dx);
    });
  }
  const shape<2> s{47, 31};
  const auto logits = random_values<T>(s, 3);
  auto targets = random_values<T>(s, 4);
  for (T& v : targets.view()) v = std::abs(v);
  tensor<std::int64_t, 1> labels(shape<1>{s[0]});
  for (index_t i = 0; i < s[0]; ++i) labels.data()[i] = i % 7 == 0 ? -100 : i % s[1];
  cross_entropy_part<T> part;
  part.classes = s[1];
  part.ignore_index = -100;
  part.label_smoothing = 0.1;
  compare([&](eigen& e, written& out) {
    auto most = unwritten<T>(shape<1>{s[0]});
    auto sums = unwritten<T>(shape<2>{part.sums(), s[0]});
    auto gradient = unwritten<T>(s);
    e.row_max(logits.read(), most.view());
    e.cross_entropy_sums(logits.read(), labels.read(), most.read(), part, sums.view());
    e.cross_entropy_gradient(logits.read(), labels.read(), most.read(), sums.read(), part, 0.5, {}, gradient.view());
    out.add(most);
    out.add(sums);
    out.add(gradient);
    auto probability_sums = unwritten<T>(shape<2>{part.probability_sums(), s[0]});
    e.cross_entropy_probability_sums(logits.read(), targets.read(), most.read(), part, probability_sums.view());
    e.cross_entropy_probability_gradient(logits.read(), targets.read(), most.read(), probability_sums.read(), part, 0.5,
                                         {}, gradient.view());
    out.add(probability_sums);
    out.add(gradient);
  });
}
