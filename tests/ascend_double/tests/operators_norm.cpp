#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "aclnnop/aclnn_batch_norm.h"
#include "aclnnop/aclnn_batch_norm_backward.h"
#include "aclnnop/aclnn_batch_norm_backward_reduce.h"
#include "aclnnop/aclnn_batch_norm_elemt.h"
#include "aclnnop/aclnn_batch_norm_elemt_backward.h"
#include "aclnnop/aclnn_batch_norm_gather_stats_with_counts.h"
#include "aclnnop/aclnn_batch_norm_stats.h"
#include "aclnnop/aclnn_layer_norm.h"
#include "aclnnop/aclnn_layer_norm_backward.h"
#include "aclnnop/aclnn_logsoftmax.h"
#include "aclnnop/aclnn_logsoftmax_backward.h"
#include "aclnnop/aclnn_nll_loss.h"
#include "aclnnop/aclnn_nll_loss_backward.h"
#include "aclnnop/aclnn_rms_norm.h"
#include "aclnnop/aclnn_rms_norm_grad.h"
#include "aclnnop/aclnn_softmax.h"
#include "aclnnop/aclnn_softmax_backward.h"
#include "tensors.hpp"

namespace {

using floats = std::vector<float>;
using doubles = std::vector<double>;

constexpr double eps = 1e-3;
layout const nchw{ACL_FORMAT_NCHW};

doubles wide(floats const& values) { return {values.begin(), values.end()}; }

// The gradient of sum(dy * f(x)) by x.
template <class F>
doubles slopes(doubles x, floats const& dy, F f) {
  doubles result(x.size());
  auto total = [&] {
    auto y = f(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(dy[i]) * y[i];
    return sum;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto at = x[i];
    x[i] = at + 1e-4;
    auto above = total();
    x[i] = at - 1e-4;
    result[i] = (above - total()) / 2e-4;
    x[i] = at;
  }
  return result;
}

// Of [samples, 3, 2, 2], the statistics those of the batch.
struct batch {
  std::size_t samples;
  doubles weight{0.5, -1, 2}, bias{0.1, 0.2, 0.3};

  std::size_t count() const { return samples * 4; }
  doubles mean(doubles const& x) const {
    doubles result(3);
    for (std::size_t i = 0; i < x.size(); ++i) result[i / 4 % 3] += x[i] / static_cast<double>(count());
    return result;
  }
  doubles variance(doubles const& x) const {
    auto m = mean(x);
    doubles result(3);
    for (std::size_t i = 0; i < x.size(); ++i)
      result[i / 4 % 3] += std::pow(x[i] - m[i / 4 % 3], 2) / static_cast<double>(count());
    return result;
  }
  doubles normal(doubles const& x) const {
    auto m = mean(x), v = variance(x);
    auto y = x;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = (x[i] - m[i / 4 % 3]) / std::sqrt(v[i / 4 % 3] + eps);
    return y;
  }
  doubles operator()(doubles const& x) const {
    auto y = normal(x);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] * weight[i / 4 % 3] + bias[i / 4 % 3];
    return y;
  }
};

doubles blend(doubles const& old, doubles const& now, double momentum, double factor = 1) {
  doubles result(old.size());
  for (std::size_t i = 0; i < old.size(); ++i) result[i] = (1 - momentum) * old[i] + momentum * factor * now[i];
  return result;
}

// Sums over a channel of dy, and of dy times the normal values.
std::pair<doubles, doubles> affine_gradients(floats const& dy, doubles const& normal) {
  doubles of_weight(3), of_bias(3);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    of_weight[i / 4 % 3] += static_cast<double>(dy[i]) * normal[i];
    of_bias[i / 4 % 3] += static_cast<double>(dy[i]);
  }
  return {of_weight, of_bias};
}

}  // namespace

