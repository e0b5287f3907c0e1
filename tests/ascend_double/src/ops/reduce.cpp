#include <algorithm>
#include <cmath>
#include <numeric>

#include "aclnnop/aclnn_amax.h"
#include "aclnnop/aclnn_amin.h"
#include "aclnnop/aclnn_argmax.h"
#include "aclnnop/aclnn_max_dim.h"
#include "aclnnop/aclnn_mean.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "elementwise.hpp"

using namespace ascend_double;

namespace {

// `x` with the dimensions that are reduced behind the others: `count` groups of `length` elements.
struct reduction {
  tensor x;
  std::size_t count, length;
  extents result;
};

reduction reduce_along(planner& p, tensor const& x, extents const& dims, bool keeps) {
  std::vector<bool> reduced(x.rank(), dims.empty());
  for (auto d : dims) {
    auto at = dimension(d, x.rank());
    if (x.rank() == 0) continue;
    p.require(!reduced[at], "a dimension is named twice");
    reduced[at] = true;
  }
  reduction r{x, 1, 1, {}};
  std::size_t next = 0;
  for (bool pass : {false, true})
    for (std::size_t d = 0; d < x.rank(); ++d) {
      if (reduced[d] != pass) continue;
      r.x.shape[next] = x.shape[d];
      r.x.strides[next++] = x.strides[d];
      (pass ? r.length : r.count) *= static_cast<std::size_t>(x.shape[d]);
    }
  for (std::size_t d = 0; d < x.rank(); ++d)
    if (!reduced[d] || keeps) r.result.push_back(reduced[d] ? 1 : x.shape[d]);
  return r;
}

// Sums of floating values are FP32 at the end and wider before: the order of the hardware's sums is its own.
std::function<void()> sums(reduction const& r, tensor const& y, double divisor) {
  return [=] {
    auto add = [&]<class T>(T) {
      auto values = load<T>(r.x);
      std::vector<T> result(r.count);
      for (std::size_t i = 0; i < r.count; ++i) {
        auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * r.length);
        result[i] = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(r.length), T{0});
        if constexpr (std::is_same_v<T, double>) result[i] /= divisor;
      }
      store(y, result);
    };
    if (is_floating(y.type)) return add(double{});
    add(std::int64_t{});
  };
}

// Where the extreme of each group is, the first of equals. A NaN is the extreme of any group that has one: the
// documentation does not say, and what looks for one with these must find it.
template <class T, class Better>
std::vector<std::size_t> extremes(std::vector<T> const& values, reduction const& r, Better better) {
  std::vector<std::size_t> result(r.count);
  for (std::size_t i = 0; i < r.count; ++i) {
    auto const* group = values.data() + i * r.length;
    std::size_t best = 0;
    for (std::size_t j = 1; j < r.length && group[best] == group[best]; ++j)
      if (better(group[j], group[best]) || group[j] != group[j]) best = j;
    result[i] = best;
  }
  return result;
}

template <class Better>
std::function<void()> extreme_values(reduction const& r, tensor const& y, std::optional<tensor> const& indices,
                                     Better better) {
  return [=] {
    in_type_of(r.x.type, [&]<class T>(T) {
      auto values = load<T>(r.x);
      auto at = extremes(values, r, better);
      if (indices) store(*indices, std::vector<std::int64_t>(at.begin(), at.end()));
      std::vector<T> result(r.count);
      for (std::size_t i = 0; i < r.count; ++i) result[i] = values[i * r.length + at[i]];
      store(y, result);
    });
  };
}

template <class Better>
aclnnStatus extreme(char const* name, aclTensor const* self, aclIntArray const* dim, bool keeps, aclTensor const* out,
                    uint64_t* workspaceSize, aclOpExecutor** executor, Better better) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", numbers);
    auto r = reduce_along(p, x, p.integers(dim, "dim"), keeps);
    auto y = p.output(out, "out", {x.type});
    p.shape(y, "out", r.result);
    p.require(r.length > 0, "self has no elements along dim");
    return extreme_values(r, y, std::nullopt, better);
  });
}

auto const greater = [](auto a, auto b) { return a > b; };
auto const less = [](auto a, auto b) { return a < b; };

}  // namespace

aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims, bool keepDims,
                                           aclDataType dtype, aclTensor* out, uint64_t* workspaceSize,
                                           aclOpExecutor** executor) {
  return plan("aclnnReduceSum", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", numbers);
    auto r = reduce_along(p, x, p.integers(dims, "dims"), keepDims);
    p.require(dtype != ACL_BOOL, "dtype");
    auto y = p.output(out, "out", {dtype});
    p.shape(y, "out", r.result);
    stores(p, x.type, y);
    return sums(r, y, 1);
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnReduceSum)

aclnnStatus aclnnMeanGetWorkspaceSize(const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType dtype,
                                      aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnMean", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", numbers);
    auto r = reduce_along(p, x, p.integers(dim, "dim"), keepDim);
    p.require(is_floating(dtype), "dtype is not floating");
    auto y = p.output(out, "out", {dtype});
    p.shape(y, "out", r.result);
    return sums(r, y, static_cast<double>(r.length));
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnMean)

aclnnStatus aclnnAmaxGetWorkspaceSize(const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return extreme("aclnnAmax", self, dim, keepDim, out, workspaceSize, executor, greater);
}
ASCEND_DOUBLE_EXECUTE(aclnnAmax)

aclnnStatus aclnnAminGetWorkspaceSize(const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return extreme("aclnnAmin", self, dim, keepDim, out, workspaceSize, executor, less);
}
ASCEND_DOUBLE_EXECUTE(aclnnAmin)

aclnnStatus aclnnMaxDimGetWorkspaceSize(const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out,
                                        aclTensor* indices, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnMaxDim", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", numbers);
    auto r = reduce_along(p, x, {dim}, keepdim);
    auto y = p.output(out, "out", {x.type});
    auto at = p.output(indices, "indices", {ACL_INT32, ACL_INT64});
    p.shape(y, "out", r.result);
    p.shape(at, "indices", r.result);
    p.require(r.length > 0, "self has no elements along dim");
    return extreme_values(r, y, at, greater);
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnMaxDim)

aclnnStatus aclnnArgMaxGetWorkspaceSize(const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnArgMax", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", numbers);
    auto r = reduce_along(p, x, {dim}, keepdim);
    auto y = p.output(out, "out", {ACL_INT32, ACL_INT64});
    p.shape(y, "out", r.result);
    p.require(r.length > 0, "self has no elements along dim");
    return [=] {
      in_type_of(x.type, [&]<class T>(T) {
        auto at = extremes(load<T>(r.x), r, greater);
        store(y, std::vector<std::int64_t>(at.begin(), at.end()));
      });
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnArgMax)
