#include "aclnnop/aclnn_softmax.h"

#include <algorithm>
#include <cmath>

#include "aclnnop/aclnn_logsoftmax.h"
#include "aclnnop/aclnn_logsoftmax_backward.h"
#include "aclnnop/aclnn_softmax_backward.h"
#include "elementwise.hpp"

using namespace ascend_double;

namespace {

// Of `shape`: rows along one dimension, whose elements lie `step` apart.
struct rows {
  rows(extents const& shape, std::size_t d) : length(1), step(1), count(1) {
    if (shape.empty()) return;
    length = static_cast<std::size_t>(shape[d]);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i > d) step *= static_cast<std::size_t>(shape[i]);
      if (i != d) count *= static_cast<std::size_t>(shape[i]);
    }
  }
  // Where a row begins.
  std::size_t begin(std::size_t row) const { return row / step * length * step + row % step; }

  std::size_t length, step, count;
};

aclnnStatus normalize(char const* name, bool logarithm, aclTensor const* self, std::int64_t dim, aclTensor const* out,
                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self", floating_or_double);
    auto y = p.output(out, "out", floating_or_double);
    p.shape(y, "out", x.shape);
    auto along = rows(x.shape, dimension(dim, x.rank()));
    return [=] {
      auto values = load<double>(x);
      for (std::size_t r = 0; r < along.count && along.length > 0; ++r) {
        auto* row = values.data() + along.begin(r);
        auto end = along.length * along.step;
        auto largest = row[0];
        for (std::size_t i = 0; i < end; i += along.step) largest = std::max(largest, row[i]);
        double sum = 0;
        for (std::size_t i = 0; i < end; i += along.step) {
          row[i] -= largest;
          sum += std::exp(row[i]);
        }
        for (std::size_t i = 0; i < end; i += along.step)
          row[i] = logarithm ? row[i] - std::log(sum) : std::exp(row[i]) / sum;
      }
      store(y, values);
    };
  });
}

// Of the outputs, not the inputs, of the forward operator.
aclnnStatus gradient(char const* name, bool logarithm, aclTensor const* grad_output, aclTensor const* output,
                     std::int64_t dim, aclTensor const* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto dy = p.input(grad_output, "gradOutput", floating_or_double);
    auto y = p.input(output, "output", {dy.type});
    auto dx = p.output(out, "out", floating_or_double);
    p.shape(y, "output", dy.shape);
    p.shape(dx, "out", dy.shape);
    auto along = rows(dy.shape, dimension(dim, dy.rank()));
    return [=] {
      auto gradient = load<double>(dy), outputs = load<double>(y);
      for (std::size_t r = 0; r < along.count; ++r) {
        auto* of_row = gradient.data() + along.begin(r);
        auto const* row = outputs.data() + along.begin(r);
        auto end = along.length * along.step;
        double sum = 0;
        for (std::size_t i = 0; i < end; i += along.step) sum += logarithm ? of_row[i] : of_row[i] * row[i];
        for (std::size_t i = 0; i < end; i += along.step)
          of_row[i] = logarithm ? of_row[i] - std::exp(row[i]) * sum : (of_row[i] - sum) * row[i];
      }
      store(dx, gradient);
    };
  });
}

}  // namespace

aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return normalize("aclnnSoftmax", false, self, dim, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnSoftmax)

aclnnStatus aclnnLogSoftmaxGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  return normalize("aclnnLogSoftmax", true, self, dim, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnLogSoftmax)

aclnnStatus aclnnSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output, int64_t dim,
                                                 aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return gradient("aclnnSoftmaxBackward", false, gradOutput, output, dim, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnSoftmaxBackward)

aclnnStatus aclnnLogSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output, int64_t dim,
                                                    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return gradient("aclnnLogSoftmaxBackward", true, gradOutput, output, dim, out, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnLogSoftmaxBackward)
