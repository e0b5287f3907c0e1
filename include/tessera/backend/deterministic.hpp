#pragma once

#include <tessera/backend/capability.hpp>
#include <tessera/backend/deterministic/blocks.hpp>
#include <tessera/backend/eigen.hpp>

#include <string>
#include <type_traits>

namespace tessera {

/// Kernels whose results do not depend on how many ranks the batch is cut over, nor on the number of threads.
///
/// The batch is dealt in `Blocks` blocks of as many rows. What kernels sum over the batch they sum block by block, and
/// the sums of blocks are added in a binary tree, neighbours first. A rank has whole blocks in a row, so its own sum is
/// that of a subtree; `ordered` goes on in the same tree. Where the result of a row may depend on what rows are
/// computed beside it, or on its place in memory (by which vector code begins), it is computed with its block, at an
/// address that is a multiple of 64.
///
/// The batch is the first dimension of what kernels take. One thread computes whatever depends on blocks; the rest is
/// done by the kernels of `Backend` on as many as it may use. `Blocks` is a power of two. A `Backend` that lacks
/// kernels gets those of another one inside: `deterministic<8, with_fallback<mine, eigen>>`.
template <int Blocks = 8, class Backend = eigen>
class deterministic : public Backend {
  static_assert(Blocks >= 1 && (Blocks & (Blocks - 1)) == 0,
                "tessera: deterministic deals the batch in a number of blocks that is no power of two; use 1, 2, 4, 8 "
                "... blocks, at least as many as there will ever be data-parallel ranks");
  static_assert(
      Backend::memory::on_host,
      "tessera: deterministic adds up blocks of the batch on the host, and this backend's lie elsewhere: name "
      "a backend on host memory");
  static_assert(Backend::order == storage_order::channels_last && std::is_same_v<typename Backend::statistic, double>,
                "tessera: deterministic takes images with channels innermost and keeps statistics in double, and this "
                "backend does not: name one that does, as eigen");
  using memory_type = typename Backend::memory;

 public:
  static constexpr int batch_blocks = Blocks;

  using Backend::Backend;

  /// From now on kernels take blocks of a batch of `rows` rows that `Parts` ranks share evenly; networks say so before
  /// they compute. Throws where a batch for training is not a multiple of `Blocks`. Other batches are one block a rank.
  template <int Parts>
  void begin_batch(index_t rows, bool training) {
    static_assert(
        Blocks % Parts == 0,
        "tessera: a deterministic batch is cut over more ranks than it has blocks, or over a number that does "
        "not divide these; use more blocks, as in deterministic<16>, or another number of ranks");
    if (training) check_batch(rows);
    by_.blocks = rows % Blocks == 0 ? Blocks / Parts : 1;
  }
  /// Throws where a batch cannot be trained on.
  static void check_batch(index_t rows) {
    if (rows % Blocks != 0)
      throw error("a batch of " + std::to_string(rows) + " rows in " + std::to_string(Blocks) + " blocks",
                  "blocks of as many rows each, the same for any number of ranks",
                  "choose a batch size that is a multiple of " + std::to_string(Blocks) +
                      " and leave out a smaller last batch (sampler_options::drop_last), or choose another number of "
                      "blocks, as in deterministic<4>");
  }
  /// As the backend's own.
  void use_winograd(bool use) requires requires(Backend& b) { b.use_winograd(use); }
  {
    Backend::use_winograd(use);
    one_.use_winograd(use);
  }
  /// Blocks on this rank.
  index_t blocks() const { return by_.blocks; }
  /// Of a backend that falls back on another one: where kernels are called for each block, so many calls.
  auto fallbacks() const requires(requires(Backend const& b) { b.fallbacks(); }) {
    auto used = Backend::fallbacks();
    for (auto const& of_blocks : one_.fallbacks()) used.push_back(of_blocks);
    return used;
  }

  // Kernels as in `eigen`.

  template <class T>
  void matmul(operand<T, 2> a, bool transpose_a, operand<T, 2> b, bool transpose_b, block<T, 2> out,
              bool accumulate = false) {
    if (!transpose_a) {
      by_.each([&](auto from, auto to) { one_.matmul(from, false, b, transpose_b, to, accumulate); }, a, out);
    } else if (transpose_b) {
      one_.matmul(a, true, b, true, out, accumulate);
    } else {
      tensor<T, 1, memory_type> total(shape<1>{{out.size()}});
      by_.sum(
          total.view(),
          [&](auto to, auto p, auto q) {
            one_.matmul(p, true, q, false, block<T, 2>{to.data, out.extents});
          },
          a, b);
      for (index_t i = 0; i < out.size(); ++i)
        out.data[i] = accumulate ? out.data[i] + total.data()[i] : total.data()[i];
    }
  }
  template <class T>
  void sum_rows(operand<T, 2> dy, block<T, 1> out) {
    by_.sum(
        out, [&](auto to, auto rows) { one_.sum_rows(rows, to); }, dy);
  }