TEST_CASE("batch normalisation in training keeps the variance where invstd is said") {
  on_device({}, [](aclrtStream stream) {
    batch const norm{5};
    auto x = some_values(60, 1), dy = some_values(60, 2);
    device_tensor<float> in({5, 3, 2, 2}, x, nchw), out({5, 3, 2, 2}, ACL_FORMAT_NCHW), mean({3}), kept({3});
    device_tensor<float> weight({3}, {0.5f, -1, 2}), bias({3}, {0.1f, 0.2f, 0.3f});
    device_tensor<float> running_mean({3}, {1, 2, 3}), running_variance({3}, {4, 5, 6});
    EXPECT(OPERATION(aclnnBatchNorm)(stream, in, weight, bias, running_mean, running_variance, true, 0.25, eps, out,
                                     mean, kept) == 0);
    EXPECT(close(out.read(), norm(wide(x)), 1e-4));
    EXPECT(close(mean.read(), norm.mean(wide(x))));
    EXPECT(close(kept.read(), norm.variance(wide(x))));
    EXPECT(close(running_mean.read(), blend({1, 2, 3}, norm.mean(wide(x)), 0.25)));
    EXPECT(close(running_variance.read(), blend({4, 5, 6}, norm.variance(wide(x)), 0.25, 20.0 / 19)));

    device_tensor<float> gradient({5, 3, 2, 2}, dy, nchw), of_in({5, 3, 2, 2}, ACL_FORMAT_NCHW), of_weight({3}),
        of_bias({3});
    three_flags all(true, true, true);
    EXPECT(OPERATION(aclnnBatchNormBackward)(stream, gradient, in, weight, running_mean, running_variance, mean, kept,
                                             true, eps, all, of_in, of_weight, of_bias) == 0);
    EXPECT(close(of_in.read(), slopes(wide(x), dy, norm), 1e-4));
    auto [by_weight, by_bias] = affine_gradients(dy, norm.normal(wide(x)));
    EXPECT(close(of_weight.read(), by_weight, 1e-4));
    EXPECT(close(of_bias.read(), by_bias, 1e-4));

    // With running statistics.
    auto m = wide(running_mean.read()), v = wide(running_variance.read());
    EXPECT(OPERATION(aclnnBatchNorm)(stream, in, weight, bias, running_mean, running_variance, false, 0.25, eps, out,
                                     mean, kept) == 0);
    auto fixed = [&](doubles y) {
      for (std::size_t i = 0; i < y.size(); ++i) {
        auto c = i / 4 % 3;
        y[i] = (y[i] - m[c]) / std::sqrt(v[c] + eps) * norm.weight[c] + norm.bias[c];
      }
      return y;
    };
    EXPECT(close(out.read(), fixed(wide(x)), 1e-4));
    EXPECT(OPERATION(aclnnBatchNormBackward)(stream, gradient, in, weight, running_mean, running_variance, mean, kept,
                                             false, eps, all, of_in, of_weight, of_bias) == 0);
    EXPECT(close(of_in.read(), slopes(wide(x), dy, fixed), 1e-4));

    device_tensor<float> bare({5, 3, 2, 2}), four({4});
    device_tensor<std::uint16_t> narrow({3});
    auto none = static_cast<aclTensor*>(nullptr);
    EXPECT(OPERATION(aclnnBatchNorm)(stream, bare, weight, bias, none, none, true, 0.25, eps, out, mean, kept) ==
           invalid_parameter);
    EXPECT(OPERATION(aclnnBatchNorm)(stream, in, four, bias, none, none, true, 0.25, eps, out, mean, kept) ==
           invalid_parameter);
    EXPECT(OPERATION(aclnnBatchNorm)(stream, in, weight, bias, none, none, true, 0.25, eps, out, mean, narrow) ==
           invalid_parameter);
    EXPECT(OPERATION(aclnnBatchNorm)(stream, in, weight, bias, none, none, false, 0.25, eps, out, mean, kept) ==
           null_parameter);
  });
}

