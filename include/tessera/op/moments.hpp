#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/backend/transfer.hpp>
#include <tessera/op/rules.hpp>

#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::detail {

/// The same for kernels that merge moments in the order of `ordered`. One all_gather of three doubles a row.
template <class Context, class Memory, class Number>
void gather_moments(Context& context, axis_set axes, tensor<Number, 2, Memory>& moments) {
  constexpr auto at = [](int rank) { return static_cast<std::size_t>(rank); };
  auto& group = context.group(axes);
  const index_t size = moments.size();
  tensor<Number, 2, Memory> all(shape<2>{{group.size(), size}});
  group.all_gather(std::as_const(moments).data(), all.data(), std::vector<index_t>(at(group.size()), size));
  const auto of_rank = [&](int rank) { return block<Number, 1>{all.data() + rank * size, {{size}}}; };
  for (int apart = 1; apart < group.size(); apart *= 2)
    for (int r = 0; r + apart < group.size(); r += 2 * apart)
      context.kernels().merge_moments(of_rank(r), of_rank(r + apart));
  moments = all.part(0, moments.extents());
}

/// Whether an origin has moved so far that the variance of its differences may have drowned in their mean. Origins that
/// are not finite count as 0, or as settled where they become so.
template <class Number>
bool has_moved(tensor<Number, 1> const& before, tensor<Number, 1> const& now) {
  constexpr double share = std::is_same_v<Number, double> ? 0x1p-40 : 0x1p-16;
  bool moved = false;
  for (index_t r = 0; r < now.size(); ++r) {
    const double from = std::isfinite(before(r)) ? static_cast<double>(before(r)) : 0.0;
    const auto to = static_cast<double>(now(r));
    moved = moved || std::abs(to - from) > share * std::abs(to);
  }
  return moved;
}

/// Makes `moments` {count, mean, sum of squared deviations} of values on this rank those of the `count` values on all
/// ranks along `axes`, from sums of differences from an origin near the mean, the same on all ranks (T. Chan, G. Golub
/// and R. LeVeque, "Algorithms for computing the sample variance", 1983). `origin` becomes the mean.
///
/// Collectives: one all_reduce of two numbers T a row. Where a mean is more than three deviations from its origin, or
/// squares are outside the range of T, a second one of two statistics a row, from the means that the first one found.
/// More of these where an origin was so far away, as the running mean of a model that has diverged, that rounding hides
/// the variance again: each comes nearer by a factor of about 2^52 in double. All ranks see the same sums, so all make
/// them or none.
template <class T, class Context, class Memory, class Number>
void reduce_moments(Context& context, axis_set axes, double count, double epsilon, tensor<Number, 1, Memory>& origin,
                    tensor<Number, 2, Memory>& moments) {
  if constexpr (deterministic_backend<typename Context::backend>) return gather_moments(context, axes, moments);
  auto& kernels = context.kernels();
  tensor<Number, 2, Memory> all(moments.extents());
  const auto reduced_as = [&](auto number) {
    tensor<decltype(number), 2, Memory> sums(shape<2>{{origin.extent(0), 2}});
    kernels.moments_to_sums(moments.read(), origin.view(), count, sums.view());
    context.group(axes).all_reduce(sums.data(), sums.size(), reduction::sum);
    return kernels.moments_from_sums(sums.read(), origin.view(), count, epsilon, all.view());
  };
  constexpr int most = 24;  // from the largest double to the smallest mean takes less
  bool found = reduced_as(T{});
  for (int i = 0; i < most && !found; ++i) {
    auto const before = to_host(kernels, copied(kernels, origin));
    found = reduced_as(Number{}) || !has_moved(before, to_host(kernels, origin));
  }
  moments = std::move(all);
}

}  // namespace tessera::detail
