#include "aclnnop/aclnn_add.h"

#include "aclnnop/aclnn_sub.h"
#include "elementwise.hpp"

using namespace ascend_double;

namespace {

// out = a + sign * alpha * b in the type that both promote to.
std::function<void()> sum(planner& p, tensor const& a, tensor const& b, scalar alpha, int sign, tensor const& out) {
  broadcasts(p, out, a, b);
  auto type = promote(a.type, b.type);
  stores(p, type, out);
  p.require(is_floating(type) || !is_floating(alpha.type), "alpha is floating, the operands are not");
  return elementwise(
      out, type, [=]<class T>(T x, T y) { return x + static_cast<T>(sign) * value_of<T>(alpha) * y; }, a, b);
}

std::function<void()> sum(planner& p, tensor const& a, scalar b, scalar alpha, int sign, tensor const& out) {
  p.shape(out, "out", a.shape);
  auto type = promote(a, b);
  stores(p, type, out);
  p.require(is_floating(type) || !is_floating(alpha.type), "alpha is floating, the operands are not");
  return elementwise(
      out, type, [=]<class T>(T x) { return x + static_cast<T>(sign) * value_of<T>(alpha) * value_of<T>(b); }, a);
}

aclnnStatus of_tensors(char const* name, aclTensor const* self, aclTensor const* other, aclScalar const* alpha,
                       int sign, aclTensor const* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto a = p.input(self, "self", numbers);
    auto b = p.input(other, "other", numbers);
    return sum(p, a, b, p.number(alpha, "alpha"), sign, p.output(out, "out", numbers));
  });
}

aclnnStatus of_scalar(char const* name, aclTensor const* self, aclScalar const* other, aclScalar const* alpha, int sign,
                      aclTensor const* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto a = p.input(self, "self", numbers);
    auto b = p.number(other, "other");
    return sum(p, a, b, p.number(alpha, "alpha"), sign, p.output(out, "out", numbers));
  });
}

}  // namespace

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                                     aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_tensors("aclnnAdd", self, other, alpha, 1, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnAdd)

aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha,
                                            uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_tensors("aclnnInplaceAdd", selfRef, other, alpha, 1, selfRef, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceAdd)

aclnnStatus aclnnAddsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, const aclScalar* alpha,
                                      aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_scalar("aclnnAdds", self, other, alpha, 1, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnAdds)

aclnnStatus aclnnInplaceAddsGetWorkspaceSize(const aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_scalar("aclnnInplaceAdds", selfRef, other, alpha, 1, selfRef, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceAdds)

aclnnStatus aclnnSubGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                                     aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_tensors("aclnnSub", self, other, alpha, -1, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnSub)

aclnnStatus aclnnInplaceSubGetWorkspaceSize(aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha,
                                            uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_tensors("aclnnInplaceSub", selfRef, other, alpha, -1, selfRef, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceSub)

aclnnStatus aclnnSubsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, const aclScalar* alpha,
                                      aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_scalar("aclnnSubs", self, other, alpha, -1, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnSubs)

aclnnStatus aclnnInplaceSubsGetWorkspaceSize(aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return of_scalar("aclnnInplaceSubs", selfRef, other, alpha, -1, selfRef, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceSubs)
