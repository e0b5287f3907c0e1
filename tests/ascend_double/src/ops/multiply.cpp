#include "aclnnop/aclnn_addcdiv.h"
#include "aclnnop/aclnn_addcmul.h"
#include "aclnnop/aclnn_div.h"
#include "aclnnop/aclnn_mul.h"
#include "elementwise.hpp"

using namespace ascend_double;

namespace {

auto const times = []<class T>(T a, T b) { return a * b; };
auto const over = [](auto a, auto b) { return a / b; };

// Quotients of integers are floating.
aclDataType quotient(aclDataType type) { return is_floating(type) ? type : ACL_FLOAT; }

template <class F>
aclnnStatus of_tensors(char const* name, aclTensor const* self, aclTensor const* other, aclTensor const* out,
                       uint64_t* workspaceSize, aclOpExecutor** executor, bool divides, F f) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto a = p.input(self, "self", numbers);
    auto b = p.input(other, "other", numbers);
    auto y = p.output(out, "out", numbers);
    broadcasts(p, y, a, b);
    auto type = divides ? quotient(promote(a.type, b.type)) : promote(a.type, b.type);
    stores(p, type, y);
    return elementwise(y, type, f, a, b);
  });
}

template <class F>
aclnnStatus of_scalar(char const* name, aclTensor const* self, aclScalar const* other, aclTensor const* out,
                      uint64_t* workspaceSize, aclOpExecutor** executor, bool divides, F f) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto a = p.input(self, "self", numbers);
    auto b = p.number(other, "other");
    auto y = p.output(out, "out", numbers);
    p.shape(y, "out", a.shape);
    auto type = divides ? quotient(promote(a, b)) : promote(a, b);
    stores(p, type, y);
    return elementwise(
        y, type, [=]<class T>(T x) { return f(x, value_of<T>(b)); }, a);
  });
}

// out = self + value * f(tensor1, tensor2)
template <class F>
aclnnStatus add_combined(char const* name, aclTensor const* self, aclTensor const* tensor1, aclTensor const* tensor2,
                         aclScalar const* value, aclTensor const* out, uint64_t* workspaceSize,
                         aclOpExecutor** executor, types const& allowed, F f) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", allowed);
    auto a = p.input(tensor1, "tensor1", allowed);
    auto b = p.input(tensor2, "tensor2", allowed);
    auto factor = p.number(value, "value");
    auto y = p.output(out, "out", allowed);
    broadcasts(p, y, x, a, b);
    auto type = promote(promote(x.type, a.type), b.type);
    stores(p, type, y);
    p.require(is_floating(type) || !is_floating(factor.type), "value is floating, the operands are not");
    return elementwise(
        y, type, [=]<class T>(T s, T t, T u) { return s + value_of<T>(factor) * f(t, u); }, x, a, b);
  });
}

types const multiplied{ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT8, ACL_INT32, ACL_INT64, ACL_UINT8};

}  // namespace

aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_tensors("aclnnMul", self, other, out, workspaceSize, executor, false, times);
}
ASCEND_DOUBLE_EXECUTE(aclnnMul)

aclnnStatus aclnnInplaceMulGetWorkspaceSize(aclTensor* selfRef, const aclTensor* other, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  return of_tensors("aclnnInplaceMul", selfRef, other, selfRef, workspaceSize, executor, false, times);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceMul)

aclnnStatus aclnnMulsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_scalar("aclnnMuls", self, other, out, workspaceSize, executor, false, times);
}
ASCEND_DOUBLE_EXECUTE(aclnnMuls)

aclnnStatus aclnnInplaceMulsGetWorkspaceSize(aclTensor* selfRef, const aclScalar* other, uint64_t* workspaceSize,
                                             aclOpExecutor** executor) {
  return of_scalar("aclnnInplaceMuls", selfRef, other, selfRef, workspaceSize, executor, false, times);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceMuls)

aclnnStatus aclnnDivGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_tensors("aclnnDiv", self, other, out, workspaceSize, executor, true, over);
}
ASCEND_DOUBLE_EXECUTE(aclnnDiv)

aclnnStatus aclnnInplaceDivGetWorkspaceSize(aclTensor* selfRef, const aclTensor* other, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  return of_tensors("aclnnInplaceDiv", selfRef, other, selfRef, workspaceSize, executor, true, over);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceDiv)

aclnnStatus aclnnDivsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_scalar("aclnnDivs", self, other, out, workspaceSize, executor, true, over);
}
ASCEND_DOUBLE_EXECUTE(aclnnDivs)

aclnnStatus aclnnInplaceDivsGetWorkspaceSize(aclTensor* selfRef, const aclScalar* other, uint64_t* workspaceSize,
                                             aclOpExecutor** executor) {
  return of_scalar("aclnnInplaceDivs", selfRef, other, selfRef, workspaceSize, executor, true, over);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceDivs)

aclnnStatus aclnnAddcmulGetWorkspaceSize(const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2,
                                         const aclScalar* value, aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return add_combined("aclnnAddcmul", self, tensor1, tensor2, value, out, workspaceSize, executor, multiplied, times);
}
ASCEND_DOUBLE_EXECUTE(aclnnAddcmul)

aclnnStatus aclnnInplaceAddcmulGetWorkspaceSize(const aclTensor* selfRef, const aclTensor* tensor1,
                                                const aclTensor* tensor2, const aclScalar* value,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return add_combined("aclnnInplaceAddcmul", selfRef, tensor1, tensor2, value, selfRef, workspaceSize, executor,
                      multiplied, times);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceAddcmul)

aclnnStatus aclnnAddcdivGetWorkspaceSize(const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2,
                                         const aclScalar* value, const aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return add_combined("aclnnAddcdiv", self, tensor1, tensor2, value, out, workspaceSize, executor, floating_or_double,
                      over);
}
ASCEND_DOUBLE_EXECUTE(aclnnAddcdiv)

aclnnStatus aclnnInplaceAddcdivGetWorkspaceSize(const aclTensor* selfRef, const aclTensor* tensor1,
                                                const aclTensor* tensor2, const aclScalar* value,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return add_combined("aclnnInplaceAddcdiv", selfRef, tensor1, tensor2, value, selfRef, workspaceSize, executor,
                      floating_or_double, over);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceAddcdiv)
