#pragma once

#include <tessera/backend/ascend/optimizer_members.hpp>
#include <tessera/backend/geometry.hpp>

#include <aclnnop/aclnn_convolution.h>
#include <aclnnop/aclnn_convolution_backward.h>

#include <algorithm>

namespace tessera::detail::ascend_kernels {

/// Convolutions of images [N, C, H, W] with kernels [O, C / groups, kh, kw].
///
/// aclnn pads both sides of a dimension alike and decides itself how many outputs there are. Where that is not what the
/// geometry says (halos of neighbours, rows that are skipped), the pixels that the outputs see are copied first.
class convolution_members : public optimizer_members {
 public:
  using optimizer_members::optimizer_members;
  using images = block<float, 4, storage_order::row_major>;
  using read_images = block<float const, 4, storage_order::row_major>;

  void conv2d_forward(read_images x, read_images w, images y, conv2d_geometry const& geometry) {
    if (y.empty()) return;
    if (x.empty() || w.empty()) return fill_with(y.data, y.size(), 0);
    const seen_pixels seen(x.extents, y.extents, geometry);
    const auto copied = seen.as_they_are ? temporary<float>{} : cut_out(x, seen);
    const read_images from{seen.as_they_are ? x.data : copied.data, seen.extents};
    run<TESSERA_ACLNN(Convolution)>(view(from), view(w), nullptr, pair(geometry.stride), pair(seen.padding),
                                    pair(geometry.dilation), false, pair({0, 0}), geometry.groups, view(y), cube());
  }
  void conv2d_backward_input(read_images w, read_images dy, images dx, conv2d_geometry const& geometry) {
    if (dx.empty()) return;
    if (dy.empty() || w.empty()) return fill_with(dx.data, dx.size(), 0);
    const seen_pixels seen(dx.extents, dy.extents, geometry);
    // The gradient does not depend on the images, of which only the extents are looked at.
    if (seen.as_they_are) return backward(dy, dx, w, geometry, seen, {true, false, false}, view(dx), tensor_handle{});
    const auto of_seen = scratch(seen.extents.size());
    const images gradient{of_seen.data, seen.extents};
    backward(dy, gradient, w, geometry, seen, {true, false, false}, view(gradient), tensor_handle{});
    fill_with(dx.data, dx.size(), 0);
    if (seen.empty()) return;
    run<TESSERA_ACLNN(InplaceCopy)>(part_of_images(dx.data, dx.extents, seen.from, seen.size),
                                    part_of_images(gradient.data, gradient.extents, seen.to, seen.size));
  }
  void conv2d_backward_weight(read_images x, read_images dy, images dw, conv2d_geometry const& geometry) {
    if (dw.empty()) return;
    if (x.empty() || dy.empty()) return fill_with(dw.data, dw.size(), 0);
    const seen_pixels seen(x.extents, dy.extents, geometry);
    const auto copied = seen.as_they_are ? temporary<float>{} : cut_out(x, seen);
    const read_images from{seen.as_they_are ? x.data : copied.data, seen.extents};
    backward(dy, from, dw, geometry, seen, {false, true, false}, tensor_handle{}, view(dw));
  }

 private:
  /// Which pixels the outputs see, and how: as they lie, with `padding` on both sides; or those from `from` on, `size`
  /// of them, as the pixels from `to` on of images of `extents`, the others of which are 0.
  struct seen_pixels {
    shape<4> extents;
    pair2d padding{0, 0};
    pair2d from{0, 0};
    pair2d to{0, 0};
    pair2d size{0, 0};
    bool as_they_are = true;

    seen_pixels(shape<4> const& x, shape<4> const& y, conv2d_geometry const& g) : extents(x) {
      for (int d = 0; d < 2; ++d) {
        const auto i = static_cast<std::size_t>(d);
        conv2d_geometry even = g;
        even.padding_before[i] = even.padding_after[i] = padding[i] = g.padding_before[i];
        as_they_are = as_they_are && padding[i] >= 0 && even.output_extent(d, x[2 + d]) == y[2 + d];
      }
      if (as_they_are) return;
      for (std::size_t i = 0; i < 2; ++i) {
        const int d = static_cast<int>(i) + 2;
        extents[d] = (y[d] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1;
        padding[i] = 0;
        from[i] = std::max<index_t>(0, -g.padding_before[i]);
        to[i] = std::max<index_t>(0, g.padding_before[i]);
        size[i] = std::max<index_t>(0, std::min(x[d] - from[i], extents[d] - to[i]));
      }
    }
    bool empty() const { return size[0] == 0 || size[1] == 0; }
  };

  temporary<float> cut_out(read_images x, seen_pixels const& seen) {
    auto made = scratch(seen.extents.size());
    fill_with(made.data, seen.extents.size(), 0);
    if (!seen.empty())
      run<TESSERA_ACLNN(InplaceCopy)>(part_of_images(made.data, seen.extents, seen.to, seen.size),
                                      part_of_images(x.data, x.extents, seen.from, seen.size));
    return made;
  }
  void backward(read_images dy, read_images x, read_images w, conv2d_geometry const& g, seen_pixels const& seen,
                std::initializer_list<bool> wanted, tensor_handle const& dx, tensor_handle const& dw) {
    run<TESSERA_ACLNN(ConvolutionBackward)>(view(dy), view(x), view(w), nullptr, pair(g.stride), pair(seen.padding),
                                            pair(g.dilation), false, pair({0, 0}), static_cast<int>(g.groups),
                                            flags(wanted), cube(), dx, dw, nullptr);
  }
  static integers_handle pair(pair2d const& of) { return integers({of[0], of[1]}); }
};

}  // namespace tessera::detail::ascend_kernels
