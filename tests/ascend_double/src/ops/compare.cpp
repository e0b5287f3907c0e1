#include "aclnnop/aclnn_eq_scalar.h"
#include "aclnnop/aclnn_eq_tensor.h"
#include "aclnnop/aclnn_ge_scalar.h"
#include "aclnnop/aclnn_gt_scalar.h"
#include "aclnnop/aclnn_logical_and.h"
#include "aclnnop/aclnn_lt_scalar.h"
#include "aclnnop/aclnn_masked_fill_scalar.h"
#include "aclnnop/aclnn_maximum.h"
#include "aclnnop/aclnn_minimum.h"
#include "aclnnop/aclnn_ne_scalar.h"
#include "aclnnop/aclnn_s_where.h"
#include "elementwise.hpp"

using namespace ascend_double;

namespace {

template <class F>
aclnnStatus against_number(char const* name, aclTensor const* self, aclScalar const* other, aclTensor const* out,
                           uint64_t* workspaceSize, aclOpExecutor** executor, F f) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", numbers);
    auto by = p.number(other, "other");
    auto y = p.output(out, "out", {ACL_BOOL});
    p.shape(y, "out", x.shape);
    return elementwise(
        y, promote(x, by), [=]<class T>(T value) { return f(value, value_of<T>(by)); }, x);
  });
}

template <class F>
aclnnStatus binary(char const* name, aclTensor const* self, aclTensor const* other, aclTensor const* out,
                   uint64_t* workspaceSize, aclOpExecutor** executor, bool is_truth, F f) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto a = p.input(self, "self", numbers);
    auto b = p.input(other, "other", numbers);
    auto type = promote(a.type, b.type);
    auto y = p.output(out, "out", is_truth ? types{ACL_BOOL} : numbers);
    if (!is_truth) stores(p, type, y);
    broadcasts(p, y, a, b);
    return elementwise(y, type, f, a, b);
  });
}

}  // namespace

aclnnStatus aclnnEqScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return against_number("aclnnEqScalar", self, other, out, workspaceSize, executor,
                        [](auto a, auto b) { return a == b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnEqScalar)

aclnnStatus aclnnNeScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return against_number("aclnnNeScalar", self, other, out, workspaceSize, executor,
                        [](auto a, auto b) { return a != b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnNeScalar)

aclnnStatus aclnnGtScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return against_number("aclnnGtScalar", self, other, out, workspaceSize, executor,
                        [](auto a, auto b) { return a > b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnGtScalar)

aclnnStatus aclnnGeScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return against_number("aclnnGeScalar", self, other, out, workspaceSize, executor,
                        [](auto a, auto b) { return a >= b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnGeScalar)

aclnnStatus aclnnLtScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return against_number("aclnnLtScalar", self, other, out, workspaceSize, executor,
                        [](auto a, auto b) { return a < b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnLtScalar)

aclnnStatus aclnnEqTensorGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return binary("aclnnEqTensor", self, other, out, workspaceSize, executor, true,
                [](auto a, auto b) { return a == b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnEqTensor)

aclnnStatus aclnnLogicalAndGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                            uint64_t* workspaceSize, aclOpExecutor** executor) {
  return binary("aclnnLogicalAnd", self, other, out, workspaceSize, executor, true,
                [](auto a, auto b) { return a != 0 && b != 0; });
}
ASCEND_DOUBLE_EXECUTE(aclnnLogicalAnd)

// A NaN on either side is the result of both: the documentation does not say, and a NaN must not be lost.
aclnnStatus aclnnMaximumGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return binary("aclnnMaximum", self, other, out, workspaceSize, executor, false,
                [](auto a, auto b) { return a >= b || a != a ? a : b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnMaximum)

aclnnStatus aclnnMinimumGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return binary("aclnnMinimum", self, other, out, workspaceSize, executor, false,
                [](auto a, auto b) { return a <= b || a != a ? a : b; });
}
ASCEND_DOUBLE_EXECUTE(aclnnMinimum)

aclnnStatus aclnnSWhereGetWorkspaceSize(const aclTensor* condition, const aclTensor* self, const aclTensor* other,
                                        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnSWhere", workspaceSize, executor, [&](planner& p) {
    auto c = p.input(condition, "condition", {ACL_BOOL, ACL_UINT8});
    auto a = p.input(self, "self", numbers);
    auto b = p.input(other, "other", numbers);
    auto type = promote(a.type, b.type);
    auto y = p.output(out, "out", {type});
    broadcasts(p, y, c, a, b);
    return elementwise(
        y, type, []<class T>(T which, T then, T otherwise) { return which != T{0} ? then : otherwise; }, c, a, b);
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnSWhere)

aclnnStatus aclnnInplaceMaskedFillScalarGetWorkspaceSize(aclTensor* selfRef, const aclTensor* mask,
                                                         const aclScalar* value, uint64_t* workspaceSize,
                                                         aclOpExecutor** executor) {
  return plan("aclnnInplaceMaskedFillScalar", workspaceSize, executor, [&](planner& p) {
    auto x = p.output(selfRef, "selfRef", numbers);
    auto where = p.input(mask, "mask", {ACL_BOOL});
    auto by = p.number(value, "value");
    p.require(is_floating(x.type) || !is_floating(by.type), "value is floating, selfRef is not");
    p.require(broadcast(where.shape, x.shape) == x.shape, "mask does not broadcast to selfRef");
    return elementwise(
        x, x.type, [=]<class T>(T old, T chosen) { return chosen != T{0} ? value_of<T>(by) : old; }, x, where);
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceMaskedFillScalar)
