#pragma once

#include "../reference.hpp"

#include <limits>
#include <vector>

namespace tessera::test::pool2d_suite {
namespace {

/// Calls `with(row, column)` for the places of an output pixel's window inside the input, in row-major order.
template <class Call>
void for_window(pool2d_geometry const& g, shape<4> const& x, index_t h, index_t w, Call with) {
  for (index_t kh = 0; kh < g.kernel[0]; ++kh) {
    for (index_t kw = 0; kw < g.kernel[1]; ++kw) {
      const index_t row = h * g.stride[0] - g.padding_before[0] + kh * g.dilation[0];
      const index_t column = w * g.stride[1] - g.padding_before[1] + kw * g.dilation[1];
      if (row >= 0 && row < x[2] && column >= 0 && column < x[3]) with(row, column);
    }
  }
}

template <class Call>
void for_outputs(shape<4> const& y, Call with) {
  for (index_t n = 0; n < y[0]; ++n)
    for (index_t c = 0; c < y[1]; ++c)
      for (index_t h = 0; h < y[2]; ++h)
        for (index_t w = 0; w < y[3]; ++w) with(n, c, h, w);
}

shape<4> pooled(shape<4> const& x, pool2d_geometry const& g) {
  return {x[0], x[1], g.output_extent(0, x[2]), g.output_extent(1, x[3])};
}

template <class T>
void check_max(shape<4> const& extents, pool2d_geometry const& g) {
  auto x = random_values<T>(extents, 1);
  // Few distinct values, so that windows have ties.
  for (T& v : x.view()) v = std::round(v * T{3});
  const auto dy = random_values<T>(pooled(extents, g), 2);
  auto y = unwritten<T>(dy.extents());
  auto argmax = unwritten<std::int32_t>(dy.extents());
  auto dx = unwritten<T>(extents);
  suite_kernels k;
  k.max_pool2d_forward(x.read(), y.view(), argmax.view(), g);
  k.max_pool2d_backward(dy.read(), argmax.read(), dx.view(), g);
  tensor<double, 4> y_wanted(dy.extents(), -INFINITY);
  tensor<double, 4> argmax_wanted(dy.extents(), -1.0);
  tensor<double, 4> dx_wanted(extents, 0.0);
  for_outputs(dy.extents(), [&](index_t n, index_t c, index_t h, index_t w) {
    double& best = y_wanted(n, c, h, w);
    double& place = argmax_wanted(n, c, h, w);
    for_window(g, extents, h, w, [&](index_t row, index_t column) {
      const auto value = static_cast<double>(x(n, c, row, column));
      if (place >= 0 && !(value > best)) return;
      best = value;
      place = static_cast<double>(row * extents[3] + column);
    });
    const auto at = static_cast<index_t>(place);
    if (at >= 0) dx_wanted(n, c, at / extents[3], at % extents[3]) += static_cast<double>(dy(n, c, h, w));
  });
  CHECK(worst(y, y_wanted) == 0);
  CHECK(worst(argmax, argmax_wanted) == 0);
  CHECK(worst(dx, dx_wanted) < tolerance<T>);
}

template <class T>
void check_average(shape<4> const& extents, pool2d_geometry const& g) {
  const auto x = random_values<T>(extents, 1);
  const auto dy = random_values<T>(pooled(extents, g), 2);
  auto y = unwritten<T>(dy.extents());
  auto dx = unwritten<T>(extents);
  suite_kernels k;
  k.avg_pool2d_forward(x.read(), y.view(), g);
  k.avg_pool2d_backward(dy.read(), dx.view(), g);
  tensor<double, 4> y_wanted(dy.extents(), 0.0);
  tensor<double, 4> dx_wanted(extents, 0.0);
  for_outputs(dy.extents(), [&](index_t n, index_t c, index_t h, index_t w) {
    index_t divisor = 0;
    if (g.count_include_pad) {
      for (index_t kh = 0; kh < g.kernel[0]; ++kh)
        for (index_t kw = 0; kw < g.kernel[1]; ++kw)
          divisor += h * g.stride[0] - g.padding_before[0] + kh < extents[2] + g.padding_after[0] &&
                     w * g.stride[1] - g.padding_before[1] + kw < extents[3] + g.padding_after[1];
    } else {
      for_window(g, extents, h, w, [&](index_t, index_t) { ++divisor; });
    }
    for_window(g, extents, h, w, [&](index_t row, index_t column) {
      y_wanted(n, c, h, w) += static_cast<double>(x(n, c, row, column)) / static_cast<double>(divisor);
      dx_wanted(n, c, row, column) += static_cast<double>(dy(n, c, h, w)) / static_cast<double>(divisor);
    });
  });
  CHECK(worst(y, y_wanted) < tolerance<T>);
  CHECK(worst(dx, dx_wanted) < tolerance<T>);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "pooling and its gradient equal their definition", T, TESSERA_ELEMENTS) {
  const auto check = [](shape<4> const& extents, pool2d_geometry g) {
    CAPTURE(to_string(extents));
    check_max<T>(extents, g);
    g.dilation = {1, 1};
    check_average<T>(extents, g);
    g.count_include_pad = false;
    check_average<T>(extents, g);
  };
  check({2, 16, 8, 6}, {{2, 2}, {2, 2}});
  check({2, 3, 9, 7}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}});
  check({1, 19, 7, 8}, {{2, 3}, {2, 1}, {1, 0}, {1, 0}});
  check({1, 2, 8, 8}, {{3, 3}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, true});
  check({1, 2, 6, 7}, {{3, 2}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true});
  check({1, 5, 11, 10}, {{3, 2}, {2, 1}, {2, 1}, {2, 1}, {2, 3}});
  check({1, 5, 9, 8}, {{3, 3}, {2, 2}, {0, 1}, {1, 0}});
  check({2, 4, 9, 8}, {{3, 3}, {2, 2}, {-1, 1}, {-2, -1}});
  check({2, 4, 3, 3}, {{1, 1}, {3, 3}});
  check({0, 3, 4, 4}, {{2, 2}, {2, 2}});
  check({2, 0, 4, 4}, {{2, 2}, {2, 2}});
  check({2, 3, 1, 4}, {{2, 2}, {2, 2}});
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "padding is minus infinity, and a window of padding has no place", T,
                   TESSERA_ELEMENTS) {
  const tensor<T, 4> x(shape<4>{1, 3, 0, 4}, T{0});
  const pool2d_geometry g{{2, 2}, {2, 2}, {1, 0}, {1, 0}};
  auto y = unwritten<T>(pooled(x.extents(), g));
  auto argmax = unwritten<std::int32_t>(y.extents());
  suite_kernels k;
  k.max_pool2d_forward(x.read(), y.view(), argmax.view(), g);
  CHECK(worst(y, tensor<double, 4>(y.extents(), -INFINITY)) == 0);
  CHECK(worst(argmax, tensor<double, 4>(y.extents(), -1.0)) == 0);
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "NaN passes through maximum pooling, the first one gets the gradient", T,
                   TESSERA_ELEMENTS) {
  tensor<T, 4> x(shape<4>{1, 20, 2, 4}, T{1});
  x(0, 17, 0, 1) = std::numeric_limits<T>::quiet_NaN();
  x(0, 17, 1, 0) = std::numeric_limits<T>::quiet_NaN();
  x(0, 17, 0, 2) = -std::numeric_limits<T>::infinity();
  const pool2d_geometry g{{2, 2}, {2, 2}};
  auto y = unwritten<T>(pooled(x.extents(), g));
  auto argmax = unwritten<std::int32_t>(y.extents());
  suite_kernels k;
  k.max_pool2d_forward(x.read(), y.view(), argmax.view(), g);
  CHECK(std::isnan(y(0, 17, 0, 0)));
  CHECK(argmax(0, 17, 0, 0) == 1);
  CHECK(argmax(0, 16, 0, 0) == 0);
  CHECK(argmax(0, 17, 0, 1) == 3);
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "the mean of whole images, also of a part of each", T, TESSERA_ELEMENTS) {
  for (auto const& extents : {shape<4>{3, 10, 7, 5}, {2, 64, 3, 4}, {1, 5, 0, 4}, {0, 5, 2, 2}, {2, 0, 2, 2}}) {
    CAPTURE(to_string(extents));
    const auto x = random_values<T>(extents, 1);
    const shape<4> pooled_extents{extents[0], extents[1], 1, 1};
    const auto dy = random_values<T>(pooled_extents, 2);
    auto y = unwritten<T>(pooled_extents);
    auto dx = unwritten<T>(extents);
    const index_t count = 70;
    suite_kernels k;
    k.global_avg_pool_forward(x.read(), y.view(), count);
    k.global_avg_pool_backward(dy.read(), dx.view(), count);
    tensor<double, 4> y_wanted(pooled_extents, 0.0);
    tensor<double, 4> dx_wanted(extents);
    for_outputs(extents, [&](index_t n, index_t c, index_t h, index_t w) {
      y_wanted(n, c, 0, 0) += static_cast<double>(x(n, c, h, w)) / 70;
      dx_wanted(n, c, h, w) = static_cast<double>(dy(n, c, 0, 0)) / 70;
    });
    CHECK(worst(y, y_wanted) < tolerance<T>);
    CHECK(worst(dx, dx_wanted) < tolerance<T>);
  }
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "adaptive pooling and its gradient, of whole images and of a part of each", T,
                   TESSERA_ELEMENTS) {
  struct of_images {
    shape<4> block;
    pair2d outputs;
    image_part part;
  };
  // Windows that overlap, large ones, rows of more pixels than are added together, windows outside of the block.
  const of_images cases[] = {
      {{2, 20, 9, 7}, {3, 2}, {{0, 0}, {9, 7}}},     {{1, 83, 5, 4}, {3, 3}, {{0, 0}, {5, 4}}},
      {{2, 18, 24, 30}, {2, 3}, {{0, 0}, {24, 30}}}, {{1, 5, 3, 150}, {1, 1}, {{0, 0}, {3, 150}}},
      {{2, 17, 4, 5}, {6, 5}, {{5, 2}, {12, 9}}},    {{1, 3, 0, 5}, {2, 2}, {{4, 0}, {4, 5}}}};
  for (of_images const& images : cases) {
    shape<4> const& extents = images.block;
    pair2d const& outputs = images.outputs;
    image_part const& part = images.part;
    CAPTURE(to_string(extents));
    const auto x = random_values<T>(extents, 1);
    const auto dy = random_values<T>(shape<4>{extents[0], extents[1], outputs[0], outputs[1]}, 2);
    auto y = unwritten<T>(dy.extents());
    auto dx = unwritten<T>(extents);
    suite_kernels k;
    k.adaptive_avg_pool_forward(x.read(), y.view(), part);
    k.adaptive_avg_pool_backward(dy.read(), dx.view(), part);
    tensor<double, 4> y_wanted(dy.extents(), 0.0);
    tensor<double, 4> dx_wanted(extents, 0.0);
    for_outputs(dy.extents(), [&](index_t n, index_t c, index_t h, index_t w) {
      const interval rows = adaptive_window(h, outputs[0], part.extents[0]);
      const interval columns = adaptive_window(w, outputs[1], part.extents[1]);
      const auto count = static_cast<double>(rows.size * columns.size);
      for (index_t r = 0; r < extents[2]; ++r)
        for (index_t q = 0; q < extents[3]; ++q) {
          const index_t row = part.begins[0] + r;
          const index_t column = part.begins[1] + q;
          if (row < rows.begin || row >= rows.end() || column < columns.begin || column >= columns.end()) continue;
          y_wanted(n, c, h, w) += static_cast<double>(x(n, c, r, q)) / count;
          dx_wanted(n, c, r, q) += static_cast<double>(dy(n, c, h, w)) / count;
        }
    });
    CHECK(worst(y, y_wanted) < tolerance<T>);
    CHECK(worst(dx, dx_wanted) < tolerance<T>);
  }
}

}  // namespace tessera::test::pool2d_suite
