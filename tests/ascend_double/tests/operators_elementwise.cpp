#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <limits>

#include "aclnnop/aclnn_abs.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_addcdiv.h"
#include "aclnnop/aclnn_addcmul.h"
#include "aclnnop/aclnn_div.h"
#include "aclnnop/aclnn_eq_scalar.h"
#include "aclnnop/aclnn_eq_tensor.h"
#include "aclnnop/aclnn_exp.h"
#include "aclnnop/aclnn_ge_scalar.h"
#include "aclnnop/aclnn_gelu.h"
#include "aclnnop/aclnn_gelu_backward_v2.h"
#include "aclnnop/aclnn_gelu_v2.h"
#include "aclnnop/aclnn_gt_scalar.h"
#include "aclnnop/aclnn_log.h"
#include "aclnnop/aclnn_logical_and.h"
#include "aclnnop/aclnn_lt_scalar.h"
#include "aclnnop/aclnn_masked_fill_scalar.h"
#include "aclnnop/aclnn_maximum.h"
#include "aclnnop/aclnn_minimum.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_ne_scalar.h"
#include "aclnnop/aclnn_neg.h"
#include "aclnnop/aclnn_reciprocal.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_rsqrt.h"
#include "aclnnop/aclnn_s_where.h"
#include "aclnnop/aclnn_sigmoid.h"
#include "aclnnop/aclnn_sigmoid_backward.h"
#include "aclnnop/aclnn_silu.h"
#include "aclnnop/aclnn_silu_backward.h"
#include "aclnnop/aclnn_sqrt.h"
#include "aclnnop/aclnn_sub.h"
#include "aclnnop/aclnn_tanh.h"
#include "aclnnop/aclnn_tanh_backward.h"
#include "aclnnop/aclnn_threshold_backward.h"
#include "tensors.hpp"

namespace {

using floats = std::vector<float>;
using bytes = std::vector<std::uint8_t>;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// a[i, j] = storage[2 + i + 5 j], of 3 x 4.
layout const turned{ACL_FORMAT_ND, {1, 5}, 2};
float of_turned(floats const& storage, std::size_t i, std::size_t j) { return storage[2 + i + 5 * j]; }

template <class F>
floats each(floats const& values, F f) {
  floats result;
  for (auto value : values) result.push_back(static_cast<float>(f(static_cast<double>(value))));
  return result;
}

}  // namespace

TEST_CASE("operators of two tensors broadcast and read views") {
  on_device({}, [](aclrtStream stream) {
    auto storage = some_values(20, 1), row = some_values(4, 2);
    device_tensor<float> a({3, 4}, storage, turned), b({4}, row);
    number two(2.0f);
    auto wanted = [&](auto f) {
      floats result;
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 4; ++j) result.push_back(f(of_turned(storage, i, j), row[j]));
      return result;
    };
    device_tensor<float> y({3, 4});
    EXPECT(OPERATION(aclnnAdd)(stream, a, b, two, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return x + 2 * r; })));
    EXPECT(OPERATION(aclnnSub)(stream, a, b, two, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return x - 2 * r; })));
    EXPECT(OPERATION(aclnnMul)(stream, a, b, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return x * r; })));
    EXPECT(OPERATION(aclnnDiv)(stream, a, b, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return x / r; })));
    EXPECT(OPERATION(aclnnMaximum)(stream, a, b, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return std::fmax(x, r); })));
    EXPECT(OPERATION(aclnnMinimum)(stream, b, a, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return std::fmin(x, r); })));
    EXPECT(OPERATION(aclnnAddcmul)(stream, a, b, a, two, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return x + 2 * r * x; })));
    EXPECT(OPERATION(aclnnAddcdiv)(stream, a, a, b, two, y) == 0);
    EXPECT(close(y.read(), wanted([](float x, float r) { return x + 2 * x / r; })));
    // Into a view, whose gaps stay.
    EXPECT(OPERATION(aclnnInplaceMul)(stream, a, b) == 0);
    auto left = a.read();
    for (std::size_t k = 0; k < 20; ++k) {
      bool touched = k >= 2 && (k - 2) % 5 < 3;
      EXPECT(std::abs(left[k] - storage[k] * (touched ? row[(k - 2) / 5] : 1)) < 1e-6f);
    }
  });
}

