#pragma once

#include <tessera/backend/ascend/batch_norm_members.hpp>

#include <aclnnop/aclnn_eq_tensor.h>
#include <aclnnop/aclnn_maximum.h>
#include <aclnnop/aclnn_s_where.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tessera::detail::ascend_kernels {

/// Pooling of images [N, C, H, W], place of the window by place of the window: at each one, the pixels that the outputs
/// see are a view of the images with the strides of the windows.
///
/// aclnn's own maximum pooling gives places in another form on the 910 (a mask), rounds float to FP16 there, and knows
/// no padding that differs from side to side. These loops have neither limit, and their gradients are the same from run
/// to run.
class pooling_members : public batch_norm_members {
 public:
  using batch_norm_members::batch_norm_members;
  using places = block<std::int32_t, 4, storage_order::row_major>;
  using read_places = block<std::int32_t const, 4, storage_order::row_major>;

  /// y and, in `argmax`, the place h * W + w of the largest value of each window: padding is minus infinity, the first
  /// in row-major order wins, NaN is larger than anything. A window of padding only gives minus infinity and -1.
  void max_pool2d_forward(read_images x, images y, places argmax, pool2d_geometry const& g) {
    if (y.empty()) return;
    fill_with(y.data, y.size(), -std::numeric_limits<float>::infinity());
    fill_with(argmax.data, argmax.size(), -1);
    if (x.empty()) return;
    for_each_place(x.extents, y.extents, g, [&](window_place const& at) {
      const auto to = at.outputs(y.data, y.extents);
      run<TESSERA_ACLNN(Maximum)>(to, at.pixels(x.data, x.extents), to);
    });
    // From the last place to the first, so that the first of equals stays.
    const auto base = places_of_windows(x.extents, y.extents, g);
    const auto temporaries = scratch<bool>(2 * y.size());
    const auto numbers = scratch<std::int32_t>(y.size() + y.extents[2] * y.extents[3]);
    for_each_place<true>(x.extents, y.extents, g, [&](window_place const& at) {
      const shape<4> some{{y.extents[0], y.extents[1], at.count[0], at.count[1]}};
      const auto values = at.pixels(x.data, x.extents);
      const auto where = at.outputs(argmax.data, y.extents);
      const auto largest = view(temporaries.data, all_of(some), ACL_FORMAT_NCHW);
      const auto is_number = view(temporaries.data + y.size(), all_of(some), ACL_FORMAT_NCHW);
      const auto found = view(numbers.data + y.extents[2] * y.extents[3], all_of(some), ACL_FORMAT_NCHW);
      const auto place = place_numbers(base.data, x.extents[3], y.extents, at, numbers.data);
      run<TESSERA_ACLNN(EqTensor)>(values, at.outputs(y.data, y.extents), largest);
      run<TESSERA_ACLNN(EqTensor)>(values, values, is_number);
      run<TESSERA_ACLNN(SWhere)>(largest, place, where, found);
      run<TESSERA_ACLNN(SWhere)>(is_number, found, place, where);
    });
  }
  void max_pool2d_backward(read_images dy, read_places argmax, images dx, pool2d_geometry const& g) {
    if (dx.empty()) return;
    fill_with(dx.data, dx.size(), 0);
    if (dy.empty()) return;
    const auto base = places_of_windows(dx.extents, dy.extents, g);
    const auto numbers = scratch<std::int32_t>(dy.extents[2] * dy.extents[3]);
    const auto equal = scratch<bool>(dy.size());
    const auto parts = scratch(dy.size() + 1);
    fill_with(parts.data + dy.size(), 1, 0);
    for_each_place(dx.extents, dy.extents, g, [&](window_place const& at) {
      const shape<4> some{{dy.extents[0], dy.extents[1], at.count[0], at.count[1]}};
      const auto is_here = view(equal.data, all_of(some), ACL_FORMAT_NCHW);
      const auto part = view(parts.data, all_of(some), ACL_FORMAT_NCHW);
      run<TESSERA_ACLNN(EqTensor)>(at.outputs(argmax.data, dy.extents),
                                   place_numbers(base.data, dx.extents[3], dy.extents, at, numbers.data), is_here);
      run<TESSERA_ACLNN(SWhere)>(is_here, at.outputs(dy.data, dy.extents), view(parts.data + dy.size(), {1}), part);
      run<TESSERA_ACLNN(InplaceAdd)>(at.pixels(dx.data, dx.extents), part, number(1.0f));
    });
  }
  void avg_pool2d_forward(read_images x, images y, pool2d_geometry const& g) {
    if (y.empty()) return;
    fill_with(y.data, y.size(), 0);
    if (x.empty()) return;
    for_each_place(x.extents, y.extents, g, [&](window_place const& at) {
      run<TESSERA_ACLNN(InplaceAdd)>(at.outputs(y.data, y.extents), at.pixels(x.data, x.extents), number(1.0f));
    });
    const auto counts = window_counts(x.extents, y.extents, g);
    run<TESSERA_ACLNN(InplaceDiv)>(view(y), view(counts.data, {1, 1, y.extents[2], y.extents[3]}, ACL_FORMAT_NCHW));
  }
  void avg_pool2d_backward(read_images dy, images dx, pool2d_geometry const& g) {
    if (dx.empty()) return;
    fill_with(dx.data, dx.size(), 0);
    if (dy.empty()) return;
    const auto counts = window_counts(dx.extents, dy.extents, g);
    const auto shares = scratch(dy.size());
    const images share{shares.data, dy.extents};
    run<TESSERA_ACLNN(Div)>(view(dy), view(counts.data, {1, 1, dy.extents[2], dy.extents[3]}, ACL_FORMAT_NCHW),
                            view(share));
    for_each_place(dx.extents, dy.extents, g, [&](window_place const& at) {
      run<TESSERA_ACLNN(InplaceAdd)>(at.pixels(dx.data, dx.extents), at.outputs(share.data, dy.extents), number(1.0f));
    });
  }

