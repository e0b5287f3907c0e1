#pragma once

#include <tessera/plan/search/front.hpp>

#include <vector>

namespace tessera::detail {

/// What the loss takes, by the way in which it takes the output: with the gradient whole, its time included.
template <class Problem, auto Extents>
constexpr search_time loss_time(edge_code code) {
  constexpr int axes = Problem::mesh::axes;
  if (partial_gradients_of<axes>(code) != 0) return unreachable_time;
  if constexpr (Extents.rank != 2) {
    return 0;
  } else {
    // Cross-entropy reads rows three times forward and writes the gradient; where classes are cut, maxima and sums of
    // rows are exchanged.
    const auto layout = layout_of_edge<axes>(code);
    const double elements = largest_size(Problem::mesh::value, layout, Extents, Problem::unknown);
    const auto bytes = static_cast<double>(Problem::element_bytes);
    double seconds = Problem::machine.seconds(0, 4 * elements * bytes, Problem::element_bytes);
    const axis_set classes = layout.shard_axes(1);
    if (classes != 0) {
      const double rows = largest_size(Problem::mesh::value, layout, shape<2>{{Extents[0], 1}}, Problem::unknown);
      seconds += 2 * 2 * seconds_of(Problem::costs.gather[classes], rows * bytes);
    }
    return picoseconds(seconds);
  }
}

/// The same for a graph (`search_graph::loss_times`).
template <class Problem, auto Extents>
std::vector<search_time> loss_times() {
  std::vector<search_time> times;
  for (const edge_code code : all_edges(Problem::mesh::value, Extents.rank, true, false)) {
    const search_time loss = loss_time<Problem, Extents>(code);
    times.push_back(loss < unreachable_time ? loss : -1);
  }
  return times;
}

}  // namespace tessera::detail
