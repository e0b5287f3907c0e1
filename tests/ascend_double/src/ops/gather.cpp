#include "aclnnop/aclnn_gather.h"

#include "aclnnop/aclnn_embedding.h"
#include "aclnnop/aclnn_embedding_dense_backward.h"
#include "aclnnop/aclnn_gather_v2.h"
#include "aclnnop/aclnn_index_select.h"
#include "aclnnop/aclnn_one_hot.h"
#include "elementwise.hpp"

// What looks up by index.

using namespace ascend_double;

namespace {

types const index_types{ACL_INT32, ACL_INT64};

void within(std::int64_t index, std::int64_t extent, char const* name) {
  if (index < 0 || index >= extent)
    throw task_failure{ACL_ERROR_RT_AICORE_EXCEPTION,
                       std::string(name) + ": index " + std::to_string(index) + " of " + std::to_string(extent)};
}

// Calls f with a value of the type that keeps elements of `type` exactly.
template <class F>
void exactly(aclDataType type, F f) {
  if (is_floating(type)) return f(double{});
  f(std::int64_t{});
}

// out = self with dimension d replaced by the elements at `index`, whose shape takes its place.
aclnnStatus select(char const* name, aclTensor const* self, std::int64_t dim, aclTensor const* index,
                   aclTensor const* out, std::size_t least, std::size_t most, uint64_t* workspaceSize,
                   aclOpExecutor** executor) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", any_type);
    auto at = p.input(index, "index", index_types);
    auto y = p.output(out, "out", {x.type});
    p.require(x.rank() > 0, "self has no dimensions");
    p.require(at.rank() >= least && at.rank() <= most, "index has a wrong number of dimensions");
    auto d = dimension(dim, x.rank());
    auto here = x.shape.begin() + static_cast<std::ptrdiff_t>(d);
    extents shape(x.shape.begin(), here);
    shape.insert(shape.end(), at.shape.begin(), at.shape.end());
    shape.insert(shape.end(), here + 1, x.shape.end());
    p.shape(y, "out", shape);
    return [=] {
      auto chosen = load<std::int64_t>(at);
      for (auto each : chosen) within(each, x.shape[d], name);
      auto inner = x;
      inner.shape.erase(inner.shape.begin(), inner.shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      auto length = static_cast<std::size_t>(inner.count());
      auto extent = static_cast<std::size_t>(x.shape[d]);
      exactly(x.type, [&]<class T>(T) {
        auto values = load<T>(x);
        std::vector<T> result;
        result.reserve(static_cast<std::size_t>(y.count()));
        auto outer = y.count() == 0 ? 0 : values.size() / (extent * length);
        for (std::size_t o = 0; o < outer; ++o)
          for (auto each : chosen) {
            auto from = (o * extent + static_cast<std::size_t>(each)) * length;
            for (std::size_t i = 0; i < length; ++i) result.push_back(values[from + i]);
          }
        store(y, result);
      });
    };
  });
}

// Neither zeros nor the same for each index: what a program reads beyond a table must show.
double noise(std::int64_t index, std::int64_t column) {
  auto mixed = (static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(column) + 1) *
               0xbf58476d1ce4e5b9;
  return static_cast<double>(mixed >> 40) / 16 - 5e5;
}

}  // namespace

