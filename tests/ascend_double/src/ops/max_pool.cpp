#include <cmath>

#include "aclnnop/aclnn_max_pool2d_with_indices.h"
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "window.hpp"

using namespace ascend_double;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// The 910 pools FP32 as FP16.
operands precision(planner const& p, tensor const& x) {
  constexpr std::int8_t fastest = 1;
  return this_chip() == chip::ascend_910 ? p.cube(x.type, fastest) : operands::kept;
}

// Where the maximum of each window is: an element of its plane, and a number in the kernel. The first of equals.
struct maxima {
  std::vector<float> values;
  std::vector<std::int64_t> elements, numbers;
};

maxima find(window const& w, std::vector<float> const& values) {
  auto count = at(w.planes * w.output_plane());
  maxima found{std::vector<float>(count), std::vector<std::int64_t>(count, -1), std::vector<std::int64_t>(count, -1)};
  each_covered(w, [&](std::int64_t plane, std::int64_t place, std::int64_t element, std::int64_t number) {
    auto to = at(plane * w.output_plane() + place);
    auto value = values[at(plane * w.input_plane() + element)];
    if (found.elements[to] >= 0 && !(value > found.values[to] || std::isnan(value))) return;
    found.values[to] = value;
    found.elements[to] = element;
    found.numbers[to] = number;
  });
  return found;
}

// The mask is opaque to programs. Here: a byte for each number in the kernel and place of the output.
extents mask_shape(tensor const& x, window const& w) {
  return {x.shape[0], x.shape[1], w.kernel[0] * w.kernel[1], ((w.output_plane() + 15) / 16 + 1) * 32};
}

struct pool_arguments {
  aclIntArray const *kernel, *stride, *padding, *dilation;
  bool ceil_mode;
};

window masked_window(planner& p, tensor const& x, pool_arguments const& a) {
  if (!a.dilation) throw refusal{null_parameter, "dilation is null"};
  auto w = window_of(p, x, a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode);
  p.require(w.dilation[0] == 1 && w.dilation[1] == 1, "dilation is not 1");
  return w;
}

window indexed_window(planner& p, tensor const& x, pool_arguments const& a) {
  p.not_on(chip::ascend_910);
  if (!a.dilation) throw refusal{null_parameter, "dilation is null"};
  return window_of(p, x, a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode);
}

tensor pooled(planner& p, aclTensor const* handle, tensor const& x, window const& w) {
  auto y = p.output(handle, "out", {x.type});
  p.shape(y, "out", output_shape(x, w));
  p.format(y, "out", {x.format});
  return y;
}

struct gradients {
  tensor dy, x, dx;
};

gradients gradient_tensors(planner& p, aclTensor const* grad_output, aclTensor const* self,
                           aclTensor const* grad_input) {
  gradients g{p.input(grad_output, "gradOutput"), p.input(self, "self"), p.output(grad_input, "gradInput")};
  p.require(g.dy.type == g.x.type && g.dx.type == g.x.type, "gradOutput, self and gradInput differ in type");
  images(p, g.dy, "gradOutput");
  images(p, g.dx, "gradInput");
  p.shape(g.dx, "gradInput", g.x.shape);
  return g;
}

}  // namespace