TEST_CASE("batch normalisation in pieces is that of the whole batch") {
  on_device({}, [](aclrtStream stream) {
    batch const norm{5};
    auto x = some_values(60, 1), dy = some_values(60, 2);
    std::size_t const split[]{0, 24, 60};  // samples 0 and 1, and the others
    auto part = [&](floats const& all, std::size_t r) {
      return floats(all.begin() + static_cast<std::ptrdiff_t>(split[r]),
                    all.begin() + static_cast<std::ptrdiff_t>(split[r + 1]));
    };
    extents const shapes[]{{2, 3, 2, 2}, {3, 3, 2, 2}};
    floats means, inverses, sums(3), sums_x(3), weight_sums(3), bias_sums(3);
    for (std::size_t r : {0u, 1u}) {
      device_tensor<float> in(shapes[r], part(x, r), nchw), mean({3}), invstd({3});
      EXPECT(OPERATION(aclnnBatchNormStats)(stream, in, eps, mean, invstd) == 0);
      for (auto value : mean.read()) means.push_back(value);
      for (auto value : invstd.read()) inverses.push_back(value);
    }
    device_tensor<float> all_means({2, 3}, means), all_inverses({2, 3}, inverses), counts({2}, {8, 12});
    device_tensor<float> mean({3}), invstd({3}), running_mean({3}, {1, 2, 3}), running_variance({3}, {4, 5, 6});
    device_tensor<float> weight({3}, {0.5f, -1, 2}), bias({3}, {0.1f, 0.2f, 0.3f});
    {
      device_tensor<float> in(shapes[0], part(x, 0), nchw);
      EXPECT(OPERATION(aclnnBatchNormGatherStatsWithCounts)(stream, in, all_means, all_inverses, running_mean,
                                                            running_variance, 0.25, eps, counts, mean, invstd) == 0);
      EXPECT(OPERATION(aclnnBatchNormGatherStatsWithCounts)(stream, in, all_means, all_inverses, running_mean,
                                                            running_variance, 0.25, eps, mean, mean,
                                                            invstd) == invalid_parameter);
    }
    EXPECT(close(mean.read(), norm.mean(wide(x))));
    EXPECT(close(running_mean.read(), blend({1, 2, 3}, norm.mean(wide(x)), 0.25)));
    EXPECT(close(running_variance.read(), blend({4, 5, 6}, norm.variance(wide(x)), 0.25, 20.0 / 19)));
    auto y = norm(wide(x)), dx = slopes(wide(x), dy, norm);
    for (std::size_t r : {0u, 1u}) {
      device_tensor<float> in(shapes[r], part(x, r), nchw), gradient(shapes[r], part(dy, r), nchw);
      device_tensor<float> out(shapes[r], ACL_FORMAT_NCHW), sum({3}), sum_x({3}), of_weight({3}), of_bias({3});
      EXPECT(OPERATION(aclnnBatchNormElemt)(stream, in, weight, bias, mean, invstd, eps, out) == 0);
      EXPECT(close(out.read(),
                   doubles(y.begin() + static_cast<std::ptrdiff_t>(split[r]),
                           y.begin() + static_cast<std::ptrdiff_t>(split[r + 1])),
                   1e-4));
      EXPECT(OPERATION(aclnnBatchNormReduceBackward)(stream, gradient, in, mean, invstd, weight, true, true, true, sum,
                                                     sum_x, of_weight, of_bias) == 0);
      auto add = [](floats& to, floats const& from) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
      };
      add(sums, sum.read());
      add(sums_x, sum_x.read());
      add(weight_sums, of_weight.read());
      add(bias_sums, of_bias.read());
    }
    auto [by_weight, by_bias] = affine_gradients(dy, norm.normal(wide(x)));
    EXPECT(close(weight_sums, by_weight, 1e-4) && close(bias_sums, by_bias, 1e-4));
    device_tensor<float> sum({3}, sums), sum_x({3}, sums_x);
    device_tensor<std::int32_t> counter({2}, {8, 12});
    for (std::size_t r : {0u, 1u}) {
      device_tensor<float> in(shapes[r], part(x, r), nchw), gradient(shapes[r], part(dy, r), nchw);
      device_tensor<float> of_in(shapes[r], ACL_FORMAT_NCHW);
      EXPECT(OPERATION(aclnnBatchNormElemtBackward)(stream, gradient, in, mean, invstd, weight, sum, sum_x, counter,
                                                    of_in) == 0);
      EXPECT(close(of_in.read(),
                   doubles(dx.begin() + static_cast<std::ptrdiff_t>(split[r]),
                           dx.begin() + static_cast<std::ptrdiff_t>(split[r + 1])),
                   1e-4));
    }
  });
}

