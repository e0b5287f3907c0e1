#include <cmath>

#include "aclnnop/aclnn_batch_norm.h"
#include "aclnnop/aclnn_batch_norm_backward.h"
#include "channels.hpp"

using namespace ascend_double;

aclnnStatus aclnnBatchNormGetWorkspaceSize(const aclTensor* input, const aclTensor* weight, const aclTensor* bias,
                                           aclTensor* runningMean, aclTensor* runningVar, bool training,
                                           double momentum, double eps, aclTensor* output, aclTensor* saveMean,
                                           aclTensor* saveInvstd, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnBatchNorm", workspaceSize, executor, [&](planner& p) {
    auto x = channel_input(p, input, "input");
    auto of_channel = [&](std::optional<tensor> const& each, char const* name) {
      if (each) p.shape(*each, name, {x.shape[1]});
    };
    auto w = p.optional_input(weight, "weight");
    auto b = p.optional_input(bias, "bias");
    auto old_mean = training ? p.optional_output(runningMean, "runningMean") : p.input(runningMean, "runningMean");
    auto old_variance = training ? p.optional_output(runningVar, "runningVar") : p.input(runningVar, "runningVar");
    auto y = p.output(output, "output", {x.type});
    auto mean = p.output(saveMean, "saveMean", {ACL_FLOAT, x.type});
    auto variance = p.output(saveInvstd, "saveInvstd", {ACL_FLOAT, x.type});
    of_channel(w, "weight");
    of_channel(b, "bias");
    of_channel(old_mean, "runningMean");
    of_channel(old_variance, "runningVar");
    p.require(old_mean.has_value() == old_variance.has_value(), "one of runningMean and runningVar is null");
    p.shape(y, "output", x.shape);
    p.format(y, "output", {x.format});
    if (training) {
      of_channel(mean, "saveMean");
      of_channel(variance, "saveInvstd");
    }
    return [=] {
      auto values = load<double>(x);
      auto channels = static_cast<std::size_t>(x.shape[1]);
      auto of = training ? moments_of(x, values) : moments{load<double>(*old_mean), load<double>(*old_variance)};
      if (training) {
        store(mean, of.mean);
        store(variance, of.variance);  // not its inverse root, whatever the parameter is called
        if (old_mean) update_running(*old_mean, *old_variance, of, count_of_channel(x), momentum);
      }
      std::vector<double> factor(channels, 1), offset(channels, 0);
      if (w) factor = load<double>(*w);
      if (b) offset = load<double>(*b);
      each_channel(x, [&](std::size_t i, std::size_t c) {
        values[i] = (values[i] - of.mean[c]) / std::sqrt(of.variance[c] + eps) * factor[c] + offset[c];
      });
      store(y, values);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchNorm)

aclnnStatus aclnnBatchNormBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                   const aclTensor* weight, const aclTensor* runningMean,
                                                   const aclTensor* runningVar, const aclTensor* saveMean,
                                                   const aclTensor* saveInvstd, bool training, double eps,
                                                   const aclBoolArray* outputMask, aclTensor* gradInput,
                                                   aclTensor* gradWeight, aclTensor* gradBias, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return plan("aclnnBatchNormBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = channel_input(p, gradOut, "gradOut");
    auto x = channel_input(p, input, "input");
    p.require(x.type == dy.type, "gradOut and input differ in type");
    p.shape(x, "input", dy.shape);
    p.format(x, "input", {dy.format});
    extents per_channel{x.shape[1]};
    auto w = p.optional_input(weight, "weight");
    if (w) p.shape(*w, "weight", per_channel);
    auto mean = training ? p.input(saveMean, "saveMean", {ACL_FLOAT, x.type}) : p.input(runningMean, "runningMean");
    auto variance =
        training ? p.input(saveInvstd, "saveInvstd", {ACL_FLOAT, x.type}) : p.input(runningVar, "runningVar");
    p.shape(mean, training ? "saveMean" : "runningMean", per_channel);
    p.shape(variance, training ? "saveInvstd" : "runningVar", per_channel);
    auto wanted = p.flags(outputMask, "outputMask", 3);
    std::optional<tensor> dx, dw, db;
    if (wanted[0]) {
      dx = p.output(gradInput, "gradInput", {x.type});
      p.shape(*dx, "gradInput", x.shape);
      p.format(*dx, "gradInput", {x.format});
    }
    if (wanted[1]) {
      dw = p.output(gradWeight, "gradWeight");
      p.shape(*dw, "gradWeight", per_channel);
    }
    if (wanted[2]) {
      db = p.output(gradBias, "gradBias");
      p.shape(*db, "gradBias", per_channel);
    }
    return [=] {
      auto gradient = load<double>(dy), values = load<double>(x);
      auto centre = load<double>(mean), scale = load<double>(variance);
      for (auto& each : scale) each = 1 / std::sqrt(each + eps);
      auto sums = gradient_sums(x, gradient, values, centre);
      for (std::size_t c = 0; c < scale.size(); ++c) sums.dy_x[c] *= scale[c];
      if (dw) store(*dw, sums.dy_x);
      if (db) store(*db, sums.dy);
      if (!dx) return;
      std::vector<double> factor(scale.size(), 1);
      if (w) factor = load<double>(*w);
      auto count = count_of_channel(x);
      each_channel(x, [&](std::size_t i, std::size_t c) {
        auto normal = (values[i] - centre[c]) * scale[c];
        auto shared = training ? (sums.dy[c] + normal * sums.dy_x[c]) / count : 0;
        gradient[i] = (gradient[i] - shared) * scale[c] * factor[c];
      });
      store(*dx, gradient);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchNormBackward)
