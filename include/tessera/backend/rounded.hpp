#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/backend/eigen/workspace.hpp>
#include <tessera/core/number_format.hpp>

#include <type_traits>

namespace tessera {

/// The backend `B` with the arithmetic of matrix units that take operands of `Format`, by rounding: the operands of
/// matrix products, convolutions and attention are rounded to the format, products are added up in the element type of
/// the blocks, and results are rounded to the format (P. Micikevicius et al., "Mixed precision training", ICLR 2018).
/// Everything else is the kernel of `B`: sums, norms, softmax, losses and updates of parameters stay float.
///
///     ts::session<world, ts::rounded<ts::eigen, ts::bfloat16>> session{argc, argv};
///
/// Blocks are those of `B`, float or double, so parameters, gradients and messages are too. Numbers are as on a device
/// that computes in the format; times are not: rounding comes on top. What is added to an output is added before it is
/// rounded. Masks, and the probabilities inside attention, are not rounded. Each kernel is as reproducible as that of
/// `B`; the blocks lie in host memory.
template <class B, class Format>
class rounded : public B {
  static_assert(number_format<Format>,
                "tessera: rounded<Backend, Format> rounds to a floating-point format: name bfloat16 or float16");
  static_assert(backend<B>, "tessera: the first of rounded<Backend, Format> is not a backend: name one, as eigen");
  static_assert(
      computes_in<B, float>,
      "tessera: the backend of rounded<Backend, Format> has a format of its own already: name one that computes "
      "in float");
  static_assert(
      std::is_same_v<typename B::memory, host_memory>,
      "tessera: rounded computes on the host, and this backend's blocks lie elsewhere: name a backend on host "
      "memory");

 public:
  template <class F>
  static constexpr bool computes = std::is_same_v<F, Format>;

  rounded() = default;
  /// As `B`, where it has threads.
  explicit rounded(int threads,
                   index_t grain = detail::parallel_grain) requires std::is_constructible_v<B, int, index_t>
      : B(threads, grain), scratch_(threads, grain) {}

  void use_threads(int threads) requires requires(B b) { b.use_threads(threads); }
  {
    B::use_threads(threads);
    scratch_.use_threads(threads);
  }

  template <class T>
  void matmul(operand<T, 2> a, bool transpose_a, operand<T, 2> b, bool transpose_b, block<T, 2> out,
              bool accumulate = false) {
    B::matmul(in_format(0, a), transpose_a, in_format(1, b), transpose_b, out, accumulate);
    round(out);
  }
  template <class T>
  void batch_matmul(operand<T, 4> a, bool transpose_a, operand<T, 4> b, bool transpose_b, block<T, 4> out) {
    B::batch_matmul(in_format(0, a), transpose_a, in_format(1, b), transpose_b, out);
    round(out);
  }

  template <class T>
  void conv2d_forward(operand<T, 4> x, operand<T, 4> w, block<T, 4> y, conv2d_geometry const& geometry) {
    B::conv2d_forward(in_format(0, x), in_format(1, w), y, geometry);
    round(y);
  }
  template <class T>
  void conv2d_backward_input(operand<T, 4> w, operand<T, 4> dy, block<T, 4> dx, conv2d_geometry const& geometry) {
    B::conv2d_backward_input(in_format(0, w), in_format(1, dy), dx, geometry);
    round(dx);
  }
  template <class T>
  void conv2d_backward_weight(operand<T, 4> x, operand<T, 4> dy, block<T, 4> dw, conv2d_geometry const& geometry) {
    B::conv2d_backward_weight(in_format(0, x), in_format(1, dy), dw, geometry);
    round(dw);
  }

  template <class T>
  void attention_forward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_rows<T> out,
                         block<double, 3> log_sum, attention_geometry const& g, bool continued = false,
                         head_operand<T> mask = {}) {
    B::attention_forward(in_format(0, q, of_queries(g)), in_format(1, k, of_keys(g)), in_format(2, v, of_values(g)),
                         out, log_sum, g, continued, mask);
    round(head_operand<T>(out), out, of_results(g));
  }
  template <class T>
  void attention_delta(head_rows<T const> out, head_operand<T> dy, block<double, 3> delta,
                       attention_geometry const& g) {
    B::attention_delta(out, in_format(3, dy, of_results(g)), delta, g);
  }
  template <class T>
  void attention_backward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_operand<T> dy,
                          block<double const, 3> log_sum, block<double const, 3> delta, head_rows<T> dq,
                          head_rows<T> dk, head_rows<T> dv, attention_geometry const& g, head_operand<T> mask = {}) {
    B::attention_backward(in_format(0, q, of_queries(g)), in_format(1, k, of_keys(g)), in_format(2, v, of_values(g)),
                          in_format(3, dy, of_results(g)), log_sum, delta, dq, dk, dv, g, mask);
    round(head_operand<T>(dq), dq, of_queries(g));
    round(head_operand<T>(dk), dk, of_keys(g));
    round(head_operand<T>(dv), dv, of_values(g));
  }

 private:
  // Extents of head vectors: batch, heads, positions, width.
  static shape<4> of_queries(attention_geometry const& g) { return {{g.batch, g.heads, g.queries, g.width}}; }
  static shape<4> of_keys(attention_geometry const& g) { return {{g.batch, g.heads, g.keys, g.width}}; }
  static shape<4> of_values(attention_geometry const& g) { return {{g.batch, g.heads, g.keys, g.value_width}}; }
  static shape<4> of_results(attention_geometry const& g) { return {{g.batch, g.heads, g.queries, g.value_width}}; }

  template <class T>
  static void round_some(T const* from, T* to, index_t count) {
    for (index_t i = 0; i < count; ++i) to[i] = rounded_to<Format>(from[i]);
  }
  template <class T>
  void round(T const* from, T* to, index_t count) {
    scratch_.split_elements(to, count, 1,
                            [&](index_t begin, index_t end) { round_some(from + begin, to + begin, end - begin); });
  }
  template <class T, int Rank>
  void round(block<T, Rank> out) {
    round<T>(out.data, out.data, out.size());
  }
  template <class T>
  void round(head_rows<T const> from, head_rows<T> to, shape<4> const& extents) {
    scratch_.split(extents[0], extents[1] * extents[2] * extents[3], [&](index_t begin, index_t end, auto&) {
      for (index_t b = begin; b < end; ++b)
        for (index_t h = 0; h < extents[1]; ++h)
          for (index_t n = 0; n < extents[2]; ++n)
            round_some(from.at(b, h) + n * from.row, to.at(b, h) + n * to.row, extents[3]);
    });
  }

  /// A rounded copy in scratch memory, which lasts until the slot is used again.
  template <class T, int Rank>
  block<T const, Rank> in_format(int slot, block<T const, Rank> x) {
    T* copy = scratch_.template get<T>(slot, x.size());
    round<T>(x.data, copy, x.size());
    return {copy, x.extents};
  }
  template <class T>
  head_rows<T const> in_format(int slot, head_rows<T const> x, shape<4> const& extents) {
    const auto copy = packed_heads(scratch_.template get<T>(slot, extents.size()), extents[1], extents[2], extents[3]);
    round(x, copy, extents);
    return copy;
  }

  detail::eigen_kernels::workspace scratch_;
};

}  // namespace tessera
