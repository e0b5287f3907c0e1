#pragma once

#include <tessera/core/partition.hpp>

#include <array>

namespace tessera {

/// One number for height and one for width.
using pair2d = std::array<index_t, 2>;

/// How a 2-D convolution walks its input (cross-correlation, zero padding), as the block at hand sees it.
///
/// Under a spatial split the block may carry halo rows of its neighbours: paddings then differ from side to side, and
/// a negative padding skips rows that the block has but this output does not need. Kernels never recompute the output
/// extents; they take them from the output block.
struct conv2d_geometry {
  pair2d kernel{1, 1};
  pair2d stride{1, 1};
  pair2d padding_before{0, 0};  ///< rows above, columns to the left
  pair2d padding_after{0, 0};   ///< rows below, columns to the right
  pair2d dilation{1, 1};
  index_t groups = 1;  ///< divides both channel counts; group g maps its slice of input to its slice of output channels

  /// Extent of the output along spatial dimension `dim` (0 height, 1 width); 0 where the kernel does not fit.
  constexpr index_t output_extent(int dim, index_t input) const {
    const auto d = static_cast<std::size_t>(dim);
    const index_t room = input + padding_before[d] + padding_after[d] - dilation[d] * (kernel[d] - 1) - 1;
    return room < 0 ? 0 : room / stride[d] + 1;
  }
  friend constexpr bool operator==(conv2d_geometry const&, conv2d_geometry const&) = default;
};

/// How a 2-D pooling window walks its input. Paddings as in `conv2d_geometry`.
struct pool2d_geometry {
  pair2d kernel{1, 1};
  pair2d stride{1, 1};
  pair2d padding_before{0, 0};
  pair2d padding_after{0, 0};
  pair2d dilation{1, 1};          ///< maximum pooling only
  bool ceil_mode = false;         ///< also take a last window that overhangs, if it begins inside input or left padding
  bool count_include_pad = true;  ///< average pooling: whether the divisor counts padding

  /// Extent of the output along spatial dimension `dim` (0 height, 1 width); 0 where the window does not fit.
  constexpr index_t output_extent(int dim, index_t input) const {
    const auto d = static_cast<std::size_t>(dim);
    const index_t room = input + padding_before[d] + padding_after[d] - dilation[d] * (kernel[d] - 1) - 1;
    const index_t slack = ceil_mode ? stride[d] - 1 : 0;
    if (room + slack < 0) return 0;
    const index_t extent = (room + slack) / stride[d] + 1;
    return ceil_mode && (extent - 1) * stride[d] >= input + padding_before[d] ? extent - 1 : extent;
  }
  friend constexpr bool operator==(pool2d_geometry const&, pool2d_geometry const&) = default;
};

/// The rows that output `i` of `outputs` averages in adaptive pooling: from floor(i * extent / outputs) to before
/// ceil((i + 1) * extent / outputs).
constexpr interval adaptive_window(index_t i, index_t outputs, index_t extent) {
  const index_t begin = i * extent / outputs;
  return {begin, ((i + 1) * extent + outputs - 1) / outputs - begin};
}

/// Where a block lies in whole images, in height and width.
struct image_part {
  pair2d begins{0, 0};
  pair2d extents{1, 1};  ///< of the whole images
};

}  // namespace tessera
