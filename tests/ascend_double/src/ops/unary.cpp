#include <cmath>

#include "aclnnop/aclnn_abs.h"
#include "aclnnop/aclnn_exp.h"
#include "aclnnop/aclnn_log.h"
#include "aclnnop/aclnn_neg.h"
#include "aclnnop/aclnn_reciprocal.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_rsqrt.h"
#include "aclnnop/aclnn_sigmoid.h"
#include "aclnnop/aclnn_silu.h"
#include "aclnnop/aclnn_sqrt.h"
#include "aclnnop/aclnn_tanh.h"
#include "elementwise.hpp"

using namespace ascend_double;

namespace {

template <class F>
aclnnStatus unary(char const* name, aclTensor const* self, aclTensor const* out, uint64_t* workspaceSize,
                  aclOpExecutor** executor, types const& allowed, F f) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", allowed);
    auto y = p.output(out, "out", allowed);
    p.shape(y, "out", x.shape);
    stores(p, x.type, y);
    return elementwise(y, x.type, f, x);
  });
}

types const signed_numbers{ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64};

auto const exponential = [](auto x) { return std::exp(x); };
auto const logarithm = [](auto x) { return std::log(x); };
auto const square_root = [](auto x) { return std::sqrt(x); };
// A NaN stays one: the documentation does not say, and a loss must not hide it.
auto const positive_part = []<class T>(T x) { return x <= T{0} ? T{0} : x; };

}  // namespace

aclnnStatus aclnnAbsGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor) {
  return unary("aclnnAbs", self, out, workspaceSize, executor, signed_numbers, [](auto x) { return x < 0 ? -x : x; });
}
ASCEND_DOUBLE_EXECUTE(aclnnAbs)

aclnnStatus aclnnNegGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor) {
  return unary("aclnnNeg", self, out, workspaceSize, executor, signed_numbers, [](auto x) { return -x; });
}
ASCEND_DOUBLE_EXECUTE(aclnnNeg)

aclnnStatus aclnnExpGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor) {
  return unary("aclnnExp", self, out, workspaceSize, executor, floating_or_double, exponential);
}
ASCEND_DOUBLE_EXECUTE(aclnnExp)

aclnnStatus aclnnInplaceExpGetWorkspaceSize(aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return unary("aclnnInplaceExp", selfRef, selfRef, workspaceSize, executor, floating_or_double, exponential);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceExp)

aclnnStatus aclnnLogGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor) {
  return unary("aclnnLog", self, out, workspaceSize, executor, floating_or_double, logarithm);
}
ASCEND_DOUBLE_EXECUTE(aclnnLog)

aclnnStatus aclnnInplaceLogGetWorkspaceSize(aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return unary("aclnnInplaceLog", selfRef, selfRef, workspaceSize, executor, floating_or_double, logarithm);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceLog)

aclnnStatus aclnnSqrtGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** opExecutor) {
  return unary("aclnnSqrt", self, out, workspaceSize, opExecutor, floating_or_double, square_root);
}
ASCEND_DOUBLE_EXECUTE(aclnnSqrt)

aclnnStatus aclnnInplaceSqrtGetWorkspaceSize(aclTensor* self, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return unary("aclnnInplaceSqrt", self, self, workspaceSize, executor, floating_or_double, square_root);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceSqrt)

aclnnStatus aclnnRsqrtGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                       aclOpExecutor** executor) {
  return unary("aclnnRsqrt", self, out, workspaceSize, executor, floating_or_double,
               []<class T>(T x) { return static_cast<T>(1 / std::sqrt(x)); });
}
ASCEND_DOUBLE_EXECUTE(aclnnRsqrt)

aclnnStatus aclnnReciprocalGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  return unary("aclnnReciprocal", self, out, workspaceSize, executor, floating_or_double,
               []<class T>(T x) { return T{1} / x; });
}
ASCEND_DOUBLE_EXECUTE(aclnnReciprocal)

aclnnStatus aclnnTanhGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  return unary("aclnnTanh", self, out, workspaceSize, executor, floating_or_double,
               [](auto x) { return std::tanh(x); });
}
ASCEND_DOUBLE_EXECUTE(aclnnTanh)

aclnnStatus aclnnSigmoidGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return unary("aclnnSigmoid", self, out, workspaceSize, executor, floating_or_double,
               [](auto x) { return 1 / (1 + std::exp(-x)); });
}
ASCEND_DOUBLE_EXECUTE(aclnnSigmoid)

aclnnStatus aclnnSiluGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  return unary("aclnnSilu", self, out, workspaceSize, executor, floating,
               []<class T>(T x) { return x / static_cast<T>(1 + std::exp(-x)); });
}
ASCEND_DOUBLE_EXECUTE(aclnnSilu)

aclnnStatus aclnnReluGetWorkspaceSize(const aclTensor* self, const aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  return unary("aclnnRelu", self, out, workspaceSize, executor, arithmetic, positive_part);
}
ASCEND_DOUBLE_EXECUTE(aclnnRelu)

aclnnStatus aclnnInplaceReluGetWorkspaceSize(aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return unary("aclnnInplaceRelu", selfRef, selfRef, workspaceSize, executor, arithmetic, positive_part);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceRelu)
