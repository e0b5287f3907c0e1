#pragma once

#include <tessera/op/rules.hpp>

namespace tessera::detail {

/// Makes `moments` {count, mean, sum of squared deviations} of values on this rank those of the `count` values on all
/// ranks along `axes`, from sums of differences from an origin near the mean, the same on all ranks (T. Chan, G. Golub
/// and R. LeVeque, "Algorithms for computing the sample variance", 1983). `origin` becomes the mean.
///
/// Collectives: one all_reduce of two numbers T a row. Where a mean is more than three deviations from its origin, or
/// squares are outside the range of T, a second one of two doubles a row, from the means that the first one found. All
/// ranks see the same sums, so all make it or none.
template <class T, class Context, class Memory>
void reduce_moments(Context& context, axis_set axes, double count, double epsilon, tensor<double, 1, Memory>& origin,
                    tensor<double, 2, Memory>& moments) {
  auto& kernels = context.kernels();
  tensor<double, 2, Memory> all(moments.extents());
  const auto reduced_as = [&](auto number) {
    tensor<decltype(number), 2, Memory> sums(shape<2>{{origin.extent(0), 2}});
    kernels.moments_to_sums(moments.read(), origin.view(), count, sums.view());
    context.group(axes).all_reduce(sums.data(), sums.size(), reduction::sum);
    return kernels.moments_from_sums(sums.read(), origin.view(), count, epsilon, all.view());
  };
  if (!reduced_as(T{})) reduced_as(double{});
  moments = std::move(all);
}

}  // namespace tessera::detail
