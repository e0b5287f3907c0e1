#pragma once

#include <tessera/backend/ascend/matrix_members.hpp>

#include <aclnnop/aclnn_addcdiv.h>
#include <aclnnop/aclnn_addcmul.h>
#include <aclnnop/aclnn_sqrt.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tessera::detail::ascend_kernels {

/// Updates of parameters, of operators for elements: aclnn has one for Adam on the 910B only, and none for SGD.
class optimizer_members : public matrix_members {
 public:
  using matrix_members::matrix_members;

  /// Parameter and momentum buffer (empty: no momentum) after one step; see `sgd_step`.
  void sgd_update(out parameter, in gradient, out buffer, sgd_step const& step) {
    if (parameter.empty()) return;
    const auto rate = static_cast<float>(step.learning_rate);
    const auto momentum = static_cast<float>(step.momentum);
    const auto decayed = with_decay(gradient, parameter, step.weight_decay);
    const in d{decayed.data == nullptr ? gradient.data : decayed.data, gradient.extents};
    if (buffer.empty()) return axpy(-rate, d, parameter);
    if (step.first_step) {
      // What the buffer held is not read as a number: it may be uninitialised.
      copy(d, buffer);
    } else {
      scale(buffer, momentum, buffer);
      axpy(static_cast<float>(1 - step.dampening), d, buffer);
    }
    if (step.nesterov) axpy(-rate, d, parameter);
    axpy(step.nesterov ? -rate * momentum : -rate, buffer, parameter);
  }
  /// Parameter and both moments after one step; see `adam_step`. The moments are 0 before the first.
  void adam_update(out parameter, in gradient, out first, out second, adam_step const& step) {
    if (parameter.empty()) return;
    const auto correction = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(step.number)); };
    if (step.decoupled && step.weight_decay != 0)
      scale(parameter, static_cast<float>(1 - step.learning_rate * step.weight_decay), parameter);
    const auto decayed = with_decay(gradient, parameter, step.decoupled ? 0 : step.weight_decay);
    const in d{decayed.data == nullptr ? gradient.data : decayed.data, gradient.extents};
    scale(first, static_cast<float>(step.beta1), first);
    axpy(static_cast<float>(1 - step.beta1), d, first);
    scale(second, static_cast<float>(step.beta2), second);
    run<TESSERA_ACLNN(InplaceAddcmul)>(view(second), view(d), view(d), number(static_cast<float>(1 - step.beta2)));
    const auto root = scratch(parameter.size());
    const out size{root.data, parameter.extents};
    run<TESSERA_ACLNN(Sqrt)>(view(second), view(size));
    scale(size, static_cast<float>(1 / std::sqrt(correction(step.beta2))), size);
    run<TESSERA_ACLNN(InplaceAdds)>(view(size), number(static_cast<float>(step.epsilon)), number(1.0f));
    run<TESSERA_ACLNN(InplaceAddcdiv)>(view(parameter), view(first), view(size),
                                       number(static_cast<float>(-step.learning_rate / correction(step.beta1))));
  }
  /// The sum of the squares of all elements, in double: the host adds them up, as the device has no double.
  double square_sum(in x) {
    constexpr index_t most = index_t{1} << 22;
    std::vector<float> some(static_cast<std::size_t>(std::min(x.size(), most)));
    double sum = 0;
    for (index_t at = 0; at < x.size(); at += most) {
      const index_t count = std::min(most, x.size() - at);
      download(x.data + at, some.data(), count);
      for (index_t i = 0; i < count; ++i) {
        const auto value = static_cast<double>(some[static_cast<std::size_t>(i)]);
        sum += value * value;
      }
    }
    return sum;
  }

 private:
  /// gradient + decay * parameter; nothing without decay.
  temporary<float> with_decay(in gradient, in parameter, double decay) {
    if (decay == 0) return {};
    auto made = scratch(parameter.size());
    run<TESSERA_ACLNN(Add)>(view(gradient), view(parameter), number(static_cast<float>(decay)),
                            view(made.data, {parameter.size()}));
    return made;
  }
};

}  // namespace tessera::detail::ascend_kernels
