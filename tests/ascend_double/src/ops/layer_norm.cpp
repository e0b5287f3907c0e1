#include "aclnnop/aclnn_layer_norm.h"

#include <cmath>

#include "../double.hpp"
#include "aclnnop/aclnn_layer_norm_backward.h"
#include "aclnnop/aclnn_rms_norm.h"
#include "aclnnop/aclnn_rms_norm_grad.h"

using namespace ascend_double;

namespace {

using values = std::vector<double>;

// `x` as rows that are each normalised: all but the last dimensions, and those.
struct rows {
  extents normalized;
  extents statistics;  // the shape of x with the normalised dimensions 1
  std::size_t count = 1, length = 1;
};

rows rows_of(planner const& p, tensor const& x, extents const& normalized) {
  p.require(!normalized.empty() && normalized.size() <= x.rank(), "so many dimensions are not normalised");
  rows r{normalized, x.shape};
  auto first = x.rank() - normalized.size();
  for (std::size_t d = 0; d < x.rank(); ++d) {
    auto extent = static_cast<std::size_t>(x.shape[d]);
    if (d < first) {
      r.count *= extent;
      continue;
    }
    p.require(x.shape[d] == normalized[d - first], "the normalised shape is not that of the last dimensions");
    r.length *= extent;
    r.statistics[d] = 1;
  }
  p.require(r.length > 0, "the normalised shape is empty");
  return r;
}

types full_or(aclDataType type) { return {ACL_FLOAT, type}; }

std::optional<tensor> affine(planner& p, aclTensor const* handle, char const* name, tensor const& x, rows const& r) {
  auto each = p.optional_input(handle, name, full_or(x.type));
  if (each) p.shape(*each, name, r.normalized);
  return each;
}

values load_or(std::optional<tensor> const& from, std::size_t count, double otherwise) {
  return from ? load<double>(*from) : values(count, otherwise);
}

}  // namespace

