#include <cmath>

#include "aclnnop/aclnn_batch_norm_backward_reduce.h"
#include "aclnnop/aclnn_batch_norm_elemt.h"
#include "aclnnop/aclnn_batch_norm_elemt_backward.h"
#include "aclnnop/aclnn_batch_norm_gather_stats_with_counts.h"
#include "aclnnop/aclnn_batch_norm_stats.h"
#include "channels.hpp"

// Batch normalisation in pieces, between which ranks exchange statistics.

using namespace ascend_double;

namespace {

types const full{ACL_FLOAT};

tensor per_channel(planner const& p, tensor const& each, char const* name, tensor const& x) {
  p.shape(each, name, {x.shape[1]});
  return each;
}

}  // namespace

aclnnStatus aclnnBatchNormStatsGetWorkspaceSize(const aclTensor* input, double eps, aclTensor* mean, aclTensor* invstd,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnBatchNormStats", workspaceSize, executor, [&](planner& p) {
    auto x = channel_input(p, input, "input");
    auto m = per_channel(p, p.output(mean, "mean", full), "mean", x);
    auto s = per_channel(p, p.output(invstd, "invstd", full), "invstd", x);
    return [=] {
      auto of = moments_of(x, load<double>(x));
      store(m, of.mean);
      for (auto& each : of.variance) each = 1 / std::sqrt(each + eps);
      store(s, of.variance);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchNormStats)

aclnnStatus aclnnBatchNormGatherStatsWithCountsGetWorkspaceSize(const aclTensor* input, const aclTensor* mean,
                                                                const aclTensor* invstd, aclTensor* runningMean,
                                                                aclTensor* runningVar, double momentum, double eps,
                                                                const aclTensor* counts, aclTensor* meanAll,
                                                                aclTensor* invstdAll, uint64_t* workspaceSize,
                                                                aclOpExecutor** executor) {
  return plan("aclnnBatchNormGatherStatsWithCounts", workspaceSize, executor, [&](planner& p) {
    auto x = channel_input(p, input, "input");
    auto m = p.input(mean, "mean", full);
    auto s = p.input(invstd, "invstd", full);
    auto n = p.input(counts, "counts");
    p.require(n.rank() == 1 && n.count() > 0, "counts must have 1 dimension");
    p.shape(m, "mean", {n.shape[0], x.shape[1]});
    p.shape(s, "invstd", {n.shape[0], x.shape[1]});
    auto old_mean = p.optional_output(runningMean, "runningMean");
    auto old_variance = p.optional_output(runningVar, "runningVar");
    p.require(old_mean.has_value() == old_variance.has_value(), "one of runningMean and runningVar is null");
    if (old_mean) {
      per_channel(p, *old_mean, "runningMean", x);
      per_channel(p, *old_variance, "runningVar", x);
    }
    auto mean_all = per_channel(p, p.output(meanAll, "meanAll", full), "meanAll", x);
    auto invstd_all = per_channel(p, p.output(invstdAll, "invstdAll", full), "invstdAll", x);
    return [=] {
      auto means = load<double>(m), inverse = load<double>(s), of_rank = load<double>(n);
      auto channels = static_cast<std::size_t>(x.shape[1]);
      moments all{std::vector<double>(channels), std::vector<double>(channels)};
      double total = 0;
      for (auto count : of_rank) total += count;
      for (std::size_t i = 0; i < means.size(); ++i) all.mean[i % channels] += of_rank[i / channels] * means[i] / total;
      for (std::size_t i = 0; i < means.size(); ++i) {
        auto apart = means[i] - all.mean[i % channels];
        auto variance = 1 / (inverse[i] * inverse[i]) - eps;
        all.variance[i % channels] += of_rank[i / channels] * (variance + apart * apart) / total;
      }
      store(mean_all, all.mean);
      if (old_mean) update_running(*old_mean, *old_variance, all, total, momentum);
      for (auto& each : all.variance) each = 1 / std::sqrt(each + eps);
      store(invstd_all, all.variance);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchNormGatherStatsWithCounts)

aclnnStatus aclnnBatchNormElemtGetWorkspaceSize(const aclTensor* input, const aclTensor* weight, const aclTensor* bias,
                                                aclTensor* mean, aclTensor* invstd, double /*eps*/, aclTensor* output,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnBatchNormElemt", workspaceSize, executor, [&](planner& p) {
    auto x = channel_input(p, input, "input");
    auto w = p.optional_input(weight, "weight");
    auto b = p.optional_input(bias, "bias");
    if (w) per_channel(p, *w, "weight", x);
    if (b) per_channel(p, *b, "bias", x);
    auto m = per_channel(p, p.input(mean, "mean", full), "mean", x);
    auto s = per_channel(p, p.input(invstd, "invstd", full), "invstd", x);
    auto y = p.output(output, "output", {x.type});
    p.shape(y, "output", x.shape);
    p.format(y, "output", {x.format});
    return [=] {
      auto values = load<double>(x), centre = load<double>(m), factor = load<double>(s);
      std::vector<double> offset(factor.size());
      if (b) offset = load<double>(*b);
      if (w) {
        auto scale = load<double>(*w);
        for (std::size_t c = 0; c < factor.size(); ++c) factor[c] *= scale[c];
      }
      each_channel(x,
                   [&](std::size_t i, std::size_t c) { values[i] = (values[i] - centre[c]) * factor[c] + offset[c]; });
      store(y, values);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchNormElemt)

aclnnStatus aclnnBatchNormReduceBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                         const aclTensor* mean, const aclTensor* invstd,
                                                         const aclTensor* weight, const bool inputG, const bool weightG,
                                                         const bool biasG, aclTensor* sumDy, aclTensor* sumDyXmu,
                                                         aclTensor* gradWeight, aclTensor* gradBias,
                                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnBatchNormReduceBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = channel_input(p, gradOut, "gradOut");
    auto x = channel_input(p, input, "input");
    p.require(x.type == dy.type, "gradOut and input differ in type");
    p.shape(dy, "gradOut", x.shape);
    auto m = per_channel(p, p.input(mean, "mean", full), "mean", x);
    auto s = per_channel(p, p.input(invstd, "invstd", full), "invstd", x);
    if (auto w = p.optional_input(weight, "weight")) per_channel(p, *w, "weight", x);
    auto result = [&](bool wanted, aclTensor const* handle, char const* name) -> std::optional<tensor> {
      if (!wanted) return std::nullopt;
      return per_channel(p, p.output(handle, name), name, x);
    };
    auto sum = result(inputG, sumDy, "sumDy");
    auto sum_x = result(inputG, sumDyXmu, "sumDyXmu");
    auto dw = result(weightG, gradWeight, "gradWeight");
    auto db = result(biasG, gradBias, "gradBias");
    return [=] {
      auto sums = gradient_sums(x, load<double>(dy), load<double>(x), load<double>(m));
      if (sum) store(*sum, sums.dy);
      if (sum_x) store(*sum_x, sums.dy_x);
      if (db) store(*db, sums.dy);
      auto scale = load<double>(s);
      for (std::size_t c = 0; c < scale.size(); ++c) sums.dy_x[c] *= scale[c];
      if (dw) store(*dw, sums.dy_x);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchNormReduceBackward)

aclnnStatus aclnnBatchNormElemtBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                        const aclTensor* mean, const aclTensor* invstd,
                                                        const aclTensor* weight, const aclTensor* sumDy,
                                                        const aclTensor* sumDyXmu, aclTensor* counter,
                                                        aclTensor* gradInput, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor) {
  return plan("aclnnBatchNormElemtBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = channel_input(p, gradOut, "gradOut");
    auto x = channel_input(p, input, "input");
    p.require(x.type == dy.type, "gradOut and input differ in type");
    p.shape(dy, "gradOut", x.shape);
    auto m = per_channel(p, p.input(mean, "mean", full), "mean", x);
    auto s = per_channel(p, p.input(invstd, "invstd", full), "invstd", x);
    auto w = p.optional_input(weight, "weight");
    if (w) per_channel(p, *w, "weight", x);
    auto sum = per_channel(p, p.input(sumDy, "sumDy"), "sumDy", x);
    auto sum_x = per_channel(p, p.input(sumDyXmu, "sumDyXmu"), "sumDyXmu", x);
    auto n = p.input(counter, "counter", {ACL_INT32, ACL_FLOAT16, ACL_FLOAT, ACL_BF16});
    p.require(n.rank() == 1 && n.count() > 0, "counter must have 1 dimension");
    auto dx = p.output(gradInput, "gradInput", {x.type});
    p.shape(dx, "gradInput", x.shape);
    p.format(dx, "gradInput", {x.format});
    return [=] {
      auto gradient = load<double>(dy), values = load<double>(x);
      auto centre = load<double>(m), scale = load<double>(s), sums = load<double>(sum), sums_x = load<double>(sum_x);
      double total = 0;
      for (auto count : load<double>(n)) total += count;
      std::vector<double> factor(scale.size(), 1);
      if (w) factor = load<double>(*w);
      each_channel(x, [&](std::size_t i, std::size_t c) {
        auto shared = sums[c] / total + (values[i] - centre[c]) * scale[c] * scale[c] * sums_x[c] / total;
        gradient[i] = (gradient[i] - shared) * scale[c] * factor[c];
      });
      store(dx, gradient);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchNormElemtBackward)
