#pragma once

#include "../reference.hpp"

#include <limits>

namespace tessera::test::maximum_suite {
namespace {

using weights = std::array<index_t, 6>;
constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "maxima over any dimensions equal those element by element", T, TESSERA_ELEMENTS) {
  const shape<6> whole{2, 3, 2, 1, 5, 3};
  auto x = random_values<T>(whole, 1);
  x.data()[7] = std::numeric_limits<T>::quiet_NaN();
  x.data()[20] = std::numeric_limits<T>::infinity();
  suite_kernels kernels;
  for (int reduced = 0; reduced < 64; ++reduced) {
    CAPTURE(reduced);
    shape<6> kept = whole;
    for (int d = 0; d < 6; ++d)
      if (reduced >> d & 1) kept[d] = 1;
    tensor<double, 6> wanted(kept, -std::numeric_limits<double>::infinity());
    const auto strides = strides_of<storage_order::row_major>(kept);
    const auto place_in = [&](index_t i) {
      index_t at = 0;
      for (int d = 5; d >= 0; --d) {
        at += kept[d] == 1 ? 0 : i % whole[d] * strides[static_cast<std::size_t>(d)];
        i /= whole[d];
      }
      return at;
    };
    for (index_t i = 0; i < x.size(); ++i) {
      double& most = wanted.data()[place_in(i)];
      const double value = x.data()[i];
      if (std::isnan(value) || value > most) most = std::isnan(most) ? most : value;
    }
    auto y = unwritten<T>(kept);
    kernels.max_broadcast(x.read(), y.view());
    CHECK(worst(y, wanted) == 0);
  }
}

TEST_CASE(TESSERA_BACKEND "the first of equal elements holds the maximum, by place and not by memory") {
  suite_kernels kernels;
  // Columns 0 and 1 of a matrix [3, 4], of which the reduced dimension 4 counts more than the reduced dimension 5.
  const shape<6> whole{1, 1, 1, 1, 3, 4};
  tensor<float, 6> x(whole, 1.0f);
  x.data()[0] = 0;
  tensor<float, 6> y(shape<6>{1, 1, 1, 1, 1, 1}, 1.0f);
  tensor<std::int64_t, 6> at(y.extents(), 9);
  tensor<std::int64_t, 6> rank(y.extents(), 9);
  kernels.first_maximum(x.read(), y.read(), weights{0, 0, 0, 0, 4, 1}, 100, at.view(), rank.view());
  CHECK(*at.data() == 1);
  CHECK(*rank.data() == -101);
  // With columns counting more, the first is that below the first element.
  kernels.first_maximum(x.read(), y.read(), weights{0, 0, 0, 0, 1, 3}, 0, at.view(), rank.view());
  CHECK(*at.data() == 4);
  CHECK(*rank.data() == -1);
  *y.data() = 2;
  kernels.first_maximum(x.read(), y.read(), weights{0, 0, 0, 0, 4, 1}, 0, at.view(), rank.view());
  CHECK(*at.data() == -1);
  CHECK(*rank.data() == none);
  *y.data() = std::numeric_limits<float>::quiet_NaN();
  x.data()[5] = *y.data();
  kernels.first_maximum(x.read(), y.read(), weights{0, 0, 0, 0, 4, 1}, 0, at.view(), rank.view());
  CHECK(*at.data() == 5);
}

TEST_CASE(TESSERA_BACKEND "the gradient of a maximum goes to the block that has its first place") {
  suite_kernels kernels;
  tensor<float, 6> x(shape<6>{1, 1, 1, 1, 3, 2}, 7.0f);
  const shape<6> kept{1, 1, 1, 1, 1, 2};
  const tensor<float, 6> y(kept, 7.0f);
  tensor<float, 6> dy(kept);
  dy.data()[0] = 1;
  dy.data()[1] = 2;
  tensor<std::int64_t, 6> at(kept);
  tensor<std::int64_t, 6> rank(kept);
  kernels.first_maximum(x.read(), y.read(), weights{0, 0, 0, 0, 1, 0}, 3, at.view(), rank.view());
  auto first = rank.clone();
  first.data()[1] = 0;  // another block has an earlier place
  auto dx = unwritten<float>(x.extents());
  kernels.max_backward(dy.read(), at.read(), rank.read(), first.read(), dx.view());
  for (index_t i = 0; i < dx.size(); ++i) CHECK(dx.data()[i] == (i == 0 ? 1.0f : 0.0f));
}

TEST_CASE(TESSERA_BACKEND "an empty block has the maximum minus infinity and no place") {
  suite_kernels kernels;
  tensor<float, 6> x(shape<6>{1, 1, 1, 1, 0, 2});
  const shape<6> kept{1, 1, 1, 1, 1, 2};
  tensor<float, 6> y(kept);
  kernels.max_broadcast(x.read(), y.view());
  tensor<std::int64_t, 6> at(kept);
  tensor<std::int64_t, 6> rank(kept);
  kernels.first_maximum(x.read(), y.read(), weights{0, 0, 0, 0, 1, 0}, 0, at.view(), rank.view());
  for (index_t i = 0; i < 2; ++i) {
    CHECK(y.data()[i] == -std::numeric_limits<float>::infinity());
    CHECK(at.data()[i] == -1);
    CHECK(rank.data()[i] == none);
  }
}

}  // namespace tessera::test::maximum_suite
