#pragma once

#include <tessera/op/moments.hpp>
#include <tessera/op/rules.hpp>

#include <span>
#include <utility>
#include <vector>

namespace tessera {

/// Mean and reciprocal deviation of each local channel, as normalisation uses them, and how many values they are of.
template <class Memory, class Number = double>
struct channel_statistics {
  tensor<Number, 1, Memory> mean{};
  tensor<Number, 1, Memory> inv_std{};
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

/// Images as kernels take them: as the matrix [pixels, channels] where channels lie innermost.
template <class T>
constexpr block<T, 2> pixels(block<T, 4, storage_order::channels_last> images) {
  return as_matrix(images);
}
template <class T>
constexpr block<T, 4, storage_order::row_major> pixels(block<T, 4, storage_order::row_major> images) {
  return images;
}

template <class X>
auto unset_statistics(index_t channels, double count) {
  using backend = typename X::context_type::backend;
  using numbers = statistics_tensor<typename X::context_type, 1>;
  return channel_statistics<typename backend::memory, typename backend::statistic>{
      numbers(shape<1>{{channels}}), numbers(shape<1>{{channels}}), count};
}

template <class X, class R, class Statistics>
void sum_statistics(X const& x, double momentum, double epsilon, R& running_mean, R& running_variance, Statistics& s) {
  auto& context = x.where();
  auto& kernels = context.kernels();
  statistics_tensor<typename X::context_type, 2> moments(shape<2>{{x.local().extent(1), 3}});
  kernels.batch_norm_moments(pixels(x.read()), moments.view());
  constexpr axis_set axes = statistics_axes<X>();
  if (X::mesh::group_size(axes) > 1) {
    kernels.batch_norm_from_running(running_mean.read(), running_variance.read(), epsilon, s.mean.view(),
                                    s.inv_std.view());
    reduce_moments<typename X::value_type>(context, axes, s.count, epsilon, s.mean, moments);
  }
  kernels.batch_norm_finish(moments.read(), epsilon, s.mean.view(), s.inv_std.view());
  kernels.batch_norm_update_running(moments.read(), momentum, running_mean.write(), running_variance.write());
}

/// All ranks know how many values each has, so only means and deviations are gathered.
template <class X, class R, class Statistics>
void gather_statistics(X const& x, double momentum, double epsilon, R& running_mean, R& running_variance,
                       Statistics& s) {
  using mesh = typename X::mesh;
  using context_type = typename X::context_type;
  auto& context = x.where();
  auto& kernels = context.kernels();
  const index_t channels = x.local().extent(1);
  statistics_tensor<context_type, 2> own(shape<2>{{2, channels}});
  kernels.batch_norm_local(pixels(x.read()), epsilon, own.view());
  constexpr axis_set axes = statistics_axes<X>();
  constexpr int ranks = mesh::group_size(axes);
  std::vector<index_t> counts;
  for (int r = 0; r < ranks; ++r) {
    const auto part =
        local_box<mesh>(X::placements, x.extents(), mesh::group_member(axes, context.coordinates(), r)).extents();
    counts.push_back(part[0] * part[2] * part[3]);
  }
  auto all = own.part(0, shape<3>{{1, 2, channels}});
  if constexpr (ranks > 1) {
    all = statistics_tensor<context_type, 3>(shape<3>{{ranks, 2, channels}});
    context.group(axes).all_gather(std::as_const(own).data(), all.data(),
                                   std::vector<index_t>(static_cast<std::size_t>(ranks), own.size()));
  }
  kernels.batch_norm_gathered(all.read(), std::span<index_t const>(counts), momentum, epsilon, running_mean.write(),
                              running_variance.write(), s.mean.view(), s.inv_std.view());
}

}  // namespace detail

namespace op {

/// Statistics of each channel over the whole batch, wherever it is cut.
///
/// Updates the running statistics: r = (1 - momentum) r + momentum * batch, the variance there unbiased. Collectives:
/// one all_reduce of two sums a channel over the axes that cut batch, height or width, of differences from the running
/// mean; where the mean of a channel is more than three deviations from that, a second one. A backend that
/// `gathers_statistics` makes one all_gather of two statistics a channel instead. Throws where the whole batch has
/// fewer than two values a channel.
template <sharded_tensor X, sharded_tensor R>
auto batch_norm_statistics(X const& x, double momentum, double epsilon, R& running_mean, R& running_variance) {
  detail::check_batch_norm_input<X>();
  using result [[maybe_unused]] = result_of<detail::batch_norm_op, 4, X, R>;
  detail::require_extent(running_mean.extent(0), x.extent(1), "number of running means of batch_norm");
  detail::require_extent(running_variance.extent(0), x.extent(1), "number of running variances of batch_norm");
  const index_t count = x.extent(0) * x.extent(2) * x.extent(3);
  if (count < 2)
    throw error("batch_norm in training has " + std::to_string(count) + " values a channel over the whole batch",
                "at least 2, for a variance", "enlarge the batch or the image, or evaluate with running statistics");
  auto s = detail::unset_statistics<X>(x.local().extent(1), static_cast<double>(count));
  if constexpr (gathers_statistics<typename X::context_type::backend>)
    detail::gather_statistics(x, momentum, epsilon, running_mean, running_variance, s);
  else
    detail::sum_statistics(x, momentum, epsilon, running_mean, running_variance, s);
  return s;
}

/// The running statistics as normalisation uses them. No collectives.
template <sharded_tensor R>
auto batch_norm_running(double epsilon, R const& running_mean, R const& running_variance) {
  auto s = detail::unset_statistics<R>(running_mean.local().extent(0), 0);
  running_mean.where().kernels().batch_norm_from_running(running_mean.read(), running_variance.read(), epsilon,
                                                         s.mean.view(), s.inv_std.view());
  return s;
}

/// (x - mean) * inv_std * gamma + beta. `gamma` and `beta` may be empty blocks (1 and 0). No collectives.
template <sharded_tensor X, class Memory, class Number, class Block>
X batch_norm(X const& x, channel_statistics<Memory, Number> const& s, Block gamma, Block beta) {
  detail::check_batch_norm_input<X>();
  detail::require_extent(s.mean.extent(0), x.local().extent(1), "number of channel statistics of batch_norm");
  if (gamma.data != nullptr)
    detail::require_extent(gamma.size(), x.local().extent(1), "number of scales of batch_norm");
  if (beta.data != nullptr) detail::require_extent(beta.size(), x.local().extent(1), "number of shifts of batch_norm");
  X y(x.where(), x.extents());
  x.where().kernels().batch_norm_normalize(detail::pixels(x.read()), s.mean.read(), s.inv_std.read(), gamma, beta,
                                           detail::pixels(y.write()));
  return y;
}

/// Sums of dy and dy * normalised x over the whole batch, one after the other: the gradients of beta and gamma.
///
/// Collectives: one all_reduce over the axes that cut batch, height or width.
template <sharded_tensor X, sharded_tensor Dy, class Memory, class Number>
auto batch_norm_backward_sums(X const& x, Dy const& dy, channel_statistics<Memory, Number> const& s) {
  static_assert(std::is_same_v<X, Dy>,
                "tessera: batch_norm needs the gradient in the layout of its output; redistribute it first");
  using T = typename X::value_type;
  detail::require_shape(dy.extents(), x.extents(), "the gradient of batch_norm");
  tensor<T, 1, Memory> sums(shape<1>{{2 * x.local().extent(1)}});
  auto& context = x.where();
  context.kernels().batch_norm_backward_sums(detail::pixels(x.read()), detail::pixels(dy.read()), s.mean.read(),
                                             s.inv_std.read(), sums.view());
  constexpr axis_set axes = detail::statistics_axes<X>();
  if (X::mesh::group_size(axes) > 1) context.group(axes).all_reduce(sums.data(), sums.size(), reduction::sum);
  return sums;
}

/// Gradient of x in training, where the statistics depend on x too. No collectives.
template <sharded_tensor X, class Memory, class Number, class Block>
X batch_norm_backward_input(X const& x, X const& dy, channel_statistics<Memory, Number> const& s, Block gamma,
                            tensor<typename X::value_type, 1, Memory> const& sums) {
  X dx(x.where(), x.extents());
  x.where().kernels().batch_norm_backward_input(detail::pixels(x.read()), detail::pixels(dy.read()), s.mean.read(),
                                                s.inv_std.read(), gamma, sums.read(), s.count,
                                                detail::pixels(dx.write()));
  return dx;
}

/// Gradient of x in evaluation: the statistics are constants. No collectives.
template <sharded_tensor X, class Memory, class Number, class Block>
X batch_norm_backward_evaluation(X const& dy, channel_statistics<Memory, Number> const& s, Block gamma) {
  X dx(dy.where(), dy.extents());
  dy.where().kernels().batch_norm_backward_input_evaluation(detail::pixels(dy.read()), s.inv_std.read(), gamma,
                                                            detail::pixels(dx.write()));
  return dx;
}

}  // namespace op

}  // namespace tessera