TEST_CASE("operators in place and of numbers") {
  on_device({}, [](aclrtStream stream) {
    auto values = some_values(7, 3), by = some_values(7, 4);
    number two(2.0f), half(0.5f);
    auto check = [&](auto run, auto f) {
      device_tensor<float> x({7}, values), other({7}, by);
      EXPECT(run(x, other) == 0);
      floats wanted;
      for (std::size_t i = 0; i < 7; ++i) wanted.push_back(f(values[i], by[i]));
      EXPECT(close(x.read(), wanted));
    };
    using tensor = device_tensor<float>;
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnInplaceAdd)(stream, x, o, two); },
          [](float x, float o) { return x + 2 * o; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnInplaceSub)(stream, x, o, two); },
          [](float x, float o) { return x - 2 * o; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnInplaceDiv)(stream, x, o); },
          [](float x, float o) { return x / o; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnInplaceAddcmul)(stream, x, o, x, two); },
          [](float x, float o) { return x + 2 * o * x; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnInplaceAddcdiv)(stream, x, x, o, two); },
          [](float x, float o) { return x + 2 * x / o; });
    check([&](tensor& x, tensor&) { return OPERATION(aclnnInplaceAdds)(stream, x, half, two); },
          [](float x, float) { return x + 1; });
    check([&](tensor& x, tensor&) { return OPERATION(aclnnInplaceSubs)(stream, x, half, two); },
          [](float x, float) { return x - 1; });
    check([&](tensor& x, tensor&) { return OPERATION(aclnnInplaceMuls)(stream, x, two); },
          [](float x, float) { return x * 2; });
    check([&](tensor& x, tensor&) { return OPERATION(aclnnInplaceDivs)(stream, x, two); },
          [](float x, float) { return x / 2; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnAdds)(stream, o, half, two, x); },
          [](float, float o) { return o + 1; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnSubs)(stream, o, half, two, x); },
          [](float, float o) { return o - 1; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnMuls)(stream, o, two, x); },
          [](float, float o) { return o * 2; });
    check([&](tensor& x, tensor& o) { return OPERATION(aclnnDivs)(stream, o, two, x); },
          [](float, float o) { return o / 2; });
  });
}

TEST_CASE("types promote, and results are not stored where they do not fit") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<std::int64_t> whole({3}, {std::int64_t{1} << 60, 7, -9});
    device_tensor<float> real({3}, {0.5f, 0.25f, 2});
    device_tensor<float> y({3});
    number one(std::int64_t{1}), two(std::int64_t{2}), half(0.5f);
    EXPECT(OPERATION(aclnnInplaceAdds)(stream, whole, one, one) == 0);
    EXPECT(whole.read() == std::vector<std::int64_t>{(std::int64_t{1} << 60) + 1, 8, -8});
    EXPECT(OPERATION(aclnnMul)(stream, real, whole, y) == 0);
    EXPECT(close(y.read(), floats{0.5f * 1.152921504606846976e18f, 2, -16}));
    EXPECT(OPERATION(aclnnDivs)(stream, whole, two, y) == 0);
    EXPECT(close(y.read(), floats{5.76460752303423488e17f, 4, -4}));
    EXPECT(OPERATION(aclnnMuls)(stream, whole, half, whole) == invalid_parameter);
    EXPECT(OPERATION(aclnnInplaceDivs)(stream, whole, two) == invalid_parameter);
    EXPECT(OPERATION(aclnnInplaceMul)(stream, whole, real) == invalid_parameter);
    EXPECT(OPERATION(aclnnExp)(stream, whole, whole) == invalid_parameter);
    // FP16: 1 + 2^-11 is 1 again.
    device_tensor<std::uint16_t> narrow({1}, {0x3c00});
    number little(0.00048828125f), unity(1.0f);
    EXPECT(OPERATION(aclnnInplaceAdds)(stream, narrow, little, unity) == 0);
    EXPECT(narrow.read()[0] == 0x3c00);
    EXPECT(OPERATION(aclnnInplaceAdds)(stream, narrow, unity, unity) == 0);
    EXPECT(narrow.read()[0] == 0x4000);
  });
}

