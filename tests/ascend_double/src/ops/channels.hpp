#pragma once

#include "../double.hpp"

// What the parts of batch normalisation share: statistics of each channel, the second dimension.
namespace ascend_double {

/// An input of 2 to 8 dimensions in the format that belongs to their number.
inline tensor channel_input(planner& p, aclTensor const* handle, char const* name) {
  auto x = p.input(handle, name);
  p.require(x.rank() >= 2, std::string(name) + " has less than 2 dimensions");
  aclFormat const formats[]{ACL_FORMAT_NC, ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW};
  p.format(x, name, {x.rank() < 6 ? formats[x.rank() - 2] : ACL_FORMAT_ND});
  p.require(x.count() > 0, std::string(name) + " is empty");
  return x;
}

inline double count_of_channel(tensor const& x) {
  return static_cast<double>(x.count()) / static_cast<double>(x.shape[1]);
}

/// Calls f(i, channel of element i).
template <class F>
void each_channel(tensor const& x, F f) {
  auto channels = static_cast<std::size_t>(x.shape[1]);
  auto count = static_cast<std::size_t>(x.count());
  auto plane = count / channels / static_cast<std::size_t>(x.shape[0]);
  for (std::size_t i = 0; i < count;)
    for (std::size_t c = 0; c < channels; ++c)
      for (auto end = i + plane; i < end; ++i) f(i, c);
}

struct moments {
  std::vector<double> mean, variance;
};

inline moments moments_of(tensor const& x, std::vector<double> const& values) {
  auto channels = static_cast<std::size_t>(x.shape[1]);
  moments result{std::vector<double>(channels), std::vector<double>(channels)};
  each_channel(x, [&](std::size_t i, std::size_t c) { result.mean[c] += values[i]; });
  for (auto& each : result.mean) each /= count_of_channel(x);
  each_channel(x, [&](std::size_t i, std::size_t c) {
    result.variance[c] += (values[i] - result.mean[c]) * (values[i] - result.mean[c]);
  });
  for (auto& each : result.variance) each /= count_of_channel(x);
  return result;
}

/// Moves running statistics towards those of a batch of `count` elements a channel: the unbiased variance.
inline void update_running(tensor const& mean, tensor const& variance, moments const& of, double count,
                           double momentum) {
  auto old_mean = load<double>(mean), old_variance = load<double>(variance);
  for (std::size_t c = 0; c < old_mean.size(); ++c) {
    old_mean[c] += momentum * (of.mean[c] - old_mean[c]);
    auto unbiased = count > 1 ? of.variance[c] * count / (count - 1) : of.variance[c];
    old_variance[c] += momentum * (unbiased - old_variance[c]);
  }
  store(mean, old_mean);
  store(variance, old_variance);
}

struct sums_of_gradient {
  std::vector<double> dy, dy_x;  // of dy, and of dy (x - mean)
};

inline sums_of_gradient gradient_sums(tensor const& x, std::vector<double> const& dy, std::vector<double> const& values,
                                      std::vector<double> const& mean) {
  sums_of_gradient result{std::vector<double>(mean.size()), std::vector<double>(mean.size())};
  each_channel(x, [&](std::size_t i, std::size_t c) {
    result.dy[c] += dy[i];
    result.dy_x[c] += dy[i] * (values[i] - mean[c]);
  });
  return result;
}

}  // namespace ascend_double