aclnnStatus aclnnGatherV2GetWorkspaceSize(const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return select("aclnnGatherV2", self, dim, index, out, 0, 8, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnGatherV2)

aclnnStatus aclnnIndexSelectGetWorkspaceSize(const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return select("aclnnIndexSelect", self, dim, index, out, 1, 1, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnIndexSelect)

// The documentation has it from A2 on; the 910 can look up with GatherV2 or a product with OneHot.
aclnnStatus aclnnGatherGetWorkspaceSize(const aclTensor* self, const int64_t dim, const aclTensor* index,
                                        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnGather", workspaceSize, executor, [&](planner& p) {
    p.not_on(chip::ascend_910);
    auto x = p.input(self, "self", any_type);
    auto at = p.input(index, "index", index_types);
    auto y = p.output(out, "out", {x.type});
    p.shape(y, "out", at.shape);
    p.require(x.rank() == at.rank(), "self and index differ in dimensions");
    p.require(x.rank() > 0, "self has no dimensions");
    auto d = dimension(dim, x.rank());
    for (std::size_t i = 0; i < x.rank(); ++i)
      p.require(i == d || at.shape[i] <= x.shape[i], "index is larger than self");
    return [=] {
      auto chosen = load<std::int64_t>(at);
      auto from = contiguous_strides(x.shape), to = contiguous_strides(at.shape);
      exactly(x.type, [&]<class T>(T) {
        auto values = load<T>(x);
        std::vector<T> result(chosen.size());
        for (std::size_t i = 0; i < result.size(); ++i) {
          within(chosen[i], x.shape[d], "aclnnGather");
          std::int64_t element = 0;
          for (std::size_t k = 0; k < x.rank(); ++k)
            element += from[k] * (k == d ? chosen[i] : static_cast<std::int64_t>(i) / to[k] % at.shape[k]);
          result[i] = values[static_cast<std::size_t>(element)];
        }
        store(y, result);
      });
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnGather)

aclnnStatus aclnnEmbeddingGetWorkspaceSize(const aclTensor* weight, const aclTensor* indices, const aclTensor* out,
                                           uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnEmbedding", workspaceSize, executor, [&](planner& p) {
    auto table = p.input(weight, "weight", arithmetic);
    auto at = p.input(indices, "indices", index_types);
    auto y = p.output(out, "out", {table.type});
    p.require(table.rank() == 2, "weight must have 2 dimensions");
    auto shape = at.shape;
    shape.push_back(table.shape[1]);
    p.shape(y, "out", shape);
    return [=] {
      auto width = table.shape[1];
      auto rows = load<double>(table);
      std::vector<double> result;
      result.reserve(static_cast<std::size_t>(y.count()));
      for (auto row : load<std::int64_t>(at)) {
        if (row < 0) within(row, table.shape[0], "aclnnEmbedding");
        // The device does not look whether an index is too large.
        for (std::int64_t i = 0; i < width; ++i)
          result.push_back(row < table.shape[0] ? rows[static_cast<std::size_t>(row * width + i)] : noise(row, i));
      }
      store(y, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnEmbedding)

aclnnStatus aclnnEmbeddingDenseBackwardGetWorkspaceSize(const aclTensor* grad, const aclTensor* indices,
                                                        uint64_t numWeights, uint64_t paddingIdx, bool scaleGradByFreq,
                                                        const aclTensor* out, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor) {
  return plan("aclnnEmbeddingDenseBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = p.input(grad, "grad");
    auto at = p.input(indices, "indices", index_types);
    auto dw = p.output(out, "out", {dy.type});
    p.require(dy.rank() >= 1, "grad has no dimensions");
    auto width = dy.shape.back();
    auto shape = at.shape;
    shape.push_back(width);
    p.shape(dy, "grad", shape);
    auto count = static_cast<std::int64_t>(numWeights);
    p.shape(dw, "out", {count, width});
    auto padding = static_cast<std::int64_t>(paddingIdx);  // negative: none
    return [=] {
      auto gradient = load<double>(dy);
      auto rows = load<std::int64_t>(at);
      std::vector<double> result(static_cast<std::size_t>(dw.count())), uses(static_cast<std::size_t>(count));
      for (auto row : rows) {
        if (row == padding) continue;
        within(row, count, "aclnnEmbeddingDenseBackward");
        ++uses[static_cast<std::size_t>(row)];
      }
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        auto row = rows[i / static_cast<std::size_t>(width)];
        if (row == padding) continue;
        auto divisor = scaleGradByFreq ? uses[static_cast<std::size_t>(row)] : 1;
        result[static_cast<std::size_t>(row * width) + i % static_cast<std::size_t>(width)] += gradient[i] / divisor;
      }
      store(dw, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnEmbeddingDenseBackward)

aclnnStatus aclnnOneHotGetWorkspaceSize(const aclTensor* self, int numClasses, const aclTensor* onValue,
                                        const aclTensor* offValue, int64_t axis, aclTensor* out,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnOneHot", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", {ACL_INT32, ACL_INT64, ACL_UINT8});
    auto y = p.output(out, "out", {ACL_FLOAT, ACL_FLOAT16, ACL_INT32, ACL_INT64, ACL_INT8, ACL_UINT8});
    auto on = p.input(onValue, "onValue", {y.type});
    auto off = p.input(offValue, "offValue", {y.type});
    p.require(on.count() == 1 && off.count() == 1, "onValue and offValue must be one element each");
    p.require(numClasses >= 0, "numClasses is negative");
    p.require(axis >= -1 && axis <= static_cast<std::int64_t>(x.rank()), "axis");
    auto d = axis < 0 ? x.rank() : static_cast<std::size_t>(axis);
    auto shape = x.shape;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), numClasses);
    p.shape(y, "out", shape);
    return [=] {
      auto classes = load<std::int64_t>(x);
      std::vector<double> result(static_cast<std::size_t>(y.count()), load<double>(off)[0]);
      auto step = contiguous_strides(y.shape)[d];
      for (std::size_t i = 0; i < classes.size(); ++i) {
        if (classes[i] < 0 || classes[i] >= numClasses) continue;
        auto place = static_cast<std::int64_t>(i);
        auto element = (place / step * numClasses + classes[i]) * step + place % step;
        result[static_cast<std::size_t>(element)] = load<double>(on)[0];
      }
      store(y, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnOneHot)