TEST_CASE("what does not fit is refused") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({3, 4}), y({3, 4}), column({3}), wide({1, 3, 4});
    number one(1.0f);
    EXPECT(OPERATION(aclnnAdd)(stream, x, column, one, y) == invalid_parameter);
    EXPECT(OPERATION(aclnnAdd)(stream, x, y, one, wide) == invalid_parameter);
    EXPECT(OPERATION(aclnnAdd)(stream, x, y, static_cast<aclScalar*>(nullptr), y) == null_parameter);
    EXPECT(OPERATION(aclnnMul)(stream, x, static_cast<aclTensor*>(nullptr), y) == null_parameter);
    EXPECT(OPERATION(aclnnInplaceMul)(stream, x, wide) == invalid_parameter);
    EXPECT(OPERATION(aclnnNeg)(stream, x, wide) == invalid_parameter);
    EXPECT(OPERATION(aclnnGtScalar)(stream, x, one, y) == invalid_parameter);
    EXPECT(OPERATION(aclnnGeluV2)(stream, x, std::int64_t{2}, y) == invalid_parameter);
    EXPECT(OPERATION(aclnnGeluBackwardV2)(stream, x, x, const_cast<char*>("erf"), y) == invalid_parameter);
  });
}

TEST_CASE("BF16 is for the A2") {
  auto negate = [](int wanted) {
    return [=](aclrtStream stream) {
      device_tensor<std::uint16_t> x({2}, {0x3f80, 0x4000}, {}, ACL_BF16), y({2}, {0, 0}, {}, ACL_BF16);
      EXPECT(OPERATION(aclnnNeg)(stream, x, y) == wanted);
      if (wanted == 0) EXPECT(y.read() == std::vector<std::uint16_t>{0xbf80, 0xc000});
    };
  };
  on_device({}, negate(invalid_parameter));
  on_device(a2, negate(0));
}

TEST_CASE("functions of one tensor") {
  on_device({}, [](aclrtStream stream) {
    auto values = some_values(11, 5);
    auto positive = each(values, [](double x) { return 0.1 + std::abs(x); });
    auto check = [&](auto run, floats const& of, auto f) {
      device_tensor<float> x({11}, of), y({11});
      EXPECT(run(stream, x, y) == 0);
      EXPECT(close(y.read(), each(of, f)));
    };
    auto check_in_place = [&](auto run, floats const& of, auto f) {
      device_tensor<float> x({11}, of);
      EXPECT(run(stream, x) == 0);
      EXPECT(close(x.read(), each(of, f)));
    };
    auto relu = [](double x) { return x > 0 ? x : 0.0; };
    check(OPERATION(aclnnAbs), values, [](double x) { return std::abs(x); });
    check(OPERATION(aclnnNeg), values, [](double x) { return -x; });
    check(OPERATION(aclnnExp), values, [](double x) { return std::exp(x); });
    check(OPERATION(aclnnLog), positive, [](double x) { return std::log(x); });
    check(OPERATION(aclnnSqrt), positive, [](double x) { return std::sqrt(x); });
    check(OPERATION(aclnnRsqrt), positive, [](double x) { return 1 / std::sqrt(x); });
    check(OPERATION(aclnnReciprocal), positive, [](double x) { return 1 / x; });
    check(OPERATION(aclnnTanh), values, [](double x) { return std::tanh(x); });
    check(OPERATION(aclnnSigmoid), values, [](double x) { return 1 / (1 + std::exp(-x)); });
    check(OPERATION(aclnnSilu), values, [](double x) { return x / (1 + std::exp(-x)); });
    check(OPERATION(aclnnRelu), values, relu);
    check_in_place(OPERATION(aclnnInplaceExp), values, [](double x) { return std::exp(x); });
    check_in_place(OPERATION(aclnnInplaceLog), positive, [](double x) { return std::log(x); });
    check_in_place(OPERATION(aclnnInplaceSqrt), positive, [](double x) { return std::sqrt(x); });
    check_in_place(OPERATION(aclnnInplaceRelu), values, relu);
  });
}

