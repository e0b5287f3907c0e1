#include "aclnnop/aclnn_adaptive_avg_pool2d.h"
#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "aclnnop/aclnn_avgpool2d.h"
#include "aclnnop/aclnn_avgpool2d_backward.h"
#include "window.hpp"

using namespace ascend_double;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

operands precision(planner const& p, aclDataType type, std::int8_t cube_math_type) {
  p.require(this_chip() == chip::ascend_910 || type != ACL_FLOAT || cube_math_type != 1,
            "cubeMathType: this chip averages FP32 as FP32 only");
  return p.cube(type, cube_math_type);
}

// What the sum over the window at an output place is divided by.
std::vector<float> divisors(window const& w, bool counts_padding, std::int64_t instead) {
  std::vector<float> result(at(w.output_plane()), static_cast<float>(instead));
  if (instead != 0) return result;
  auto extent = [&](std::size_t d, std::int64_t i) {
    auto begin = i * w.stride[d] - w.padding[d];
    auto end = std::min(begin + w.kernel[d], w.input[d] + w.padding[d]);
    return counts_padding ? end - begin : std::min(end, w.input[d]) - std::max<std::int64_t>(begin, 0);
  };
  for (std::int64_t i = 0; i < w.output_plane(); ++i)
    result[at(i)] = static_cast<float>(extent(0, i / w.output[1]) * extent(1, i % w.output[1]));
  return result;
}

// Calls f(plane, place in its output, element of its input, elements of the window) for windows of about equal size
// that cover each plane.
template <class F>
void each_adaptive(extents const& input, extents const& output, F f) {
  auto begin = [&](std::size_t d, std::int64_t i) { return i * input[d] / output[d]; };
  auto end = [&](std::size_t d, std::int64_t i) { return ((i + 1) * input[d] + output[d] - 1) / output[d]; };
  for (std::int64_t plane = 0; plane < input[0] * input[1]; ++plane)
    for (std::int64_t row = 0; row < output[2]; ++row)
      for (std::int64_t column = 0; column < output[3]; ++column)
        for (auto y = begin(2, row); y < end(2, row); ++y)
          for (auto x = begin(3, column); x < end(3, column); ++x)
            f(plane, row * output[3] + column, y * input[3] + x,
              (end(2, row) - begin(2, row)) * (end(3, column) - begin(3, column)));
}

std::int64_t plane(extents const& shape) { return shape[2] * shape[3]; }

}  // namespace

aclnnStatus aclnnAvgPool2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                           const aclIntArray* strides, const aclIntArray* paddings, const bool ceilMode,
                                           const bool countIncludePad, const int64_t divisorOverride,
                                           const int8_t cubeMathType, aclTensor* out, uint64_t* workspaceSize,
                                           aclOpExecutor** executor) {
  return plan("aclnnAvgPool2d", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self");
    auto w = window_of(p, x, kernelSize, strides, paddings, nullptr, ceilMode);
    auto y = p.output(out, "out", {x.type});
    p.shape(y, "out", output_shape(x, w));
    p.format(y, "out", {x.format});
    auto rounding = precision(p, x.type, cubeMathType);
    auto divisor = divisors(w, countIncludePad, divisorOverride);
    return [=] {
      auto values = load<float>(x);
      round_operands(rounding, values);
      std::vector<float> result(at(y.count()));
      each_covered(w, [&](std::int64_t n, std::int64_t place, std::int64_t element, std::int64_t) {
        result[at(n * w.output_plane() + place)] += values[at(n * w.input_plane() + element)];
      });
      for (std::size_t i = 0; i < result.size(); ++i) result[i] /= divisor[i % divisor.size()];
      store(y, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnAvgPool2d)

aclnnStatus aclnnAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                   const aclIntArray* kernelSize, const aclIntArray* stride,
                                                   const aclIntArray* padding, bool ceilMode, bool countIncludePad,
                                                   int64_t divisorOverride, int8_t cubeMathType, aclTensor* gradInput,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnAvgPool2dBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = p.input(gradOutput, "gradOutput");
    auto x = p.input(self, "self", {dy.type});
    auto w = window_of(p, x, kernelSize, stride, padding, nullptr, ceilMode);
    images(p, dy, "gradOutput");
    p.shape(dy, "gradOutput", output_shape(x, w));
    auto dx = p.output(gradInput, "gradInput", {dy.type});
    p.shape(dx, "gradInput", x.shape);
    p.format(dx, "gradInput", {x.format});
    auto rounding = precision(p, dy.type, cubeMathType);
    auto divisor = divisors(w, countIncludePad, divisorOverride);
    return [=] {
      auto gradient = load<float>(dy);
      round_operands(rounding, gradient);
      std::vector<float> result(at(x.count()));
      each_covered(w, [&](std::int64_t n, std::int64_t place, std::int64_t element, std::int64_t) {
        result[at(n * w.input_plane() + element)] += gradient[at(n * w.output_plane() + place)] / divisor[at(place)];
      });
      store(dx, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnAvgPool2dBackward)

aclnnStatus aclnnAdaptiveAvgPool2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize, aclTensor* out,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnAdaptiveAvgPool2d", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self");
    images(p, x, "self");
    p.require(x.shape[2] > 0 && x.shape[3] > 0, "self is empty");
    auto size = p.integers(outputSize, "outputSize");
    p.require(size.size() == 2 && size[0] > 0 && size[1] > 0, "outputSize is not two positive numbers");
    auto y = p.output(out, "out", {x.type});
    p.shape(y, "out", {x.shape[0], x.shape[1], size[0], size[1]});
    p.format(y, "out", {x.format});
    return [=] {
      auto values = load<float>(x);
      std::vector<float> result(at(y.count()));
      each_adaptive(x.shape, y.shape, [&](std::int64_t n, std::int64_t place, std::int64_t element, std::int64_t of) {
        result[at(n * plane(y.shape) + place)] += values[at(n * plane(x.shape) + element)] / static_cast<float>(of);
      });
      store(y, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnAdaptiveAvgPool2d)

aclnnStatus aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  return plan("aclnnAdaptiveAvgPool2dBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = p.input(gradOutput, "gradOutput");
    auto x = p.input(self, "self", {dy.type});
    images(p, dy, "gradOutput");
    images(p, x, "self");
    p.require(dy.shape[0] == x.shape[0] && dy.shape[1] == x.shape[1], "gradOutput and self differ in planes");
    p.require(plane(dy.shape) > 0 && plane(x.shape) > 0, "gradOutput or self is empty");
    auto dx = p.output(out, "out", {dy.type});
    p.shape(dx, "out", x.shape);
    p.format(dx, "out", {x.format});
    return [=] {
      auto gradient = load<float>(dy);
      std::vector<float> result(at(x.count()));
      each_adaptive(x.shape, dy.shape, [&](std::int64_t n, std::int64_t place, std::int64_t element, std::int64_t of) {
        result[at(n * plane(x.shape) + element)] += gradient[at(n * plane(dy.shape) + place)] / static_cast<float>(of);
      });
      store(dx, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnAdaptiveAvgPool2dBackward)
