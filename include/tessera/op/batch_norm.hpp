#pragma once

#include <tessera/op/moments.hpp>
#include <tessera/op/rules.hpp>

namespace tessera {

/// Mean and reciprocal deviation of each local channel, as normalisation uses them, and how many values they are of.
template <class Memory>
struct channel_statistics {
  tensor<double, 1, Memory> mean{};
  tensor<double, 1, Memory> inv_std{};
  double count = 0;
};

namespace detail {
struct batch_norm_op {
  static constexpr index_rules rules{"nchw,c->nchw",
                                     {{'n', "batch", true, true},
                                      {'c', "channels", true, true},
                                      {'h', "height", true, true},
                                      {'w', "width", true, true}}};
};

template <sharded_tensor X>
constexpr void check_batch_norm_input() {
  static_assert(X::rank == 4, "tessera: batch_norm takes images [N, C, H, W]; reshape the input first");
  static_assert(X::placements.partial_axes() == 0,
                "tessera: batch_norm is not linear, so it cannot take a partial value: reduce it first, as in "
                "x | tessera::to<tessera::replicated>");
}

/// The axes over which the statistics of an image tensor are summed: those that cut anything but its channels.
template <sharded_tensor X>
constexpr axis_set statistics_axes() {
  return static_cast<axis_set>(X::placements.shard_axes(0) | X::placements.shard_axes(2) | X::placements.shard_axes(3));
}
}  // namespace detail

namespace op {

/// Statistics of each channel over the whole batch, wherever it is cut.
///
/// Updates the running statistics: r = (1 - momentum) r + momentum * batch, the variance there unbiased. Collectives:
/// one all_reduce of two sums a channel over the axes that cut batch, height or width, of differences from the running
/// mean; where the mean of a channel is more than three deviations from that, a second one. Throws where the whole
/// batch has fewer than two values a channel.
template <sharded_tensor X, sharded_tensor R>
auto batch_norm_statistics(X const& x, double momentum, double epsilon, R& running_mean, R& running_variance) {
  detail::check_batch_norm_input<X>();
  using result [[maybe_unused]] = result_of<detail::batch_norm_op, 4, X, R>;
  using memory = typename X::context_type::backend::memory;
  detail::require_extent(running_mean.extent(0), x.extent(1), "number of running means of batch_norm");
  detail::require_extent(running_variance.extent(0), x.extent(1), "number of running variances of batch_norm");
  const index_t count = x.extent(0) * x.extent(2) * x.extent(3);
  if (count < 2)
    throw error("batch_norm in training has " + std::to_string(count) + " values a channel over the whole batch",
                "at least 2, for a variance", "enlarge the batch or the image, or evaluate with running statistics");
  const index_t channels = x.local().extent(1);
  tensor<double, 2, memory> moments(shape<2>{{channels, 3}});
  auto& context = x.where();
  context.kernels().batch_norm_moments(as_matrix(x.read()), moments.view());
  constexpr axis_set axes = detail::statistics_axes<X>();
  channel_statistics<memory> s{tensor<double, 1, memory>(shape<1>{{channels}}),
                               tensor<double, 1, memory>(shape<1>{{channels}}), static_cast<double>(count)};
  if (X::mesh::group_size(axes) > 1) {
    context.kernels().batch_norm_from_running(running_mean.read(), running_variance.read(), epsilon, s.mean.view(),
                                              s.inv_std.view());
    detail::reduce_moments<typename X::value_type>(context, axes, s.count, epsilon, s.mean, moments);
  }
  context.kernels().batch_norm_finish(moments.read(), epsilon, s.mean.view(), s.inv_std.view());
  context.kernels().batch_norm_update_running(moments.read(), momentum, running_mean.write(), running_variance.write());
  return s;
}

/// The running statistics as normalisation uses them. No collectives.
template <sharded_tensor R>
auto batch_norm_running(double epsilon, R const& running_mean, R const& running_variance) {
  using memory = typename R::context_type::backend::memory;
  const index_t channels = running_mean.local().extent(0);
  channel_statistics<memory> s{tensor<double, 1, memory>(shape<1>{{channels}}),
                               tensor<double, 1, memory>(shape<1>{{channels}}), 0};
  running_mean.where().kernels().batch_norm_from_running(running_mean.read(), running_variance.read(), epsilon,
                                                         s.mean.view(), s.inv_std.view());
  return s;
}

/// (x - mean) * inv_std * gamma + beta. `gamma` and `beta` may be empty blocks (1 and 0). No collectives.
template <sharded_tensor X, class Memory, class Block>
X batch_norm(X const& x, channel_statistics<Memory> const& s, Block gamma, Block beta) {
  detail::check_batch_norm_input<X>();
  detail::require_extent(s.mean.extent(0), x.local().extent(1), "number of channel statistics of batch_norm");
  if (gamma.data != nullptr)
    detail::require_extent(gamma.size(), x.local().extent(1), "number of scales of batch_norm");
  if (beta.data != nullptr) detail::require_extent(beta.size(), x.local().extent(1), "number of shifts of batch_norm");
  X y(x.where(), x.extents());
  x.where().kernels().batch_norm_normalize(as_matrix(x.read()), s.mean.read(), s.inv_std.read(), gamma, beta,
                                           as_matrix(y.write()));
  return y;
}

/// Sums of dy and dy * normalised x over the whole batch, one after the other: the gradients of beta and gamma.
///
/// Collectives: one all_reduce over the axes that cut batch, height or width.
template <sharded_tensor X, sharded_tensor Dy, class Memory>
auto batch_norm_backward_sums(X const& x, Dy const& dy, channel_statistics<Memory> const& s) {
  static_assert(std::is_same_v<X, Dy>,
                "tessera: batch_norm needs the gradient in the layout of its output; redistribute it first");
  using T = typename X::value_type;
  detail::require_shape(dy.extents(), x.extents(), "the gradient of batch_norm");
  tensor<T, 1, Memory> sums(shape<1>{{2 * x.local().extent(1)}});
  auto& context = x.where();
  context.kernels().batch_norm_backward_sums(as_matrix(x.read()), as_matrix(dy.read()), s.mean.read(), s.inv_std.read(),
                                             sums.view());
  constexpr axis_set axes = detail::statistics_axes<X>();
  if (X::mesh::group_size(axes) > 1) context.group(axes).all_reduce(sums.data(), sums.size(), reduction::sum);
  return sums;
}

/// Gradient of x in training, where the statistics depend on x too. No collectives.
template <sharded_tensor X, class Memory, class Block>
X batch_norm_backward_input(X const& x, X const& dy, channel_statistics<Memory> const& s, Block gamma,
                            tensor<typename X::value_type, 1, Memory> const& sums) {
  X dx(x.where(), x.extents());
  x.where().kernels().batch_norm_backward_input(as_matrix(x.read()), as_matrix(dy.read()), s.mean.read(),
                                                s.inv_std.read(), gamma, sums.read(), s.count, as_matrix(dx.write()));
  return dx;
}

/// Gradient of x in evaluation: the statistics are constants. No collectives.
template <sharded_tensor X, class Memory, class Block>
X batch_norm_backward_evaluation(X const& dy, channel_statistics<Memory> const& s, Block gamma) {
  X dx(dy.where(), dy.extents());
  dy.where().kernels().batch_norm_backward_input_evaluation(as_matrix(dy.read()), s.inv_std.read(), gamma,
                                                            as_matrix(dx.write()));
  return dx;
}

}  // namespace op

}  // namespace tessera
