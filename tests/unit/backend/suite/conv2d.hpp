#pragma once

#include "../reference.hpp"

namespace tessera::test::conv2d_suite {
namespace {

struct problem {
  index_t images, height, width, in, out;
  conv2d_geometry geometry;
};

/// Calls `with(n, o, h, w, i, kh, kw, x row, x column)` for every product of the convolution; i within its group.
template <class Call>
void for_products(problem const& p, shape<4> const& y, Call with) {
  auto const& g = p.geometry;
  for (index_t n = 0; n < p.images; ++n)
    for (index_t o = 0; o < p.out; ++o)
      for (index_t h = 0; h < y[2]; ++h)
        for (index_t w = 0; w < y[3]; ++w)
          for (index_t i = 0; i < p.in / g.groups; ++i)
            for (index_t kh = 0; kh < g.kernel[0]; ++kh)
              for (index_t kw = 0; kw < g.kernel[1]; ++kw) {
                const index_t row = h * g.stride[0] - g.padding_before[0] + kh * g.dilation[0];
                const index_t column = w * g.stride[1] - g.padding_before[1] + kw * g.dilation[1];
                if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
                with(n, o, h, w, i, kh, kw, row, column);
              }
}

/// A tensor's elements by index. A tensor's own call works the strides out each time, which takes most of a test's time
/// where nothing is optimized.
template <class T, class Tensor>
auto by_index(Tensor& t) {
  const auto s = strides_of<decltype(t.read())::order>(t.extents());
  return [data = t.data(), a = s[0], b = s[1], c = s[2], d = s[3]](index_t i, index_t j, index_t k, index_t l) -> T& {
    return data[i * a + j * b + k * c + l * d];
  };
}

template <class T>
void check(problem const& p) {
  auto const& g = p.geometry;
  const index_t depth = p.in / g.groups;
  const shape<4> y_extents{p.images, p.out, g.output_extent(0, p.height), g.output_extent(1, p.width)};
  const auto x = random_values<T>(shape<4>{p.images, p.in, p.height, p.width}, 1);
  const auto w = random_values<T>(shape<4>{p.out, depth, g.kernel[0], g.kernel[1]}, 2);
  const auto dy = random_values<T>(y_extents, 3);
  auto y = unwritten<T>(y_extents);
  auto dx = unwritten<T>(x.extents());
  auto dw = unwritten<T>(w.extents());
  suite_kernels backend;
  backend.conv2d_forward(x.read(), w.read(), y.view(), g);
  backend.conv2d_backward_input(w.read(), dy.read(), dx.view(), g);
  backend.conv2d_backward_weight(x.read(), dy.read(), dw.view(), g);

  tensor<double, 4> y_wanted(y_extents, 0.0);
  tensor<double, 4> dx_wanted(x.extents(), 0.0);
  tensor<double, 4> dw_wanted(w.extents(), 0.0);
  const auto x_at = by_index<T const>(x);
  const auto w_at = by_index<T const>(w);
  const auto dy_at = by_index<T const>(dy);
  const auto y_sum = by_index<double>(y_wanted);
  const auto dx_sum = by_index<double>(dx_wanted);
  const auto dw_sum = by_index<double>(dw_wanted);
  for_products(
      p, y_extents,
      [&](index_t n, index_t o, index_t h, index_t v, index_t i, index_t kh, index_t kw, index_t row, index_t col) {
        const index_t c = o / (p.out / g.groups) * depth + i;
        const auto x_here = static_cast<double>(x_at(n, c, row, col));
        const auto w_here = static_cast<double>(w_at(o, i, kh, kw));
        const auto dy_here = static_cast<double>(dy_at(n, o, h, v));
        y_sum(n, o, h, v) += x_here * w_here;
        dx_sum(n, c, row, col) += dy_here * w_here;
        dw_sum(o, i, kh, kw) += dy_here * x_here;
      });
  CHECK(worst(y, y_wanted) < 4 * tolerance<T>);
  CHECK(worst(dx, dx_wanted) < 4 * tolerance<T>);
  CHECK(worst(dw, dw_wanted) < 4 * tolerance<T>);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "a convolution and its gradients equal the sum of products", T, TESSERA_ELEMENTS) {
  SUBCASE("3x3, padding 1") {
    check<T>({3, 9, 7, 5, 6, {.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}}});
  }
  SUBCASE("channels that fill packets") {
    check<T>({2, 8, 8, 16, 32, {.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}}});
  }
  SUBCASE("one input channel") {
    check<T>({4, 11, 9, 1, 16, {.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}}});
  }
  SUBCASE("one output channel") { check<T>({2, 6, 5, 7, 1, {.kernel = {3, 3}}}); }
  SUBCASE("1x1") { check<T>({2, 5, 6, 19, 21, {}}); }
  SUBCASE("1x1, stride 2") { check<T>({2, 7, 8, 6, 5, {.stride = {2, 2}}}); }
  SUBCASE("stride 2, even and odd extents") {
    check<T>({2, 8, 9, 3, 4, {.kernel = {3, 3}, .stride = {2, 2}, .padding_before = {1, 1}, .padding_after = {1, 1}}});
  }
  SUBCASE("7x7, stride 2, padding 3") {
    check<T>(
        {1, 15, 14, 3, 8, {.kernel = {7, 7}, .stride = {2, 2}, .padding_before = {3, 3}, .padding_after = {3, 3}}});
  }
  SUBCASE("stride larger than the kernel") { check<T>({2, 11, 10, 3, 2, {.kernel = {2, 1}, .stride = {3, 4}}}); }
  SUBCASE("dilation") {
    check<T>(
        {2, 12, 11, 4, 5, {.kernel = {3, 2}, .padding_before = {2, 1}, .padding_after = {2, 1}, .dilation = {2, 3}}});
  }
  SUBCASE("dilation and stride with a common factor") {
    check<T>(
        {1,
         13,
         12,
         2,
         3,
         {.kernel = {3, 3}, .stride = {2, 3}, .padding_before = {2, 2}, .padding_after = {2, 2}, .dilation = {2, 2}}});
  }
  SUBCASE("paddings that differ") {
    check<T>({2, 6, 7, 3, 4, {.kernel = {3, 2}, .stride = {2, 1}, .padding_before = {0, 2}, .padding_after = {2, 0}}});
  }
  SUBCASE("halo rows left out") {
    check<T>(
        {2, 9, 8, 3, 4, {.kernel = {3, 3}, .stride = {2, 2}, .padding_before = {-1, 1}, .padding_after = {-2, -1}}});
  }
  SUBCASE("padding wider than the kernel") {
    check<T>({1, 3, 3, 2, 3, {.kernel = {2, 2}, .padding_before = {3, 3}, .padding_after = {4, 3}}});
  }
  SUBCASE("groups") {
    check<T>({2, 6, 5, 6, 9, {.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}, .groups = 3}});
  }
  SUBCASE("depthwise") {
    check<T>({2,
              7,
              6,
              18,
              18,
              {.kernel = {3, 3}, .stride = {2, 1}, .padding_before = {1, 1}, .padding_after = {1, 1}, .groups = 18}});
  }
  SUBCASE("depthwise with multiplier") {
    check<T>({2, 5, 6, 3, 6, {.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}, .groups = 3}});
  }
  SUBCASE("several groups of images") {
    check<T>({7, 40, 41, 8, 3, {.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}}});
  }
  SUBCASE("channels whose pixels are pages apart") { check<T>({1, 3, 4, 1024, 3, {.kernel = {2, 2}}}); }
  SUBCASE("a gap in the last tile of weights") { check<T>({1, 6, 13, 1, 3, {.kernel = {2, 2}, .dilation = {1, 3}}}); }
  SUBCASE("no images") { check<T>({0, 6, 5, 2, 3, {.kernel = {3, 3}}}); }
  SUBCASE("no input channels") { check<T>({2, 6, 5, 0, 3, {.kernel = {3, 3}}}); }
  SUBCASE("no output channels") { check<T>({2, 6, 5, 2, 0, {.kernel = {3, 3}}}); }
  SUBCASE("no input rows, padding only") {
    check<T>({2, 0, 5, 2, 3, {.kernel = {3, 3}, .padding_before = {2, 1}, .padding_after = {2, 1}}});
  }
  SUBCASE("no output rows") { check<T>({2, 2, 5, 2, 3, {.kernel = {3, 3}}}); }
}

}  // namespace tessera::test::conv2d_suite
