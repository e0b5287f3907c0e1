#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/train/network.hpp>

#include <cmath>

namespace tessera {

/// The Euclidean norm of the gradients of all trainable parameters together, in double. Each element counts once,
/// whatever axes cut or repeat its parameter.
///
/// One all_reduce of one double over the mesh; the result is the same on all ranks. It is infinite or NaN where a
/// gradient is, or where the sum of squares is beyond double.
template <context Context, class T>
double global_norm(Context& where, std::vector<parameter_view<T>> const& parameters) {
  using mesh = typename Context::mesh;
  double sum = 0;
  for (auto const& p : parameters) {
    if (!p.trainable) continue;
    // Ranks that hold the same block take a share of it each.
    const auto alike = static_cast<axis_set>(mesh::all & ~p.cut_by);
    const interval whole{0, p.gradient.size()};
    const int place = mesh::group_rank(alike, where.coordinates());
    interval mine = cut(whole, mesh::group_size(alike), place);
    // A sum that does not depend on the number of ranks is taken by one of them.
    if constexpr (deterministic_backend<typename Context::backend>) mine = place == 0 ? whole : interval{};
    sum += where.kernels().square_sum(block<T const, 1>{p.gradient.data + mine.begin, {{mine.size}}});
  }
  if (mesh::devices > 1) detail::host_group(where, mesh::all).all_reduce(&sum, 1, reduction::sum);
  return std::sqrt(sum);
}

/// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where `norm` is their `global_norm`, and returns the
/// norm (R. Pascanu, T. Mikolov and Y. Bengio, ICML 2013).
///
/// Where the norm is infinite or NaN there is no direction to keep: the gradients are left as they are, on all ranks
/// alike, and the caller sees it from the result. Collectives: that of `global_norm`. Throws where `max_norm` is
/// negative or no number.
template <context Context, class T>
double clip_by_global_norm(Context& where, std::vector<parameter_view<T>> const& parameters, double max_norm) {
  if (!(max_norm >= 0))
    throw error("a largest gradient norm of " + std::to_string(max_norm), "a number of 0 or more",
                "clip to a positive norm");
  const double norm = global_norm(where, parameters);
  const double factor = max_norm / (norm + 1e-6);
  if (std::isfinite(norm) && factor < 1)
    for (auto const& p : parameters)
      if (p.trainable) where.kernels().scale(p.gradient, static_cast<T>(factor), p.gradient);
  return norm;
}

}  // namespace tessera