TEST_CASE("layer normalisation and its gradients") {
  on_device({}, [](aclrtStream stream) {
    auto x = some_values(42, 1), dy = some_values(42, 2), w = some_values(6, 3), b = some_values(6, 4);
    auto norm = [&](bool affine) {
      return [&, affine](doubles y) {
        for (std::size_t row = 0; row < y.size(); row += 6) {
          double mean = 0, variance = 0;
          for (std::size_t i = row; i < row + 6; ++i) mean += y[i] / 6;
          for (std::size_t i = row; i < row + 6; ++i) variance += (y[i] - mean) * (y[i] - mean) / 6;
          for (std::size_t i = row; i < row + 6; ++i) {
            y[i] = (y[i] - mean) / std::sqrt(variance + eps);
            if (affine) y[i] = y[i] * static_cast<double>(w[i - row]) + static_cast<double>(b[i - row]);
          }
        }
        return y;
      };
    };
    device_tensor<float> in({7, 2, 3}, x), out({7, 2, 3}), weight({2, 3}, w), bias({2, 3}, b);
    device_tensor<float> mean({7, 1, 1}), rstd({7, 1, 1}), gradient({7, 2, 3}, dy), of_in({7, 2, 3});
    device_tensor<float> of_weight({2, 3}), of_bias({2, 3}), flat({7});
    integers normalized({2, 3}), wrong({3, 2});
    three_flags all(true, true, true);
    auto none = static_cast<aclTensor*>(nullptr);
    EXPECT(OPERATION(aclnnLayerNorm)(stream, in, normalized, none, none, eps, out, none, none) == 0);
    EXPECT(close(out.read(), norm(false)(wide(x)), 1e-4));
    EXPECT(OPERATION(aclnnLayerNorm)(stream, in, normalized, weight, bias, eps, out, mean, rstd) == 0);
    EXPECT(close(out.read(), norm(true)(wide(x)), 1e-4));
    EXPECT(OPERATION(aclnnLayerNormBackward)(stream, gradient, in, normalized, mean, rstd, weight, bias, all, of_in,
                                             of_weight, of_bias) == 0);
    EXPECT(close(of_in.read(), slopes(wide(x), dy, norm(true)), 1e-4));
    auto normal = norm(false)(wide(x));
    doubles by_weight(6), by_bias(6);
    for (std::size_t i = 0; i < 42; ++i) {
      by_weight[i % 6] += static_cast<double>(dy[i]) * normal[i];
      by_bias[i % 6] += static_cast<double>(dy[i]);
    }
    EXPECT(close(of_weight.read(), by_weight, 1e-4) && close(of_bias.read(), by_bias, 1e-4));
    EXPECT(OPERATION(aclnnLayerNorm)(stream, in, wrong, none, none, eps, out, none, none) == invalid_parameter);
    EXPECT(OPERATION(aclnnLayerNorm)(stream, in, normalized, weight, bias, eps, out, flat, rstd) == invalid_parameter);
  });
}

TEST_CASE("root mean square normalisation is for the A2") {
  auto run = [](bool there) {
    return [=](aclrtStream stream) {
      auto x = some_values(20, 1), dy = some_values(20, 2), w = some_values(5, 3);
      auto norm = [&](doubles y) {
        for (std::size_t row = 0; row < y.size(); row += 5) {
          double squares = 0;
          for (std::size_t i = row; i < row + 5; ++i) squares += y[i] * y[i] / 5;
          for (std::size_t i = row; i < row + 5; ++i)
            y[i] *= static_cast<double>(w[i - row]) / std::sqrt(squares + eps);
        }
        return y;
      };
      device_tensor<float> in({4, 5}, x), weight({5}, w), out({4, 5}), rstd({4, 1}), gradient({4, 5}, dy);
      device_tensor<float> of_in({4, 5}), of_weight({5});
      auto status = OPERATION(aclnnRmsNorm)(stream, in, weight, eps, out, rstd);
      EXPECT(status == (there ? 0 : no_kernel));
      EXPECT(OPERATION(aclnnRmsNormGrad)(stream, gradient, in, rstd, weight, of_in, of_weight) == status);
      if (!there) return;
      EXPECT(close(out.read(), norm(wide(x)), 1e-4));
      EXPECT(close(of_in.read(), slopes(wide(x), dy, norm), 1e-4));
      doubles by_weight(5);
      auto y = norm(wide(x));
      for (std::size_t i = 0; i < 20; ++i)
        by_weight[i % 5] += static_cast<double>(dy[i]) * y[i] / static_cast<double>(w[i % 5]);
      EXPECT(close(of_weight.read(), by_weight, 1e-4));
    };
  };
  on_device({}, run(false));
  on_device(a2, run(true));
}

