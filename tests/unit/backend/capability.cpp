#include <tessera/backend/capability.hpp>
#include <tessera/backend/deterministic.hpp>
#include <tessera/backend/rounded.hpp>

#include <doctest/doctest.h>

namespace {

using namespace tessera;
using enum kernel_group;

/// A backend without one kernel of a group, and without another for double.
struct lacking : eigen {
  using eigen::eigen;
  void conv2d_backward_weight() = delete;
  void flatten(operand<float, 4> x, block<float, 2> y) { eigen::flatten(x, y); }
};

template <class B, class T, kernel_group... Groups>
constexpr bool offers_each = (offers<B, T, Groups> && ...);
template <class B, class T>
constexpr bool offers_all =
    offers_each<B, T, matrices, convolutions, flat, optimizer, broadcasts, smooth, arrays, kernel_group::softmax,
                kernel_group::cross_entropy, kernel_group::batch_norm, moments, pooling, kernel_group::row_norm,
                kernel_group::group_norm, kernel_group::embedding, kernel_group::attention>;

}  // namespace

TEST_CASE("backends of the library offer every group") {
  CHECK(offers_all<eigen, float>);
  CHECK(offers_all<eigen, double>);
  CHECK(offers_all<deterministic<>, float>);
  CHECK(offers_all<rounded<eigen, bfloat16>, float>);
}

TEST_CASE("a backend that lacks a kernel does not offer its group, for the elements that it lacks it for") {
  CHECK(backend<lacking>);
  CHECK_FALSE(backend_for<lacking, float>);
  CHECK_FALSE(offers<lacking, float, convolutions>);
  CHECK(offers<lacking, float, pooling>);
  CHECK_FALSE(offers<lacking, double, pooling>);
  CHECK(offers<lacking, double, matrices>);
}

TEST_CASE("contexts hand out a whole backend itself, and of others what they have") {
  CHECK(std::is_same_v<checked_backend<eigen>, eigen>);
  checked_backend<lacking> kernels(2);
  CHECK(kernels.threads() == 2);
  float x[] = {-1, 2};
  const block<float, 1> values{x, {2}};
  kernels.relu_forward(values, values);
  CHECK(x[0] == 0);
  CHECK(x[1] == 2);
  CHECK(kernels.square_sum(block<float const, 1>(values)) == 4);
}
