#include <cmath>
#include <cstring>

#include "aclnnop/aclnn_gelu.h"
#include "aclnnop/aclnn_gelu_backward_v2.h"
#include "aclnnop/aclnn_gelu_v2.h"
#include "aclnnop/aclnn_sigmoid_backward.h"
#include "aclnnop/aclnn_silu_backward.h"
#include "aclnnop/aclnn_tanh_backward.h"
#include "aclnnop/aclnn_threshold_backward.h"
#include "elementwise.hpp"

// Gaussian error linear units, and the gradients of activations.

using namespace ascend_double;

namespace {

constexpr double half_sqrt2 = 0.70710678118654752440;
constexpr double sqrt_2_over_pi = 0.79788456080286535588;
constexpr double inverse_sqrt_2pi = 0.39894228040143267794;
constexpr double cubic = 0.044715;

double gelu(bool by_tanh, double x) {
  if (by_tanh) return 0.5 * x * (1 + std::tanh(sqrt_2_over_pi * (x + cubic * x * x * x)));
  return 0.5 * x * (1 + std::erf(x * half_sqrt2));
}

double gelu_slope(bool by_tanh, double x) {
  if (!by_tanh) return 0.5 * (1 + std::erf(x * half_sqrt2)) + x * inverse_sqrt_2pi * std::exp(-0.5 * x * x);
  auto t = std::tanh(sqrt_2_over_pi * (x + cubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * cubic * x * x);
}

std::function<void()> apply_gelu(planner& p, bool by_tanh, aclTensor const* self, aclTensor const* out) {
  auto x = p.input(self, "self");
  auto y = p.output(out, "out", {x.type});
  p.shape(y, "out", x.shape);
  return elementwise(
      y, x.type, [=](auto value) { return gelu(by_tanh, static_cast<double>(value)); }, x);
}

// out = f(gradient, given), of one type and shape.
template <class F>
std::function<void()> gradient(planner& p, aclTensor const* grad_output, aclTensor const* given, char const* name,
                               aclTensor const* out, F f) {
  auto dy = p.input(grad_output, "gradOutput");
  auto x = p.input(given, name);
  auto dx = p.output(out, "gradInput");
  p.shape(x, name, dy.shape);
  p.shape(dx, "gradInput", dy.shape);
  auto type = promote(dy.type, x.type);
  return elementwise(dx, type, f, dy, x);
}

}  // namespace

// The documentation of the operator without a mode gives the formula with tanh.
aclnnStatus aclnnGeluGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  return plan("aclnnGelu", workspaceSize, executor, [&](planner& p) { return apply_gelu(p, true, self, out); });
}
ASCEND_DOUBLE_EXECUTE(aclnnGelu)

aclnnStatus aclnnGeluV2GetWorkspaceSize(const aclTensor* x, int64_t approximate, aclTensor* y, uint64_t* workspaceSize,
                                        aclOpExecutor** executor) {
  return plan("aclnnGeluV2", workspaceSize, executor, [&](planner& p) {
    p.require(approximate == 0 || approximate == 1, "approximate is neither 0 nor 1");
    return apply_gelu(p, approximate == 1, x, y);
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnGeluV2)

aclnnStatus aclnnGeluBackwardV2GetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self, char* approximate,
                                                aclTensor* gradInput, uint64_t* workspaceSize,
                                                aclOpExecutor** executor) {
  return plan("aclnnGeluBackwardV2", workspaceSize, executor, [&](planner& p) {
    if (!approximate) throw refusal{null_parameter, "approximate is null"};
    bool by_tanh = std::strcmp(approximate, "tanh") == 0;
    p.require(by_tanh || std::strcmp(approximate, "none") == 0, R"(approximate is neither "none" nor "tanh")");
    return gradient(p, gradOutput, self, "self", gradInput, [=](auto dy, auto x) {
      return static_cast<double>(dy) * gelu_slope(by_tanh, static_cast<double>(x));
    });
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnGeluBackwardV2)

aclnnStatus aclnnSigmoidBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output,
                                                 aclTensor* gradInput, uint64_t* workspaceSize,
                                                 aclOpExecutor** executor) {
  return plan("aclnnSigmoidBackward", workspaceSize, executor, [&](planner& p) {
    return gradient(p, gradOutput, output, "output", gradInput, []<class T>(T dy, T y) { return dy * y * (T{1} - y); });
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnSigmoidBackward)

aclnnStatus aclnnTanhBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output,
                                              aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnTanhBackward", workspaceSize, executor, [&](planner& p) {
    return gradient(p, gradOutput, output, "output", gradInput, []<class T>(T dy, T y) { return dy * (T{1} - y * y); });
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnTanhBackward)

aclnnStatus aclnnSiluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self, aclTensor* gradInput,
                                              uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnSiluBackward", workspaceSize, executor, [&](planner& p) {
    return gradient(p, gradOutput, self, "self", gradInput, [](auto dy, auto x) {
      auto s = 1 / (1 + std::exp(-static_cast<double>(x)));
      return static_cast<double>(dy) * s * (1 + static_cast<double>(x) * (1 - s));
    });
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnSiluBackward)

aclnnStatus aclnnThresholdBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                   const aclScalar* threshold, aclTensor* out, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return plan("aclnnThresholdBackward", workspaceSize, executor, [&](planner& p) {
    auto limit = p.number(threshold, "threshold");
    return gradient(p, gradOutput, self, "self", out,
                    [=]<class T>(T dy, T x) { return x > value_of<T>(limit) ? dy : T{0}; });
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnThresholdBackward)
