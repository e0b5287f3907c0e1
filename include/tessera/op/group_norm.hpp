#pragma once

#include <tessera/op/row_norm.hpp>

namespace tessera {

namespace detail {

inline constexpr std::string_view group_norm_specs[] = {"nchw->nchw", "nchw,c->nchw", "nchw,c,c->nchw"};

template <int Parameters>
struct group_norm_op {
  static constexpr index_rules rules{group_norm_specs[Parameters],
                                     {{'n', "batch"}, {'c', "channels"}, {'h', "height"}, {'w', "width"}}};
};
struct group_norm_gradient_op {
  static constexpr index_rules rules{"nchw,nchw->c",
                                     {{'n', "batch"}, {'c', "channels"}, {'h', "height"}, {'w', "width"}}};
};
template <class X>
using group_parameter_gradient = tessera::result_of<group_norm_gradient_op, 1, X, X>;

/// The axes over which the values of a group are spread.
template <class X>
constexpr axis_set group_axes() {
  return static_cast<axis_set>(X::placements.shard_axes(2) | X::placements.shard_axes(3));
}

/// Number of groups of this rank.
template <int Groups, sharded_tensor X>
index_t local_groups(X const& x) {
  static_assert(X::rank == 4, "tessera: group_norm takes images [N, C, H, W]; reshape the input first");
  static_assert(Groups > 0, "tessera: group_norm has at least one group; correct their number");
  constexpr int parts = X::mesh::group_size(X::placements.shard_axes(1));
  static_assert(Groups % parts == 0,
                "tessera: group_norm has a number of groups that its channels are not cut by; choose a number of parts "
                "that divides the number of groups");
  if (x.extent(1) % Groups != 0)
    throw error("group_norm of " + std::to_string(x.extent(1)) + " channels in " + std::to_string(Groups) + " groups",
                "a number of channels that the number of groups divides", "choose another number of groups");
  return Groups / parts;
}

template <int Groups, sharded_tensor X, class Gamma>
normalized<X> group_norm(X const& x, Gamma gamma, Gamma beta, double epsilon) {
  using statistics = statistics_tensor<typename X::context_type, 1>;
  auto& context = x.where();
  auto& kernels = context.kernels();
  const index_t groups = local_groups<Groups>(x);
  const shape<1> number{{x.local().extent(0) * groups}};
  const auto count = static_cast<double>(x.extent(1) / Groups * x.extent(2) * x.extent(3));
  normalized<X> out{X(context, x.extents()), {statistics(number), statistics(number), count}};
  auto& s = out.statistics;
  statistics_tensor<typename X::context_type, 2> moments(shape<2>{{number[0], 3}});
  kernels.group_norm_moments(x.read(), groups, moments.view());
  constexpr axis_set axes = group_axes<X>();
  if (X::mesh::group_size(axes) > 1) {
    kernels.fill(s.mean.view(), 0);
    reduce_moments<typename X::value_type>(context, axes, count, epsilon, s.mean, moments);
  }
  kernels.batch_norm_finish(moments.read(), epsilon, s.mean.view(), s.inv_std.view());
  kernels.group_norm_normalize(x.read(), groups, s.mean.read(), s.inv_std.read(), gamma, beta, out.y.write());
  return out;
}

/// This rank's part of the two sums of each group; the gradients of gamma and beta on the way.
template <int Groups, sharded_tensor X, sharded_tensor Dy, class Memory, class Number, class Gamma, class Gradient>
auto group_norm_backward_sums(X const& x, Dy const& dy, row_statistics<Memory, Number> const& s, Gamma gamma,
                              Gradient dgamma, Gradient dbeta) {
  static_assert(std::is_same_v<X, Dy>,
                "tessera: a normalisation needs the gradient in the layout of its output; redistribute it first");
  require_shape(dy.extents(), x.extents(), "the gradient of a normalisation");
  const index_t groups = local_groups<Groups>(x);
  require_extent(s.inv_std.extent(0), x.local().extent(0) * groups, "number of statistics of a normalisation");
  tensor<typename X::value_type, 1, Memory> sums(shape<1>{{2 * s.inv_std.extent(0)}});
  x.where().kernels().group_norm_backward_sums(x.read(), dy.read(), groups, s.mean.read(), s.inv_std.read(), gamma,
                                               sums.view(), dgamma, dbeta);
  return sums;
}

template <int Groups, sharded_tensor X, sharded_tensor Dy, class Memory, class Number, class Gamma, class Gradient>
X group_norm_backward(X const& x, Dy const& dy, row_statistics<Memory, Number> const& s, Gamma gamma, Gradient dgamma,
                      Gradient dbeta) {
  auto sums = group_norm_backward_sums<Groups>(x, dy, s, gamma, dgamma, dbeta);
  auto& context = x.where();
  constexpr axis_set axes = group_axes<X>();
  if (X::mesh::group_size(axes) > 1) context.group(axes).all_reduce(sums.data(), sums.size(), reduction::sum);
  X dx(context, x.extents());
  context.kernels().group_norm_backward_input(x.read(), dy.read(), local_groups<Groups>(x), s.mean.read(),
                                              s.inv_std.read(), gamma, sums.read(), s.count, dx.write());
  return dx;
}

}  // namespace detail

namespace op {

/// Group norm of images [N, C, H, W]: (x - mean) / sqrt(variance + epsilon) * weight + bias, mean and biased variance
/// of each sample over `Groups` groups of neighbouring channels, weight and bias by channel. Y. Wu and K. He, "Group
/// normalization", ECCV 2018.
///
/// Splits: batch, whole groups of channels, height and width. Collectives: none; where height or width is cut, one
/// all_reduce of two sums a group over those axes. Returns the result and its statistics.
template <int Groups, sharded_tensor X, sharded_tensor W, sharded_tensor B>
normalized<X> group_norm(X const& x, W const& weight, B const& bias, double epsilon = 1e-5) {
  static_assert(X::rank == 4, "tessera: group_norm takes images [N, C, H, W]; reshape the input first");
  using result [[maybe_unused]] = result_of<detail::group_norm_op<2>, 4, X, W, B>;
  detail::require_extent(weight.extent(0), x.extent(1), "number of scales of group_norm");
  detail::require_extent(bias.extent(0), x.extent(1), "number of shifts of group_norm");
  return detail::group_norm<Groups>(x, weight.read(), bias.read(), epsilon);
}

/// The same without weight and bias.
template <int Groups, sharded_tensor X>
normalized<X> group_norm(X const& x, double epsilon = 1e-5) {
  static_assert(X::rank == 4, "tessera: group_norm takes images [N, C, H, W]; reshape the input first");
  using result [[maybe_unused]] = result_of<detail::group_norm_op<0>, 4, X>;
  block<typename X::value_type const, 1> none;
  return detail::group_norm<Groups>(x, none, none, epsilon);
}

/// Gradient of x, from x and the statistics of the forward pass; those of weight and bias are written into `dweight`
/// and `dbias`, partial sums along every axis that cuts batch, height or width.
///
/// Collectives: none; where height or width is cut, one all_reduce of two sums a group over those axes.
template <int Groups, sharded_tensor X, sharded_tensor Dy, class Memory, class Number, sharded_tensor W,
          sharded_tensor Dw, sharded_tensor Db>
X group_norm_backward(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics, W const& weight,
                      Dw& dweight, Db& dbias) {
  static_assert(X::rank == 4, "tessera: group_norm takes images [N, C, H, W]; reshape the input first");
  using result [[maybe_unused]] = result_of<detail::group_norm_op<1>, 4, X, W>;
  detail::check_target<detail::group_parameter_gradient<X>, Dw>();
  detail::check_target<detail::group_parameter_gradient<X>, Db>();
  detail::require_extent(weight.extent(0), x.extent(1), "number of scales of group_norm");
  detail::require_extent(dweight.extent(0), x.extent(1), "extent of the gradient of the weight of group_norm");
  detail::require_extent(dbias.extent(0), x.extent(1), "extent of the gradient of the bias of group_norm");
  return detail::group_norm_backward<Groups>(x, dy, statistics, weight.read(), dweight.write(), dbias.write());
}

/// The same without weight and bias.
template <int Groups, sharded_tensor X, sharded_tensor Dy, class Memory, class Number>
X group_norm_backward(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics) {
  block<typename X::value_type const, 1> none;
  block<typename X::value_type, 1> unwanted;
  return detail::group_norm_backward<Groups>(x, dy, statistics, none, unwanted, unwanted);
}

/// The gradients of weight and bias alone, for a first layer. No collectives.
template <int Groups, sharded_tensor X, sharded_tensor Dy, class Memory, class Number, sharded_tensor Dw,
          sharded_tensor Db>
void group_norm_backward_parameters(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics,
                                    Dw& dweight, Db& dbias) {
  detail::check_target<detail::group_parameter_gradient<X>, Dw>();
  detail::check_target<detail::group_parameter_gradient<X>, Db>();
  detail::require_extent(dweight.extent(0), x.extent(1), "extent of the gradient of the weight of group_norm");
  detail::require_extent(dbias.extent(0), x.extent(1), "extent of the gradient of the bias of group_norm");
  block<typename X::value_type const, 1> none;
  detail::group_norm_backward_sums<Groups>(x, dy, statistics, none, dweight.write(), dbias.write());
}

}  // namespace op

}  // namespace tessera
