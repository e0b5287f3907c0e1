#pragma once

#include <tessera/backend/ascend/memory_members.hpp>

#include <aclnnop/aclnn_div.h>
#include <aclnnop/aclnn_exp.h>
#include <aclnnop/aclnn_gelu_backward_v2.h>
#include <aclnnop/aclnn_gelu_v2.h>
#include <aclnnop/aclnn_log.h>
#include <aclnnop/aclnn_mul.h>
#include <aclnnop/aclnn_relu.h>
#include <aclnnop/aclnn_sigmoid.h>
#include <aclnnop/aclnn_sigmoid_backward.h>
#include <aclnnop/aclnn_silu.h>
#include <aclnnop/aclnn_silu_backward.h>
#include <aclnnop/aclnn_sub.h>
#include <aclnnop/aclnn_tanh.h>
#include <aclnnop/aclnn_tanh_backward.h>
#include <aclnnop/aclnn_threshold_backward.h>

namespace tessera::detail::ascend_kernels {

/// Flat kernels and smooth activations: one operator each. All work in place where blocks are the same.
class elementwise_members : public memory_members {
 public:
  using memory_members::memory_members;
  using in = block<float const, 1>;
  using out = block<float, 1>;

  /// y = max(x, 0); NaN stays NaN.
  void relu_forward(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Relu)>(view(x), view(y));
  }
  /// dx = dy where y > 0, else 0.
  void relu_backward(in y, in dy, out dx) {
    if (!dx.empty()) run<TESSERA_ACLNN(ThresholdBackward)>(view(dy), view(y), number(0.0f), view(dx));
  }
  void add(in a, in b, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Add)>(view(a), view(b), number(1.0f), view(y));
  }
  void sub(in a, in b, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Sub)>(view(a), view(b), number(1.0f), view(y));
  }
  void mul(in a, in b, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Mul)>(view(a), view(b), view(y));
  }
  void div(in a, in b, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Div)>(view(a), view(b), view(y));
  }
  /// y = a * factor.
  void scale(in a, float factor, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Muls)>(view(a), number(factor), view(y));
  }
  /// y += factor * x.
  void axpy(float factor, in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(InplaceAdd)>(view(y), view(x), number(factor));
  }
  void exp(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Exp)>(view(x), view(y));
  }
  void log(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Log)>(view(x), view(y));
  }

  /// y = x Phi(x), Phi the normal distribution function.
  void gelu_forward(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(GeluV2)>(view(x), index_t{0}, view(y));
  }
  void gelu_backward(in x, in dy, out dx) { gelu_gradient("none", x, dy, dx); }
  /// The form with a hyperbolic tangent.
  void gelu_tanh_forward(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(GeluV2)>(view(x), index_t{1}, view(y));
  }
  void gelu_tanh_backward(in x, in dy, out dx) { gelu_gradient("tanh", x, dy, dx); }
  /// y = x / (1 + exp(-x)).
  void silu_forward(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Silu)>(view(x), view(y));
  }
  void silu_backward(in x, in dy, out dx) {
    if (!dx.empty()) run<TESSERA_ACLNN(SiluBackward)>(view(dy), view(x), view(dx));
  }
  void sigmoid_forward(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Sigmoid)>(view(x), view(y));
  }
  /// dx = dy y (1 - y), from the output.
  void sigmoid_backward(in y, in dy, out dx) {
    if (!dx.empty()) run<TESSERA_ACLNN(SigmoidBackward)>(view(dy), view(y), view(dx));
  }
  void tanh_forward(in x, out y) {
    if (!y.empty()) run<TESSERA_ACLNN(Tanh)>(view(x), view(y));
  }
  /// dx = dy (1 - y^2), from the output.
  void tanh_backward(in y, in dy, out dx) {
    if (!dx.empty()) run<TESSERA_ACLNN(TanhBackward)>(view(dy), view(y), view(dx));
  }

 private:
  void gelu_gradient(std::string form, in x, in dy, out dx) {
    if (!dx.empty()) run<TESSERA_ACLNN(GeluBackwardV2)>(view(dy), view(x), form.data(), view(dx));
  }
};

}  // namespace tessera::detail::ascend_kernels
