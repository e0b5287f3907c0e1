#pragma once

#include "../reference.hpp"

namespace tessera::test::broadcast_suite {
namespace {

/// The element of an operand at a place of the result, where its extents of 1 are repeated.
template <class T>
double repeated_at(block<T const, 6> b, std::array<index_t, 6> at) {
  for (int d = 0; d < 6; ++d)
    if (b.extents[d] == 1) at[static_cast<std::size_t>(d)] = 0;
  return std::apply([&](auto... i) { return static_cast<double>(b(i...)); }, at);
}

template <class F>
void for_each_place(shape<6> const& extents, F f) {
  for (index_t i = 0; i < extents.size(); ++i) {
    std::array<index_t, 6> at{};
    index_t rest = i;
    for (int d = 5; d >= 0; --d) {
      at[static_cast<std::size_t>(d)] = rest % extents[d];
      rest /= extents[d];
    }
    f(at);
  }
}

/// Extents of `whole` in the dimensions of a bit set, 1 in the others.
shape<6> kept(shape<6> whole, unsigned set) {
  for (int d = 0; d < 6; ++d)
    if ((set >> d & 1) == 0) whole[d] = 1;
  return whole;
}

template <class T>
void check_broadcast(shape<6> const& whole, unsigned of_a, unsigned of_b) {
  CAPTURE(to_string(whole));
  CAPTURE(of_a);
  CAPTURE(of_b);
  const auto a = random_values<T>(kept(whole, of_a), 1);
  const auto b = random_values<T>(kept(whole, of_b), 2);
  tensor<double, 6> sum(whole);
  tensor<double, 6> product(whole);
  tensor<double, 6> difference(whole);
  tensor<double, 6> quotient(whole);
  for_each_place(whole, [&](std::array<index_t, 6> const& at) {
    const double x = repeated_at<T>(a.read(), at);
    const double z = repeated_at<T>(b.read(), at);
    std::apply([&](auto... i) { sum(i...) = x + z; }, at);
    std::apply([&](auto... i) { product(i...) = x * z; }, at);
    std::apply([&](auto... i) { difference(i...) = x - z; }, at);
    std::apply([&](auto... i) { quotient(i...) = x / z; }, at);
  });
  suite_kernels kernels;
  auto y = unwritten<T>(whole);
  kernels.add_broadcast(a.read(), b.read(), y.view());
  CHECK(worst(y, sum) < tolerance<T>);
  kernels.mul_broadcast(a.read(), b.read(), y.view());
  CHECK(worst(y, product) < tolerance<T>);
  kernels.sub_broadcast(a.read(), b.read(), y.view());
  CHECK(worst(y, difference) < tolerance<T>);
  kernels.div_broadcast(a.read(), b.read(), y.view());
  CHECK(worst(y, quotient) < tolerance<T>);

  kernels.mul_broadcast(a.read(), b.read(), y.view());
  tensor<double, 6> summed(kept(whole, of_a), 0.0);
  for_each_place(whole, [&](std::array<index_t, 6> at) {
    const double value = std::apply([&](auto... i) { return static_cast<double>(y(i...)); }, at);
    for (int d = 0; d < 6; ++d)
      if (summed.extent(d) == 1) at[static_cast<std::size_t>(d)] = 0;
    std::apply([&](auto... i) { summed(i...) += value; }, at);
  });
  auto s = unwritten<T>(kept(whole, of_a));
  kernels.sum_broadcast(y.read(), s.view());
  CHECK(worst(s, summed) < 64 * tolerance<T>);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "operands of extent 1 are repeated along any dimensions", T, TESSERA_ELEMENTS) {
  for (const shape<6>& whole :
       {shape<6>{{2, 3, 2, 4, 3, 5}}, shape<6>{{1, 1, 1, 1, 7, 33}}, shape<6>{{1, 1, 3, 1, 2, 40}},
        shape<6>{{1, 1, 1, 0, 2, 3}}, shape<6>{{1, 1, 1, 1, 1, 1}}, shape<6>{{1, 1, 1, 1, 3, 1203}}})
    for (unsigned of_a = 0; of_a < 64; of_a += 3)
      for (const unsigned of_b : {63u, 63u - of_a, 32u, 16u, 0u})
        if ((of_a | of_b) == 63u || whole.size() < 200) check_broadcast<T>(whole, of_a, of_b);
}

}  // namespace tessera::test::broadcast_suite
