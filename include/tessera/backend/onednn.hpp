#pragma once

#include <tessera/backend/eigen.hpp>
#include <tessera/backend/onednn/conv2d.hpp>
#include <tessera/backend/onednn/product.hpp>

#include <type_traits>

namespace tessera {

/// The backend `eigen` with matrix products and convolutions of float by oneDNN, which makes code for the processor
/// that it finds, whatever the program was compiled for.
///
///     ts::session<world, ts::onednn> session{argc, argv};
///
/// Everything else is Eigen's kernel: double, products of matrices that lie side by side, convolutions that skip rows
/// of their input, and whatever oneDNN computes no faster or by other rules (its softmax loses a NaN, its batch and
/// layer norm have statistics in float). Results are as `eigen` documents them and differ from its own by rounding;
/// products and convolutions may differ in the last bits between numbers of threads and are the same from run to run.
/// Convolutions of 3 x 3 windows are by Winograd's method where that is faster (`use_winograd`).
///
/// The object keeps a primitive for each convolution that it has met. Not part of `tessera.hpp`: link the CMake target
/// `tessera::onednn`, which is there where oneDNN is found.
class onednn : public eigen {
 public:
  onednn() = default;
  /// As `eigen`.
  explicit onednn(int threads, index_t grain = detail::parallel_grain)
      : eigen(threads, grain), scratch_(threads, grain) {}

  void use_threads(int threads) {
    eigen::use_threads(threads);
    scratch_.use_threads(threads);
    convolutions_.clear();
  }

  /// Whether convolutions of 3 x 3 windows of many channels are computed in tiles of 4 x 4 results, with a quarter of
  /// the products, from now on; true at first. Errors are at most eight times those of the direct method (root mean
  /// square; of weight gradients, less of the rest). A NaN or an infinite value makes NaN of all results of its tile,
  /// and of the gradients of its channel's weights. Blocks of few pixels are computed directly, so that a split can
  /// change the method.
  void use_winograd(bool use) { convolutions_.use_winograd(use); }

  // Kernels as in `eigen`.

  template <class T>
  void matmul(operand<T, 2> a, bool transpose_a, operand<T, 2> b, bool transpose_b, block<T, 2> out,
              bool accumulate = false) {
    if constexpr (std::is_same_v<T, float>) {
      const detail::onednn_kernels::on_threads here(threads());
      detail::onednn_kernels::multiply(a, transpose_a, b, transpose_b, out, accumulate);
    } else {
      eigen::matmul<T>(a, transpose_a, b, transpose_b, out, accumulate);
    }
  }
  template <class T>
  void batch_matmul(operand<T, 4> a, bool transpose_a, operand<T, 4> b, bool transpose_b, block<T, 4> out) {
    if constexpr (std::is_same_v<T, float>) {
      const bool some = !a.empty() && !b.empty() && !out.empty();
      if (some && a.extents[1] == 1 && b.extents[1] == 1) {
        const detail::onednn_kernels::on_threads here(threads());
        return detail::onednn_kernels::multiply_each(a, transpose_a, b, transpose_b, out, scratch_);
      }
    }
    eigen::batch_matmul<T>(a, transpose_a, b, transpose_b, out);
  }

  template <class T>
  void conv2d_forward(operand<T, 4> x, operand<T, 4> w, block<T, 4> y, conv2d_geometry const& geometry) {
    if (!convolve<T>(detail::onednn_kernels::convolved::results, x, w, y, geometry))
      eigen::conv2d_forward<T>(x, w, y, geometry);
  }
  template <class T>
  void conv2d_backward_input(operand<T, 4> w, operand<T, 4> dy, block<T, 4> dx, conv2d_geometry const& geometry) {
    if (!convolve<T>(detail::onednn_kernels::convolved::images, dx, w, dy, geometry))
      eigen::conv2d_backward_input<T>(w, dy, dx, geometry);
  }
  template <class T>
  void conv2d_backward_weight(operand<T, 4> x, operand<T, 4> dy, block<T, 4> dw, conv2d_geometry const& geometry) {
    if (!convolve<T>(detail::onednn_kernels::convolved::weights, x, dw, dy, geometry))
      eigen::conv2d_backward_weight<T>(x, dy, dw, geometry);
  }

 private:
  template <class T>
  bool convolve(detail::onednn_kernels::convolved what, operand<T, 4> x, operand<T, 4> w, operand<T, 4> y,
                conv2d_geometry const& geometry) {
    if constexpr (std::is_same_v<T, float>) {
      // The library's handles are to elements that may be written.
      const auto handle = [](block<float const, 4> b) -> block<float, 4> {
        return {const_cast<float*>(b.data), b.extents};
      };
      const detail::onednn_kernels::on_threads here(threads());
      return convolutions_.run(what, {handle(x), handle(w), handle(y)}, geometry, scratch_);
    } else {
      return false;
    }
  }

  detail::eigen_kernels::workspace scratch_;
  detail::onednn_kernels::convolutions convolutions_;
};

}  // namespace tessera
