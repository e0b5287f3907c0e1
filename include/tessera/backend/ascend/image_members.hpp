#pragma once

#include <tessera/backend/ascend/pooling_members.hpp>

#include <algorithm>

namespace tessera::detail::ascend_kernels {

/// Means of whole images and of windows of them, and images as rows.
class image_members : public pooling_members {
 public:
  using pooling_members::pooling_members;

  /// y [N, C, 1, 1] = sum over height and width / `count`.
  void global_avg_pool_forward(read_images x, images y, index_t count) {
    if (y.empty()) return;
    if (x.empty()) return fill_with(y.data, y.size(), 0);
    run<TESSERA_ACLNN(ReduceSum)>(view(x), integers({2, 3}), true, ACL_FLOAT, view(y));
    const out flat{y.data, {{y.size()}}};
    scale(flat, 1 / static_cast<float>(count), flat);
  }
  void global_avg_pool_backward(read_images dy, images dx, index_t count) {
    if (dx.empty()) return;
    const auto shares = scratch(dy.size());
    scale({dy.data, {{dy.size()}}}, 1 / static_cast<float>(count), {shares.data, {{dy.size()}}});
    run<TESSERA_ACLNN(InplaceCopy)>(view(dx), view(images{shares.data, dy.extents}));
  }
  /// y = what the block adds to the means of windows over whole images (`adaptive_window`).
  void adaptive_avg_pool_forward(read_images x, images y, image_part const& part) {
    if (y.empty()) return;
    fill_with(y.data, y.size(), 0);
    if (x.empty()) return;
    for_windows(x.extents, y.extents, part, [&](tensor_window const& w) {
      const auto to = part_of_images(y.data, y.extents, w.output, {1, 1});
      run<TESSERA_ACLNN(ReduceSum)>(part_of_images(x.data, x.extents, w.begin, w.extents), integers({2, 3}), true,
                                    ACL_FLOAT, to);
      run<TESSERA_ACLNN(InplaceMuls)>(to, number(w.share));
    });
  }
  void adaptive_avg_pool_backward(read_images dy, images dx, image_part const& part) {
    if (dx.empty()) return;
    fill_with(dx.data, dx.size(), 0);
    if (dy.empty()) return;
    for_windows(dx.extents, dy.extents, part, [&](tensor_window const& w) {
      run<TESSERA_ACLNN(InplaceAdd)>(part_of_images(dx.data, dx.extents, w.begin, w.extents),
                                     part_of_images(dy.data, dy.extents, w.output, {1, 1}), number(w.share));
    });
  }

  /// [N, C, H, W] to [N, C * H * W], channel-major, as these images lie.
  void flatten(read_images x, rows y) { copy(in{x.data, {{x.size()}}}, out{y.data, {{x.size()}}}); }
  void unflatten(block<float const, 2> y, images x) { copy(in{y.data, {{x.size()}}}, out{x.data, {{x.size()}}}); }

 private:
  /// A window of adaptive pooling, as far as it lies in the block.
  struct tensor_window {
    pair2d output;
    pair2d begin{};
    pair2d extents{};
    float share = 0;  ///< 1 / pixels of the whole window
  };
  template <class With>
  static void for_windows(shape<4> const& x, shape<4> const& y, image_part const& part, With with) {
    for (index_t h = 0; h < y[2]; ++h)
      for (index_t w = 0; w < y[3]; ++w) {
        tensor_window window{{h, w}};
        index_t pixels = 1;
        for (std::size_t d = 0; d < 2; ++d) {
          const int dim = static_cast<int>(d) + 2;
          const interval whole = adaptive_window(window.output[d], y[dim], part.extents[d]);
          window.begin[d] = std::max<index_t>(0, whole.begin - part.begins[d]);
          window.extents[d] = std::min(x[dim], whole.end() - part.begins[d]) - window.begin[d];
          pixels *= whole.size;
        }
        window.share = 1 / static_cast<float>(pixels);
        if (window.extents[0] > 0 && window.extents[1] > 0) with(window);
      }
  }
};

}  // namespace tessera::detail::ascend_kernels