TEST_CASE("softmax along any dimension; its gradients are of outputs") {
  on_device({}, [](aclrtStream stream) {
    auto x = some_values(30, 1), dy = some_values(30, 2);
    for (auto& value : x) value *= 40;
    auto softmax = [](bool logarithm) {
      return [=](doubles y) {
        for (std::size_t o = 0; o < 2; ++o)
          for (std::size_t i = 0; i < 5; ++i) {
            double most = -1e30, sum = 0;
            for (std::size_t k = 0; k < 3; ++k) most = std::max(most, y[(o * 3 + k) * 5 + i]);
            for (std::size_t k = 0; k < 3; ++k) sum += std::exp(y[(o * 3 + k) * 5 + i] - most);
            for (std::size_t k = 0; k < 3; ++k) {
              auto& each = y[(o * 3 + k) * 5 + i];
              each = logarithm ? each - most - std::log(sum) : std::exp(each - most) / sum;
            }
          }
        return y;
      };
    };
    device_tensor<float> in({2, 3, 5}, x), out({2, 3, 5}), gradient({2, 3, 5}, dy), of_in({2, 3, 5}), flat({30});
    std::int64_t const middle = -2;
    EXPECT(OPERATION(aclnnSoftmax)(stream, in, middle, out) == 0 && close(out.read(), softmax(false)(wide(x))));
    EXPECT(OPERATION(aclnnSoftmaxBackward)(stream, gradient, out, middle, of_in) == 0);
    EXPECT(close(of_in.read(), slopes(wide(x), dy, softmax(false)), 1e-4));
    EXPECT(OPERATION(aclnnLogSoftmax)(stream, in, middle, out) == 0 && close(out.read(), softmax(true)(wide(x))));
    EXPECT(OPERATION(aclnnLogSoftmaxBackward)(stream, gradient, out, middle, of_in) == 0);
    EXPECT(close(of_in.read(), slopes(wide(x), dy, softmax(true)), 1e-4));
    EXPECT(OPERATION(aclnnSoftmax)(stream, in, std::int64_t{3}, out) == invalid_parameter);
    EXPECT(OPERATION(aclnnSoftmax)(stream, in, middle, flat) == invalid_parameter);
  });
}

TEST_CASE("negative log-likelihood") {
  on_device({}, [](aclrtStream stream) {
    auto x = some_values(12, 1);
    device_tensor<float> in({4, 3}, x), weight({3}, {1, 2, 0.5f}), each({4}), one({1}), total({1}), of_in({4, 3});
    device_tensor<std::int32_t> target({4}, {2, 0, -100, 1});
    std::int64_t const ignored = -100, none = 0, mean = 1, sum = 2;
    floats const losses{-0.5f * x[2], -x[3], 0, -2 * x[10]};
    EXPECT(OPERATION(aclnnNLLLoss)(stream, in, target, weight, none, ignored, each, total) == 0);
    EXPECT(close(each.read(), losses));
    EXPECT(OPERATION(aclnnNLLLoss)(stream, in, target, weight, sum, ignored, one, total) == 0);
    EXPECT(close(one.read(), floats{losses[0] + losses[1] + losses[3]}));
    EXPECT(OPERATION(aclnnNLLLoss)(stream, in, target, weight, mean, ignored, one, total) == 0);
    EXPECT(close(one.read(), floats{(losses[0] + losses[1] + losses[3]) / 3.5f}) && total.read()[0] == 3.5f);
    device_tensor<float> up({1}, {7});
    EXPECT(OPERATION(aclnnNLLLossBackward)(stream, up, in, target, weight, mean, ignored, total, of_in) == 0);
    EXPECT(close(of_in.read(), floats{0, 0, -1, -2, 0, 0, 0, 0, 0, 0, -4, 0}));
    device_tensor<float> ups({4}, {1, 2, 3, 4});
    EXPECT(OPERATION(aclnnNLLLossBackward)(stream, ups, in, target, weight, none, ignored, total, of_in) == 0);
    EXPECT(close(of_in.read(), floats{0, 0, -0.5f, -2, 0, 0, 0, 0, 0, 0, -8, 0}));
    EXPECT(OPERATION(aclnnNLLLoss)(stream, in, target, static_cast<aclTensor*>(nullptr), mean, ignored, one, total) ==
           null_parameter);
    EXPECT(OPERATION(aclnnNLLLoss)(stream, in, target, weight, mean, ignored, each, total) == invalid_parameter);
    EXPECT(OPERATION(aclnnNLLLoss)(stream, in, target, weight, std::int64_t{3}, ignored, one, total) ==
           invalid_parameter);
  });
  auto result = in_child({}, [] {
    session s;
    device_tensor<float> in({1, 3}), weight({3}), out({1}), total({1});
    device_tensor<std::int64_t> target({1}, {3});
    EXPECT(OPERATION(aclnnNLLLoss)(s.stream, in, target, weight, std::int64_t{1}, std::int64_t{-100}, out, total) != 0);
    _exit(0);
  });
  CHECK_MESSAGE(result.code == 0, result.errors);
}