  template <class T>
  void conv2d_forward(operand<T, 4> x, operand<T, 4> w, block<T, 4> y, conv2d_geometry const& geometry) {
    by_.each([&](auto from, auto to) { one_.conv2d_forward(from, w, to, geometry); }, x, y);
  }
  template <class T>
  void conv2d_backward_input(operand<T, 4> w, operand<T, 4> dy, block<T, 4> dx, conv2d_geometry const& geometry) {
    by_.each([&](auto from, auto to) { one_.conv2d_backward_input(w, from, to, geometry); }, dy, dx);
  }
  template <class T>
  void conv2d_backward_weight(operand<T, 4> x, operand<T, 4> dy, block<T, 4> dw, conv2d_geometry const& geometry) {
    by_.sum(
        by_.flat(dw),
        [&](auto to, auto images, auto gradients) {
          one_.conv2d_backward_weight(images, gradients, block<T, 4>{to.data, dw.extents}, geometry);
        },
        x, dy);
  }

  template <class T>
  void softmax_forward(operand<T, 3> x, block<T, 3> y) {
    by_.each([&](auto... part) { one_.softmax_forward(part...); }, x, y);
  }
  template <class T>
  void softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx) {
    by_.each([&](auto... part) { one_.softmax_backward(part...); }, y, dy, dx);
  }
  template <class T>
  void log_softmax_forward(operand<T, 3> x, block<T, 3> y) {
    by_.each([&](auto... part) { one_.log_softmax_forward(part...); }, x, y);
  }
  template <class T>
  void log_softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx) {
    by_.each([&](auto... part) { one_.log_softmax_backward(part...); }, y, dy, dx);
  }
  template <class T>
  void row_sum_exp(operand<T, 3> x, operand<T, 2> maximum, block<T, 2> sums) {
    by_.each([&](auto... part) { one_.row_sum_exp(part...); }, x, maximum, sums);
  }
  template <class T>
  void softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sums, block<T, 3> y) {
    by_.each([&](auto... part) { one_.softmax_finish(part...); }, x, maximum, sums, y);
  }
  template <class T>
  void log_softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sums, block<T, 3> y) {
    by_.each([&](auto... part) { one_.log_softmax_finish(part...); }, x, maximum, sums, y);
  }
  template <class T>
  void row_dot(operand<T, 3> y, operand<T, 3> dy, block<T, 2> dot) {
    by_.each([&](auto... part) { one_.row_dot(part...); }, y, dy, dot);
  }
  template <class T>
  void row_sum(operand<T, 3> x, block<T, 2> sums) {
    by_.each([&](auto... part) { one_.row_sum(part...); }, x, sums);
  }
  template <class T>
  void softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> dot, block<T, 3> dx) {
    by_.each([&](auto... part) { one_.softmax_backward_finish(part...); }, y, dy, dot, dx);
  }
  template <class T>
  void log_softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> sums, block<T, 3> dx) {
    by_.each([&](auto... part) { one_.log_softmax_backward_finish(part...); }, y, dy, sums, dx);
  }
  template <class T>
  void exp(operand<T, 1> x, block<T, 1> y) {
    by_.each([&](auto... part) { one_.exp(part...); }, x, y);
  }
  template <class T>
  void log(operand<T, 1> x, block<T, 1> y) {
    by_.each([&](auto... part) { one_.log(part...); }, x, y);
  }

  template <class T>
  cross_entropy_totals cross_entropy_loss(operand<T, 2> sums, block<std::int64_t const, 1> labels,
                                          cross_entropy_part<std::type_identity_t<T>> const& part,
                                          block<T, 1> row_loss) {
    return total_loss(labels.size(), [&](detail::row_blocks of, index_t i) {
      const auto columns = of.template columns_of<memory_type, T>(sums, i);
      return one_.cross_entropy_loss(columns.read(), of.rows_of(labels, i), part, of.rows_of(row_loss, i));
    });
  }
  template <class T>
  void cross_entropy_gradient(operand<T, 2> logits, block<std::int64_t const, 1> labels, operand<T, 1> maximum,
                              operand<T, 2> sums, cross_entropy_part<std::type_identity_t<T>> const& part, double scale,
                              operand<T, 1> row_scale, block<T, 2> dlogits) {
    by_.each_numbered(
        [&](detail::row_blocks of, index_t i, auto x, auto label, auto most, auto factor, auto dx) {
          const auto columns = of.template columns_of<memory_type, T>(sums, i);
          one_.cross_entropy_gradient(x, label, most, columns.read(), part, scale, factor, dx);
        },
        logits, labels, maximum, row_scale, dlogits);
  }
  template <class T>
  cross_entropy_totals cross_entropy_probability_loss(operand<T, 2> sums, block<T, 1> row_loss) {
    return total_loss(sums.extents[1], [&](detail::row_blocks of, index_t i) {
      const auto columns = of.template columns_of<memory_type, T>(sums, i);
      return one_.cross_entropy_probability_loss(columns.read(), of.rows_of(row_loss, i));
    });
  }
  template <class T>
  void cross_entropy_probability_gradient(operand<T, 2> logits, operand<T, 2> targets, operand<T, 1> maximum,
                                          operand<T, 2> sums, cross_entropy_part<std::type_identity_t<T>> const& part,
                                          double scale, operand<T, 1> row_scale, block<T, 2> dlogits) {
    by_.each_numbered(
        [&](detail::row_blocks of, index_t i, auto x, auto target, auto most, auto factor, auto dx) {
          const auto columns = of.template columns_of<memory_type, T>(sums, i);
          one_.cross_entropy_probability_gradient(x, target, most, columns.read(), part, scale, factor, dx);
        },
        logits, targets, maximum, row_scale, dlogits);
  }

  template <class T>
  void batch_norm_moments(block<T const, 2> x, block<double, 2> moments) {
    by_.tree(
        by_.flat(moments), [](auto into, auto from) { merge_moments(into, from); },
        [&](auto to, auto rows) {
          one_.batch_norm_moments(rows, block<double, 2>{to.data, moments.extents});
        },
        x);
  }
  /// Makes the moments (count, mean, sum of squared deviations) in `into` those of the union with `from`.
  static void merge_moments(block<double, 1> into, block<double const, 1> from) {
    for (index_t c = 0; c < into.size(); c += 3)
      if (from.data[c] > 0) detail::eigen_kernels::merge_moments(into.data + c, from.data + c);
  }
  template <class T>
  void batch_norm_normalize(operand<T, 2> x, block<double const, 1> mean, block<double const, 1> inv_std,
                            operand<T, 1> gamma, operand<T, 1> beta, block<T, 2> y) {
    by_.each([&](auto from, auto to) { one_.batch_norm_normalize(from, mean, inv_std, gamma, beta, to); }, x, y);
  }
  template <class T>
  void batch_norm_backward_sums(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                block<double const, 1> inv_std, block<T, 1> sums) {
    by_.sum(
        sums,
        [&](auto to, auto value, auto gradient) { one_.batch_norm_backward_sums(value, gradient, mean, inv_std, to); },
        x, dy);
  }
  template <class T>
  void batch_norm_backward_input(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                 block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> sums, double count,
                                 block<T, 2> dx) {
    by_.each([&](auto value, auto gradient,
                 auto to) { one_.batch_norm_backward_input(value, gradient, mean, inv_std, gamma, sums, count, to); },
             x, dy, dx);
  }

  template <class T>
  void row_normalize_backward(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                              block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 2> dx, block<T, 1> dgamma,
                              block<T, 1> dbeta) {
    by_.template both_sums<T>(
        dgamma, dbeta,
        [&](auto g, auto b, auto value, auto gradient, auto m, auto s, auto to) {
          one_.row_normalize_backward(value, gradient, m, s, gamma, to, g, b);
        },
        x, dy, mean, inv_std, dx);
  }
  template <class T>
  void row_normalize_backward_sums(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                   block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 1> sums,
                                   block<T, 1> dgamma, block<T, 1> dbeta) {
    // The sums of a row lie `rows` apart: two columns of a matrix that is walked by rows.
    const index_t terms = mean.data == nullptr ? 1 : 2;
    tensor<T, 2, memory_type> by_row(shape<2>{{x.extents[0], terms}});
    by_.template both_sums<T>(
        dgamma, dbeta,
        [&](auto g, auto b, auto value, auto gradient, auto m, auto s, auto to) {
          tensor<T, 1, memory_type> of_block(shape<1>{{to.size()}});
          one_.row_normalize_backward_sums(value, gradient, m, s, gamma, of_block.view(), g, b);
          detail::transpose<T>(of_block.data(), terms, to.extents[0], to.data);
        },
        x, dy, mean, inv_std, by_row.view());
    detail::transpose<T>(by_row.data(), x.extents[0], terms, sums.data);
  }
  template <class T>
  void group_norm_moments(block<T const, 4> x, index_t groups, block<double, 2> moments) {
    one_.group_norm_moments(x, groups, moments);
  }
  template <class T>
  void group_norm_backward_sums(operand<T, 4> x, operand<T, 4> dy, index_t groups, block<double const, 1> mean,
                                block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 1> sums,
                                block<T, 1> dgamma, block<T, 1> dbeta) {
    const index_t rows = x.extents[0] * groups;
    tensor<T, 2, memory_type> by_row(shape<2>{{rows, 2}});
    by_.template both_sums<T>(
        dgamma, dbeta,
        [&](auto g, auto b, auto value, auto gradient, auto m, auto s, auto to) {
          tensor<T, 1, memory_type> of_block(shape<1>{{to.size()}});
          one_.group_norm_backward_sums(value, gradient, groups, m, s, gamma, of_block.view(), g, b);
          detail::transpose<T>(of_block.data(), 2, to.extents[0], to.data);
        },
        x, dy, mean, inv_std, by_row.view());
    detail::transpose<T>(by_row.data(), rows, 2, sums.data);
  }

  template <class T>
  void embedding_backward(block<std::int64_t const, 1> indices, operand<T, 2> dy, index_t first, std::int64_t padding,
                          block<T, 2> dweight) {
    by_.sum(
        by_.flat(dweight),
        [&](auto to, auto places, auto gradient) {
          one_.embedding_backward(places, gradient, first, padding, block<T, 2>{to.data, dweight.extents});
        },
        indices, dy);
  }
  template <class T>
  void global_avg_pool_forward(operand<T, 4> x, block<T, 4> y, index_t count) {
    one_.global_avg_pool_forward(x, y, count);
  }
  template <class T>
  void batch_matmul(operand<T, 4> a, bool transpose_a, operand<T, 4> b, bool transpose_b, block<T, 4> out) {
    const auto product = [&](auto p, auto q, auto to) { one_.batch_matmul(p, transpose_a, q, transpose_b, to); };
    // An operand that is used for all matrices stays whole.
    if (a.extents[0] == 1)
      by_.each([&](auto q, auto to) { product(a, q, to); }, b, out);
    else if (out.extents[0] == 1)
      by_.sum(
          by_.flat(out),
          [&](auto to, auto p, auto q) {
            product(p, q, block<T, 4>{to.data, out.extents});
          },
          a, b);
    else if (b.extents[0] == 1)
      by_.each([&](auto p, auto to) { product(p, b, to); }, a, out);
    else
      by_.each(product, a, b, out);
  }
  template <class T>
  void sum_broadcast(operand<T, 6> x, block<T, 6> y) {
    int dim = 0;
    while (dim < 5 && x.extents[dim] == 1) ++dim;
    if (y.extents[dim] != 1) return one_.sum_broadcast(x, y);
    index_t each_row = 1;
    for (int d = dim + 1; d < 6; ++d) each_row *= x.extents[d];
    by_.sum(
        by_.flat(y),
        [&](auto to, auto rows) {
          auto part = x;
          part.data = rows.data;
          part.extents[dim] = rows.extents[0];
          one_.sum_broadcast(part, block<T, 6>{to.data, y.extents});
        },
        block<T const, 2>{x.data, {x.extents[dim], each_row}});
  }
  template <class T>
  double square_sum(block<T const, 1> x) {
    return one_.square_sum(x);
  }

 private:
  template <class F>
  cross_entropy_totals total_loss(index_t rows, F f) {
    const auto of = by_.blocks_of(rows);
    double totals[2];
    detail::sum_tree<double, memory_type>(
        {totals, {{2}}}, of.count,
        [&](index_t i, block<double, 1> to) {
          const cross_entropy_totals part = f(of, i);
          to.data[0] = part.loss;
          to.data[1] = part.weight;
        },
        [](block<double, 1> into, block<double const, 1> from) {
          for (index_t i = 0; i < 2; ++i) into.data[i] += from.data[i];
        });
    return {totals[0], totals[1]};
  }

  checked_backend<Backend> one_{};  // on one thread
  detail::by_blocks<memory_type> by_{};
};

}  // namespace tessera
