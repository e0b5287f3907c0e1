#include <cmath>

#include "aclnnop/aclnn_arange.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_ones.h"
#include "aclnnop/aclnn_permute.h"
#include "aclnnop/aclnn_zero.h"
#include "elementwise.hpp"

// What copies, converts and fills.

using namespace ascend_double;

namespace {

aclnnStatus fill(char const* name, aclTensor const* self, uint64_t* workspaceSize, aclOpExecutor** executor,
                 std::function<scalar(planner&)> const& value) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto to = p.output(self, "selfRef", any_type);
    auto by = value(p);
    return [=] {
      auto count = static_cast<std::size_t>(to.count());
      if (is_floating(to.type) || is_floating(by.type)) return store(to, std::vector<double>(count, by.real));
      store(to, std::vector<std::int64_t>(count, by.integer));
    };
  });
}

}  // namespace

aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(aclTensor* selfRef, const aclScalar* value, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return fill("aclnnInplaceFillScalar", selfRef, workspaceSize, executor,
              [&](planner& p) { return p.number(value, "value"); });
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceFillScalar)

aclnnStatus aclnnInplaceZeroGetWorkspaceSize(aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return fill("aclnnInplaceZero", selfRef, workspaceSize, executor, [](planner&) { return scalar{ACL_INT64, 0, 0}; });
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceZero)

aclnnStatus aclnnInplaceOneGetWorkspaceSize(const aclTensor* selfRef, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  return fill("aclnnInplaceOne", selfRef, workspaceSize, executor, [](planner&) { return scalar{ACL_INT64, 1, 1}; });
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceOne)

aclnnStatus aclnnArangeGetWorkspaceSize(const aclScalar* start, const aclScalar* end, const aclScalar* step,
                                        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnArange", workspaceSize, executor, [&](planner& p) {
    auto from = p.number(start, "start");
    auto to = p.number(end, "end");
    auto by = p.number(step, "step");
    auto y = p.output(out, "out", {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT32, ACL_INT64});
    p.require(by.real != 0, "step is 0");
    p.require((to.real - from.real) / by.real >= 0, "step leads away from end");
    p.shape(y, "out", {static_cast<std::int64_t>(std::ceil((to.real - from.real) / by.real))});
    return [=] {
      in_type_of(y.type, [&]<class T>(T) {
        std::vector<T> values(static_cast<std::size_t>(y.count()));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = value_of<T>(from) + static_cast<T>(i) * value_of<T>(by);
        store(y, values);
      });
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnArange)

aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor* self, const aclDataType dtype, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnCast", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", any_type);
    auto y = p.output(out, "out", {dtype});
    p.shape(y, "out", x.shape);
    return [=] { copy(x, y); };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnCast)

aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src, uint64_t* workspaceSize,
                                             aclOpExecutor** executor) {
  return plan("aclnnInplaceCopy", workspaceSize, executor, [&](planner& p) {
    auto to = p.output(selfRef, "selfRef", any_type);
    auto from = p.input(src, "src", any_type);
    p.require(broadcast(from.shape, to.shape) == to.shape, "src does not broadcast to selfRef");
    return [=] { copy(from, to); };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceCopy)

aclnnStatus aclnnPermuteGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims, aclTensor* out,
                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnPermute", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", any_type);
    auto order = p.integers(dims, "dims");
    auto y = p.output(out, "out", {x.type});
    p.require(order.size() == x.rank(), "dims does not name each dimension once");
    auto turned = x;
    std::vector<bool> named(x.rank(), false);
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto d = dimension(order[i], x.rank());
      p.require(!named[d], "dims does not name each dimension once");
      named[d] = true;
      turned.shape[i] = x.shape[d];
      turned.strides[i] = x.strides[d];
    }
    p.shape(y, "out", turned.shape);
    return [=] { copy(turned, y); };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnPermute)