aclnnStatus aclnnMaxPool2dWithMaskGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                                   const aclIntArray* stride, const aclIntArray* padding,
                                                   const aclIntArray* dilation, bool ceilMode, aclTensor* out,
                                                   aclTensor* indices, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return plan("aclnnMaxPool2dWithMask", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self");
    auto w = masked_window(p, x, {kernelSize, stride, padding, dilation, ceilMode});
    auto y = pooled(p, out, x, w);
    auto mask = p.output(indices, "indices", {ACL_INT8});
    p.shape(mask, "indices", mask_shape(x, w));
    auto rounding = precision(p, x);
    return [=] {
      auto values = load<float>(x);
      round_operands(rounding, values);
      for (auto value : values)
        if (std::isnan(value) || value == -HUGE_VALF)
          throw task_failure{ACL_ERROR_RT_AICORE_EXCEPTION, "aclnnMaxPool2dWithMask of a NaN or negative infinity"};
      auto found = find(w, values);
      store(y, found.values);
      std::vector<std::int64_t> chosen(at(mask.count()));
      auto numbers = mask.shape[2], row = mask.shape[3];
      for (std::int64_t i = 0; i < w.planes * w.output_plane(); ++i)
        chosen[at((i / w.output_plane() * numbers + found.numbers[at(i)]) * row + i % w.output_plane())] = 1;
      store(mask, chosen);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnMaxPool2dWithMask)

aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* indices, const aclIntArray* kernelSize,
                                                           const aclIntArray* stride, const aclIntArray* padding,
                                                           const aclIntArray* dilation, bool ceilMode,
                                                           aclTensor* gradInput, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  return plan("aclnnMaxPool2dWithMaskBackward", workspaceSize, executor, [&](planner& p) {
    auto g = gradient_tensors(p, gradOutput, self, gradInput);
    auto w = masked_window(p, g.x, {kernelSize, stride, padding, dilation, ceilMode});
    p.shape(g.dy, "gradOutput", output_shape(g.x, w));
    auto mask = p.input(indices, "indices", {ACL_INT8});
    p.shape(mask, "indices", mask_shape(g.x, w));
    auto rounding = precision(p, g.x);
    return [=] {
      auto gradient = load<float>(g.dy);
      round_operands(rounding, gradient);
      auto chosen = load<std::int64_t>(mask);
      auto numbers = mask.shape[2], row = mask.shape[3];
      std::vector<float> result(at(g.x.count()));
      each_covered(w, [&](std::int64_t plane, std::int64_t place, std::int64_t element, std::int64_t number) {
        if (chosen[at((plane * numbers + number) * row + place)] != 0)
          result[at(plane * w.input_plane() + element)] += gradient[at(plane * w.output_plane() + place)];
      });
      store(g.dx, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnMaxPool2dWithMaskBackward)

aclnnStatus aclnnMaxPool2dWithIndicesGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                                      const aclIntArray* stride, const aclIntArray* padding,
                                                      const aclIntArray* dilation, bool ceilMode, aclTensor* out,
                                                      aclTensor* indices, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  return plan("aclnnMaxPool2dWithIndices", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(self, "self");
    auto w = indexed_window(p, x, {kernelSize, stride, padding, dilation, ceilMode});
    auto y = pooled(p, out, x, w);
    auto places = p.output(indices, "indices", {ACL_INT32, ACL_INT64});
    p.shape(places, "indices", y.shape);
    return [=] {
      auto found = find(w, load<float>(x));
      store(y, found.values);
      store(places, found.elements);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnMaxPool2dWithIndices)

aclnnStatus aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                              const aclTensor* indices, const aclIntArray* kernelSize,
                                                              const aclIntArray* stride, const aclIntArray* padding,
                                                              const aclIntArray* dilation, bool ceilMode,
                                                              aclTensor* gradInput, uint64_t* workspaceSize,
                                                              aclOpExecutor** executor) {
  return plan("aclnnMaxPool2dWithIndicesBackward", workspaceSize, executor, [&](planner& p) {
    auto g = gradient_tensors(p, gradOutput, self, gradInput);
    auto w = indexed_window(p, g.x, {kernelSize, stride, padding, dilation, ceilMode});
    p.shape(g.dy, "gradOutput", output_shape(g.x, w));
    auto places = p.input(indices, "indices", {ACL_INT32, ACL_INT64});
    p.shape(places, "indices", g.dy.shape);
    return [=] {
      auto gradient = load<float>(g.dy);
      auto elements = load<std::int64_t>(places);
      std::vector<float> result(at(g.x.count()));
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        if (elements[i] < 0 || elements[i] >= w.input_plane())
          throw task_failure{ACL_ERROR_RT_AICORE_EXCEPTION, "aclnnMaxPool2dWithIndicesBackward: an index out of range"};
        result[i / at(w.output_plane()) * at(w.input_plane()) + at(elements[i])] += gradient[i];
      }
      store(g.dx, result);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnMaxPool2dWithIndicesBackward)