aclnnStatus aclnnLayerNormGetWorkspaceSize(const aclTensor* input, const aclIntArray* normalizedShape,
                                           const aclTensor* weightOptional, const aclTensor* biasOptional, double eps,
                                           aclTensor* out, aclTensor* meanOutOptional, aclTensor* rstdOutOptional,
                                           uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnLayerNorm", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(input, "input");
    auto r = rows_of(p, x, p.integers(normalizedShape, "normalizedShape"));
    auto w = affine(p, weightOptional, "weightOptional", x, r);
    auto b = affine(p, biasOptional, "biasOptional", x, r);
    auto y = p.output(out, "out", {x.type});
    p.shape(y, "out", x.shape);
    auto mean = p.optional_output(meanOutOptional, "meanOutOptional", full_or(x.type));
    auto rstd = p.optional_output(rstdOutOptional, "rstdOutOptional", full_or(x.type));
    if (mean) p.shape(*mean, "meanOutOptional", r.statistics);
    if (rstd) p.shape(*rstd, "rstdOutOptional", r.statistics);
    return [=] {
      auto data = load<double>(x), factor = load_or(w, r.length, 1), offset = load_or(b, r.length, 0);
      values means(r.count), scales(r.count);
      for (std::size_t i = 0; i < r.count; ++i) {
        auto* row = data.data() + i * r.length;
        double sum = 0, squares = 0;
        for (std::size_t j = 0; j < r.length; ++j) sum += row[j];
        means[i] = sum / static_cast<double>(r.length);
        for (std::size_t j = 0; j < r.length; ++j) squares += (row[j] - means[i]) * (row[j] - means[i]);
        scales[i] = 1 / std::sqrt(squares / static_cast<double>(r.length) + eps);
        for (std::size_t j = 0; j < r.length; ++j) row[j] = (row[j] - means[i]) * scales[i] * factor[j] + offset[j];
      }
      store(y, data);
      if (mean) store(*mean, means);
      if (rstd) store(*rstd, scales);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnLayerNorm)

aclnnStatus aclnnLayerNormBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                   const aclIntArray* normalizedShape, const aclTensor* mean,
                                                   const aclTensor* rstd, const aclTensor* weightOptional,
                                                   const aclTensor* biasOptional, const aclBoolArray* outputMask,
                                                   aclTensor* gradInputOut, aclTensor* gradWeightOut,
                                                   aclTensor* gradBiasOut, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return plan("aclnnLayerNormBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = p.input(gradOut, "gradOut");
    auto x = p.input(input, "input", {dy.type});
    p.shape(dy, "gradOut", x.shape);
    auto r = rows_of(p, x, p.integers(normalizedShape, "normalizedShape"));
    auto m = p.input(mean, "mean", full_or(x.type));
    auto s = p.input(rstd, "rstd", full_or(x.type));
    p.shape(m, "mean", r.statistics);
    p.shape(s, "rstd", r.statistics);
    auto w = affine(p, weightOptional, "weightOptional", x, r);
    affine(p, biasOptional, "biasOptional", x, r);
    auto wanted = p.flags(outputMask, "outputMask", 3);
    auto result = [&](bool is_wanted, aclTensor const* handle, char const* name,
                      extents const& shape) -> std::optional<tensor> {
      if (!is_wanted) return std::nullopt;
      auto each = p.output(handle, name, full_or(x.type));
      p.shape(each, name, shape);
      return each;
    };
    auto dx = result(wanted[0], gradInputOut, "gradInputOut", x.shape);
    auto dw = result(wanted[1], gradWeightOut, "gradWeightOut", r.normalized);
    auto db = result(wanted[2], gradBiasOut, "gradBiasOut", r.normalized);
    return [=] {
      auto gradient = load<double>(dy), data = load<double>(x), means = load<double>(m), scales = load<double>(s);
      auto factor = load_or(w, r.length, 1);
      values of_weight(r.length), of_bias(r.length);
      for (std::size_t i = 0; i < r.count; ++i) {
        auto* g = gradient.data() + i * r.length;
        auto* row = data.data() + i * r.length;
        double sum = 0, sum_x = 0;
        for (std::size_t j = 0; j < r.length; ++j) {
          row[j] = (row[j] - means[i]) * scales[i];
          of_weight[j] += g[j] * row[j];
          of_bias[j] += g[j];
          g[j] *= factor[j];
          sum += g[j];
          sum_x += g[j] * row[j];
        }
        for (std::size_t j = 0; j < r.length; ++j)
          g[j] = scales[i] * (g[j] - (sum + row[j] * sum_x) / static_cast<double>(r.length));
      }
      if (dx) store(*dx, gradient);
      if (dw) store(*dw, of_weight);
      if (db) store(*db, of_bias);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnLayerNormBackward)

// The 910 has no kernel of the two that follow.
aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor* x, const aclTensor* gamma, double epsilon,
                                         const aclTensor* yOut, const aclTensor* rstdOut, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return plan("aclnnRmsNorm", workspaceSize, executor, [&](planner& p) {
    p.not_on(chip::ascend_910);
    auto from = p.input(x, "x");
    auto w = p.input(gamma, "gamma", full_or(from.type));
    auto r = rows_of(p, from, w.shape);
    auto y = p.output(yOut, "yOut", {from.type});
    p.shape(y, "yOut", from.shape);
    auto rstd = p.output(rstdOut, "rstdOut", {ACL_FLOAT});
    p.shape(rstd, "rstdOut", r.statistics);
    return [=] {
      auto data = load<double>(from), factor = load<double>(w);
      values scales(r.count);
      for (std::size_t i = 0; i < r.count; ++i) {
        auto* row = data.data() + i * r.length;
        double squares = 0;
        for (std::size_t j = 0; j < r.length; ++j) squares += row[j] * row[j];
        scales[i] = 1 / std::sqrt(squares / static_cast<double>(r.length) + epsilon);
        for (std::size_t j = 0; j < r.length; ++j) row[j] *= scales[i] * factor[j];
      }
      store(y, data);
      store(rstd, scales);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnRmsNorm)

aclnnStatus aclnnRmsNormGradGetWorkspaceSize(const aclTensor* dy, const aclTensor* x, const aclTensor* rstd,
                                             const aclTensor* gamma, const aclTensor* dxOut, const aclTensor* dgammaOut,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnRmsNormGrad", workspaceSize, executor, [&](planner& p) {
    p.not_on(chip::ascend_910);
    auto from = p.input(dy, "dy");
    auto by = p.input(x, "x", {from.type});
    p.shape(from, "dy", by.shape);
    auto w = p.input(gamma, "gamma", full_or(by.type));
    auto r = rows_of(p, by, w.shape);
    auto s = p.input(rstd, "rstd", {ACL_FLOAT});
    p.shape(s, "rstd", r.statistics);
    auto dx = p.output(dxOut, "dxOut", {by.type});
    p.shape(dx, "dxOut", by.shape);
    auto dw = p.output(dgammaOut, "dgammaOut", {ACL_FLOAT});
    p.shape(dw, "dgammaOut", r.normalized);
    return [=] {
      auto gradient = load<double>(from), data = load<double>(by), scales = load<double>(s), factor = load<double>(w);
      values of_weight(r.length);
      for (std::size_t i = 0; i < r.count; ++i) {
        auto* g = gradient.data() + i * r.length;
        auto* row = data.data() + i * r.length;
        double sum_x = 0;
        for (std::size_t j = 0; j < r.length; ++j) {
          row[j] *= scales[i];
          of_weight[j] += g[j] * row[j];
          g[j] *= factor[j];
          sum_x += g[j] * row[j];
        }
        for (std::size_t j = 0; j < r.length; ++j)
          g[j] = scales[i] * (g[j] - row[j] * sum_x / static_cast<double>(r.length));
      }
      store(dx, gradient);
      store(dw, of_weight);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnRmsNormGrad)
