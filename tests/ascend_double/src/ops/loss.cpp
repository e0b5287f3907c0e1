#include "../double.hpp"
#include "aclnnop/aclnn_nll_loss.h"
#include "aclnnop/aclnn_nll_loss_backward.h"

using namespace ascend_double;

namespace {

enum reduction { none, mean, sum };

// Log-probabilities [n, c] or [c], a class for each, a weight for each class.
struct examples {
  tensor x, target, weight;
  std::int64_t classes, ignored;
  std::int64_t reduction;

  // Calls f(example, class, its weight).
  template <class F>
  void each(F f) const {
    auto of = load<std::int64_t>(target);
    auto weights = load<double>(weight);
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (of[i] == ignored) continue;
      if (of[i] < 0 || of[i] >= classes)
        throw task_failure{ACL_ERROR_RT_AICORE_EXCEPTION, "NLLLoss of class " + std::to_string(of[i])};
      f(i, static_cast<std::size_t>(of[i]), weights[static_cast<std::size_t>(of[i])]);
    }
  }
  std::size_t element(std::size_t example, std::size_t of) const {
    return example * static_cast<std::size_t>(classes) + of;
  }
};

types const narrow{ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

examples describe(planner& p, aclTensor const* self, aclTensor const* target, aclTensor const* weight,
                  std::int64_t reduction, std::int64_t ignored) {
  auto x = p.input(self, "self", narrow);
  auto t = p.input(target, "target", {ACL_INT64, ACL_INT32, ACL_UINT8});
  auto w = p.input(weight, "weight", {x.type});
  p.require(x.rank() == 1 || x.rank() == 2, "self must have 1 or 2 dimensions");
  p.shape(t, "target", extents(x.shape.begin(), x.shape.end() - 1));
  p.shape(w, "weight", {x.shape.back()});
  p.require(reduction >= none && reduction <= sum, "reduction is none of 0, 1 and 2");
  return {x, t, w, x.shape.back(), ignored, reduction};
}

void loss_shape(planner const& p, tensor const& each, char const* name, examples const& e) {
  if (e.reduction == none) return p.shape(each, name, e.target.shape);
  p.require(each.rank() <= 1 && each.count() == 1, std::string(name) + " must be one element");
}

}  // namespace

aclnnStatus aclnnNLLLossGetWorkspaceSize(const aclTensor* self, const aclTensor* target, const aclTensor* weight,
                                         int64_t reduction, int64_t ignoreIndex, aclTensor* out,
                                         aclTensor* totalWeightOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnNLLLoss", workspaceSize, executor, [&](planner& p) {
    auto e = describe(p, self, target, weight, reduction, ignoreIndex);
    auto y = p.output(out, "out", narrow);
    auto total = p.output(totalWeightOut, "totalWeightOut", narrow);
    loss_shape(p, y, "out", e);
    p.require(total.count() == 1, "totalWeightOut must be one element");
    return [=] {
      auto values = load<double>(e.x);
      std::vector<double> losses(static_cast<std::size_t>(e.target.count()));
      double all = 0, weights = 0;
      e.each([&](std::size_t i, std::size_t of, double factor) {
        losses[i] = -factor * values[e.element(i, of)];
        all += losses[i];
        weights += factor;
      });
      if (e.reduction == none) return store(y, losses);  // and no total
      store(y, std::vector<double>{e.reduction == mean ? all / weights : all});
      store(total, std::vector<double>{weights});
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnNLLLoss)

aclnnStatus aclnnNLLLossBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                 const aclTensor* target, const aclTensor* weight, int64_t reduction,
                                                 int64_t ignoreIndex, const aclTensor* totalWeight, aclTensor* out,
                                                 uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnNLLLossBackward", workspaceSize, executor, [&](planner& p) {
    auto e = describe(p, self, target, weight, reduction, ignoreIndex);
    auto dy = p.input(gradOutput, "gradOutput", {e.x.type});
    auto total = p.input(totalWeight, "totalWeight", {e.x.type});
    auto dx = p.output(out, "out", {e.x.type});
    loss_shape(p, dy, "gradOutput", e);
    p.require(total.count() == 1, "totalWeight must be one element");
    p.shape(dx, "out", e.x.shape);
    return [=] {
      auto gradient = load<double>(dy);
      auto divisor = e.reduction == mean ? load<double>(total)[0] : 1;
      std::vector<double> result(static_cast<std::size_t>(dx.count()));
      e.each([&](std::size_t i, std::size_t of, double factor) {
        result[e.element(i, of)] = -factor * gradient[e.reduction == none ? i : 0] / divisor;
      });
      store(dx, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnNLLLossBackward)
