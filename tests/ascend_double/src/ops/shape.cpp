#include <algorithm>

#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_constant_pad_nd.h"
#include "aclnnop/aclnn_slice.h"
#include "aclnnop/aclnn_slice_v2.h"
#include "elementwise.hpp"

// What cuts and joins.

using namespace ascend_double;

namespace {

// The elements begin, begin + step, .. before end of dimension d; bounds count from the end when negative.
tensor slice(planner const& p, tensor x, std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) {
  p.require(x.rank() > 0, "self has no dimensions");
  p.require(step > 0, "step is not positive");
  auto d = dimension(dim, x.rank());
  auto extent = x.shape[d];
  auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent); };
  auto first = bound(begin), last = std::max(bound(end), first);
  x.offset += first * x.strides[d];
  x.shape[d] = (last - first + step - 1) / step;
  x.strides[d] *= step;
  return x;
}

}  // namespace

aclnnStatus aclnnSliceGetWorkspaceSize(const aclTensor* self, int64_t dim, int64_t start, int64_t end, int64_t step,
                                       aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnSlice", workspaceSize, executor, [&](planner& p) {
    auto part = slice(p, p.input(self, "self", any_type), dim, start, end, step);
    auto y = p.output(out, "out", {part.type});
    p.shape(y, "out", part.shape);
    return [=] { copy(part, y); };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnSlice)

aclnnStatus aclnnSliceV2GetWorkspaceSize(const aclTensor* self, const aclIntArray* starts, const aclIntArray* ends,
                                         const aclIntArray* axes, const aclIntArray* steps, aclTensor* out,
                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnSliceV2", workspaceSize, executor, [&](planner& p) {
    auto part = p.input(self, "self", any_type);
    auto from = p.integers(starts, "starts"), to = p.integers(ends, "ends");
    auto along = p.integers(axes, "axes"), by = p.integers(steps, "steps");
    p.require(from.size() == to.size() && from.size() == along.size() && from.size() == by.size(),
              "starts, ends, axes and steps differ in length");
    std::vector<bool> named(part.rank(), false);
    for (std::size_t i = 0; i < along.size(); ++i) {
      part = slice(p, part, along[i], from[i], to[i], by[i]);
      auto d = dimension(along[i], part.rank());
      p.require(!named[d], "axes names a dimension twice");
      named[d] = true;
    }
    auto y = p.output(out, "out", {part.type});
    p.shape(y, "out", part.shape);
    return [=] { copy(part, y); };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnSliceV2)

aclnnStatus aclnnCatGetWorkspaceSize(const aclTensorList* tensors, int64_t dim, aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor) {
  return plan("aclnnCat", workspaceSize, executor, [&](planner& p) {
    auto all = p.inputs(tensors, "tensors", any_type);
    p.require(!all.empty(), "tensors is empty");
    p.require(all.front().rank() > 0, "tensors have no dimensions");
    auto d = dimension(dim, all.front().rank());
    auto shape = all.front().shape;
    auto type = all.front().type;
    shape[d] = 0;
    for (auto const& each : all) {
      p.require(each.rank() == shape.size(), "the tensors differ in dimensions");
      for (std::size_t i = 0; i < shape.size(); ++i)
        p.require(i == d || each.shape[i] == shape[i], "the tensors differ in other dimensions than dim");
      shape[d] += each.shape[d];
      type = promote(type, each.type);
    }
    auto y = p.output(out, "out", {type});
    p.shape(y, "out", shape);
    return [=] {
      auto part = y;
      for (auto const& each : all) {
        part.shape[d] = each.shape[d];
        copy(each, part);
        part.offset += part.shape[d] * part.strides[d];
      }
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnCat)

aclnnStatus aclnnConstantPadNdGetWorkspaceSize(const aclTensor* self, const aclIntArray* pad, const aclScalar* value,
                                               aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnConstantPadNd", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", any_type);
    auto y = p.output(out, "out", {x.type});
    auto by = p.number(value, "value");
    auto sides = p.integers(pad, "pad");
    p.require(sides.size() % 2 == 0 && sides.size() / 2 <= x.rank(), "pad does not have two numbers a dimension");
    // Negative ones cut. Where what is left of x lies in y:
    auto shape = x.shape;
    auto kept = x, place = y;
    for (std::size_t i = 0; i < sides.size() / 2; ++i) {
      auto d = x.rank() - 1 - i;
      auto before = sides[2 * i], behind = sides[2 * i + 1];
      shape[d] += before + behind;
      p.require(shape[d] >= 0, "pad cuts more than there is");
      kept.offset += std::max<std::int64_t>(-before, 0) * kept.strides[d];
      kept.shape[d] += std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(behind, 0);
      kept.shape[d] = std::max<std::int64_t>(kept.shape[d], 0);
      if (d < place.rank()) place.offset += std::max<std::int64_t>(before, 0) * place.strides[d];
    }
    p.shape(y, "out", shape);
    place.shape = kept.shape;
    return [=] {
      auto fill = [&]<class T>(T around) {
        auto part = load<T>(kept);
        store(y, std::vector<T>(static_cast<std::size_t>(y.count()), around));
        store(place, part);
      };
      if (is_floating(y.type)) return fill(by.real);
      fill(by.integer);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnConstantPadNd)