TEST_CASE("activations and their gradients") {
  on_device({}, [](aclrtStream stream) {
    auto values = each(some_values(9, 6), [](double x) { return 3 * x; });
    auto upstream = some_values(9, 7);
    device_tensor<float> x({9}, values), dy({9}, upstream), y({9}), dx({9});
    auto slope = [&](auto f) {
      floats result;
      for (std::size_t i = 0; i < 9; ++i) {
        auto at = static_cast<double>(values[i]);
        result.push_back(static_cast<float>(static_cast<double>(upstream[i]) * (f(at + 1e-5) - f(at - 1e-5)) / 2e-5));
      }
      return result;
    };
    auto by_tanh = [](double v) {
      return 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v)));
    };
    auto by_erf = [](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); };
    EXPECT(OPERATION(aclnnGelu)(stream, x, y) == 0 && close(y.read(), each(values, by_tanh)));
    EXPECT(OPERATION(aclnnGeluV2)(stream, x, std::int64_t{1}, y) == 0 && close(y.read(), each(values, by_tanh)));
    EXPECT(OPERATION(aclnnGeluV2)(stream, x, std::int64_t{0}, y) == 0 && close(y.read(), each(values, by_erf)));
    EXPECT(OPERATION(aclnnGeluBackwardV2)(stream, dy, x, const_cast<char*>("tanh"), dx) == 0);
    EXPECT(close(dx.read(), slope(by_tanh)));
    EXPECT(OPERATION(aclnnGeluBackwardV2)(stream, dy, x, const_cast<char*>("none"), dx) == 0);
    EXPECT(close(dx.read(), slope(by_erf)));
    EXPECT(OPERATION(aclnnSiluBackward)(stream, dy, x, dx) == 0);
    EXPECT(close(dx.read(), slope([](double v) { return v / (1 + std::exp(-v)); })));
    EXPECT(OPERATION(aclnnSigmoid)(stream, x, y) == 0 && OPERATION(aclnnSigmoidBackward)(stream, dy, y, dx) == 0);
    EXPECT(close(dx.read(), slope([](double v) { return 1 / (1 + std::exp(-v)); })));
    EXPECT(OPERATION(aclnnTanh)(stream, x, y) == 0 && OPERATION(aclnnTanhBackward)(stream, dy, y, dx) == 0);
    EXPECT(close(dx.read(), slope([](double v) { return std::tanh(v); })));

    // Strictly above the threshold only.
    device_tensor<float> edge({3}, {-1, 0, 1}), ones({3}, {5, 5, 5}), passed({3});
    number zero(0.0f);
    EXPECT(OPERATION(aclnnThresholdBackward)(stream, ones, edge, zero, passed) == 0);
    EXPECT(passed.read() == floats{0, 0, 5});
  });
}

TEST_CASE("comparisons and choices") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({4}, {-1, 0, 1, not_a_number}), y({4}, {0, 0, 0, 0});
    device_tensor<std::uint8_t> truth({4});
    number zero(0.0f);
    auto check = [&](auto run, bytes const& wanted) {
      EXPECT(run(stream, x, zero, truth) == 0);
      EXPECT(truth.read() == wanted);
    };
    check(OPERATION(aclnnEqScalar), {0, 1, 0, 0});
    check(OPERATION(aclnnNeScalar), {1, 0, 1, 1});
    check(OPERATION(aclnnGtScalar), {0, 0, 1, 0});
    check(OPERATION(aclnnGeScalar), {0, 1, 1, 0});
    check(OPERATION(aclnnLtScalar), {1, 0, 0, 0});
    EXPECT(OPERATION(aclnnEqTensor)(stream, x, y, truth) == 0 && truth.read() == bytes{0, 1, 0, 0});

    // Integers against a floating number compare as numbers.
    device_tensor<std::int64_t> whole({4}, {0, 1, 2, 3});
    number middle(1.5f);
    EXPECT(OPERATION(aclnnGtScalar)(stream, whole, middle, truth) == 0 && truth.read() == bytes{0, 0, 1, 1});

    device_tensor<std::uint8_t> a({2, 2}, {1, 1, 0, 0}), b({2}, {1, 0}), both({2, 2});
    EXPECT(OPERATION(aclnnLogicalAnd)(stream, a, b, both) == 0 && both.read() == bytes{1, 0, 0, 0});
    device_tensor<float> left({2, 2}, {1, 2, 3, 4}), right({1}, {9}), chosen({2, 2});
    EXPECT(OPERATION(aclnnSWhere)(stream, b, left, right, chosen) == 0 && chosen.read() == floats{1, 9, 3, 9});
    number five(5.0f);
    EXPECT(OPERATION(aclnnInplaceMaskedFillScalar)(stream, left, b, five) == 0);
    EXPECT(left.read() == floats{5, 2, 5, 4});
    EXPECT(OPERATION(aclnnInplaceMaskedFillScalar)(stream, left, chosen, five) == invalid_parameter);

    // Not-a-numbers stay.
    EXPECT(OPERATION(aclnnMaximum)(stream, x, y, y) == 0 && close(y.read(), floats{0, 0, 1, not_a_number}));
    EXPECT(OPERATION(aclnnMinimum)(stream, y, x, y) == 0 && close(y.read(), floats{-1, 0, 1, not_a_number}));
    EXPECT(OPERATION(aclnnRelu)(stream, x, y) == 0 && close(y.read(), floats{0, 0, 1, not_a_number}));
  });
}