 private:
  static std::span<index_t const> all_of(shape<4> const& s) { return s.extents; }

  /// One place of the window, and the outputs for which it lies inside the image.
  struct window_place {
    pair2d first;   ///< of these outputs
    pair2d count;   ///< how many there are
    pair2d pixel;   ///< that the first sees here
    pair2d offset;  ///< from where an output's window would begin without padding, to the pixel that it sees here
    pair2d stride;

    template <class T>
    tensor_handle pixels(T* data, shape<4> const& of) const {
      return part_of_images(data, of, pixel, count, stride);
    }
    template <class T>
    tensor_handle outputs(T* data, shape<4> const& of) const {
      return part_of_images(data, of, first, count);
    }
  };
  /// Calls `with` for each place in row-major order, or from the last to the first. `before` and `after` are
  /// how many pixels beyond the image's edges count as inside.
  template <bool Backwards = false, class With>
  static void for_each_place(shape<4> const& x, shape<4> const& y, pool2d_geometry const& g, With with,
                             pair2d before = {0, 0}, pair2d after = {0, 0}) {
    const index_t size = g.kernel[0] * g.kernel[1];
    for (index_t i = 0; i < size; ++i) {
      const index_t place = Backwards ? size - 1 - i : i;
      const pair2d in_window{place / g.kernel[1], place % g.kernel[1]};
      window_place at{{}, {}, {}, {}, g.stride};
      bool any = true;
      for (std::size_t d = 0; d < 2; ++d) {
        const int dim = static_cast<int>(d) + 2;
        at.offset[d] = in_window[d] * g.dilation[d] - g.padding_before[d];
        // Outputs o with -before <= o * stride + offset < extent + after.
        const index_t low = -before[d] - at.offset[d];
        const index_t high = x[dim] + after[d] - 1 - at.offset[d];
        at.first[d] = low <= 0 ? 0 : (low + g.stride[d] - 1) / g.stride[d];
        const index_t end = high < 0 ? 0 : std::min(y[dim], high / g.stride[d] + 1);
        at.count[d] = end - at.first[d];
        at.pixel[d] = at.first[d] * g.stride[d] + at.offset[d];
        any = any && at.count[d] > 0;
      }
      if (any) with(at);
    }
  }
  /// For each output pixel the number of the pixel h * W + w where its window would begin without padding.
  temporary<std::int32_t> places_of_windows(shape<4> const& x, shape<4> const& y, pool2d_geometry const& g) {
    auto made = scratch<std::int32_t>(y[2] * y[3]);
    const auto sides = scratch<std::int32_t>(y[2] + y[3]);
    const auto side = [&](std::int32_t* data, index_t count, index_t step) {
      run<TESSERA_ACLNN(Arange)>(number(index_t{0}), number(count * step), number(step), view(data, {count}));
    };
    side(sides.data, y[2], g.stride[0] * x[3]);
    side(sides.data + y[2], y[3], g.stride[1]);
    run<TESSERA_ACLNN(Add)>(view(sides.data, {y[2], 1}), view(sides.data + y[2], {1, y[3]}), number(std::int32_t{1}),
                            view(made.data, {y[2], y[3]}));
    return made;
  }
  /// The numbers of the pixels that outputs see at a place, for all images.
  tensor_handle place_numbers(std::int32_t const* base, index_t width, shape<4> const& y, window_place const& at,
                              std::int32_t* result) {
    auto numbers = view(result, {1, 1, at.count[0], at.count[1]}, ACL_FORMAT_NCHW);
    run<TESSERA_ACLNN(Adds)>(part_of_images(base, {{1, 1, y[2], y[3]}}, at.first, at.count),
                             number(static_cast<std::int32_t>(at.offset[0] * width + at.offset[1])),
                             number(std::int32_t{1}), numbers);
    return numbers;
  }
  /// What each output is divided by: the pixels of its window, those of the padding only where they count.
  temporary<float> window_counts(shape<4> const& x, shape<4> const& y, pool2d_geometry const& g) {
    const shape<4> one{{1, 1, y[2], y[3]}};
    auto made = scratch(one.size());
    fill_with(made.data, one.size(), 0);
    const auto count = [&](window_place const& at) {
      run<TESSERA_ACLNN(InplaceAdds)>(at.outputs(made.data, one), number(1.0f), number(1.0f));
    };
    constexpr index_t everything = std::numeric_limits<std::int32_t>::max();
    if (g.count_include_pad)
      for_each_place(x, y, g, count, {everything, everything}, g.padding_after);
    else
      for_each_place(x, y, g, count);
    // A window without pixels has the sum 0, and that is its mean.
    const auto least = scratch(1);
    fill_with(least.data, 1, 1);
    const auto counts = view(made.data, {one.size()});
    run<TESSERA_ACLNN(Maximum)>(counts, view(least.data, {1}), counts);
    return made;
  }
};

}  // namespace tessera::detail::ascend_kernels
