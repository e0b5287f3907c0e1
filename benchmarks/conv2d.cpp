// A 3x3 convolution of 28x28 images, 128 to 128 channels: forward cut by batch, by output channels and by input
// channels (then summed over ranks), and backward cut by batch. By hand it is im2col, one image at a time.

#include "support/program.hpp"

#include <tessera/op/conv2d.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t images = 4;
constexpr ts::index_t channels = 128;
constexpr ts::index_t side = 28;
constexpr ts::index_t pixels = side * side;
constexpr ts::conv2d_geometry geometry{{3, 3}, {1, 1}, {1, 1}, {1, 1}};

/// The 3x3 surroundings of each pixel of one image (channels last), a row a pixel, and the way back, which adds.
template <bool Back, class Image>
void walk_columns(Image* image, ts::index_t depth, matrix& columns) {
  for (ts::index_t h = 0; h < side; ++h)
    for (ts::index_t w = 0; w < side; ++w) {
      float* row = columns.data() + (h * side + w) * 9 * depth;
      for (ts::index_t i = h - 1; i <= h + 1; ++i)
        for (ts::index_t j = w - 1; j <= w + 1; ++j, row += depth) {
          const bool inside = i >= 0 && i < side && j >= 0 && j < side;
          Image* pixel = image + (i * side + j) * depth;
          if constexpr (Back) {
            if (inside) Eigen::Map<array>(pixel, depth) += Eigen::Map<array const>(row, depth);
          } else if (inside) {
            std::copy_n(pixel, depth, row);
          } else {
            std::fill_n(row, depth, 0.0f);
          }
        }
    }
}

/// A block of rank 4 (channels last) as a matrix with one row a first index.
template <class X>
const_matrix_map by_first(X const& x) {
  const auto b = x.read();
  return {b.data, b.extents[0], b.size() / b.extents[0]};
}

template <class LayoutX, class LayoutW, int Ranks>
void add_forward(char const* name, team<Ranks>& where) {
  add(name, [&where] {
    const auto x = numbers<LayoutX>(where, ts::shape<4>{{images, channels, side, side}}, 1);
    const auto w = numbers<LayoutW>(where, ts::shape<4>{{channels, channels, 3, 3}}, 2);
    using product = decltype(ts::op::conv2d(x, w, geometry));
    using result = whole_sums<product>;
    const auto y = std::make_shared<result>();
    const ts::index_t local = x.local().extent(0);
    const ts::index_t depth = x.local().extent(1);
    const auto columns = std::make_shared<matrix>(pixels, 9 * depth);
    const auto by_hand = std::make_shared<matrix>(local * pixels, w.local().extent(0));
    return std::vector<way>{{"ours",
                             [=] {
                               *y = {};
                               *y = ts::redistribute<typename result::layout_type>(ts::op::conv2d(x, w, geometry));
                               return results{values(*y)};
                             }},
                            {"by_hand", [=] {
                               for (ts::index_t n = 0; n < local; ++n) {
                                 walk_columns<false>(x.read().data + n * pixels * depth, depth, *columns);
                                 by_hand->middleRows(n * pixels, pixels).noalias() = *columns * by_first(w).transpose();
                               }
                               if (is_partial<product>) sum_over_ranks(by_hand->data(), by_hand->size());
                               return results{values(*by_hand)};
                             }}};
  });
}

template <int Ranks>
void add_backward(char const* name, team<Ranks>& where) {
  using axis = ranks<Ranks>;
  add(name, [&where] {
    const ts::shape<4> extents{{images, channels, side, side}};
    const auto x = numbers<ts::row<axis>>(where, extents, 1);
    const auto w = numbers<ts::replicated>(where, ts::shape<4>{{channels, channels, 3, 3}}, 2);
    const auto dy = numbers<ts::row<axis>>(where, extents, 3);
    using gradient = ts::sharded<float, 4, ts::partial<axis>, team<Ranks>>;
    const auto dx = std::make_shared<std::remove_const_t<decltype(x)>>();
    const auto dw = std::make_shared<gradient>(where, w.extents());
    const ts::index_t local = x.local().extent(0);
    const auto columns = std::make_shared<matrix>(pixels, 9 * channels);
    const auto back = std::make_shared<matrix>(pixels, 9 * channels);
    const auto dx_by_hand = std::make_shared<matrix>(local * pixels, channels);
    const auto dw_by_hand = std::make_shared<matrix>(channels, 9 * channels);
    return std::vector<way>{{"ours",
                             [=] {
                               *dx = {};
                               *dx = ts::op::conv2d_backward_input(dy, w, extents, geometry);
                               ts::op::conv2d_backward_weight(dy, x, *dw, geometry);
                               return results{values(*dx), values(*dw)};
                             }},
                            {"by_hand", [=] {
                               dx_by_hand->setZero();
                               dw_by_hand->setZero();
                               for (ts::index_t n = 0; n < local; ++n) {
                                 const ts::index_t at = n * pixels * channels;
                                 const const_matrix_map gradients(dy.read().data + at, pixels, channels);
                                 back->noalias() = gradients * by_first(w);
                                 walk_columns<true>(dx_by_hand->data() + at, channels, *back);
                                 walk_columns<false>(x.read().data + at, channels, *columns);
                                 dw_by_hand->noalias() += gradients.transpose() * *columns;
                               }
                               return results{values(*dx_by_hand), values(*dw_by_hand)};
                             }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_forward<ts::row<axis>, ts::replicated>("conv2d/batch", where);
    add_forward<ts::replicated, ts::row<axis>>("conv2d/output", where);
    add_forward<ts::column<axis>, ts::column<axis>>("conv2d/input", where);
    add_backward("conv2d/batch_backward", where);
  });
}
