#pragma once

#include <tessera/plan/search/device_graph.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tessera::detail {

/// The divisors of a number, ascending.
inline std::vector<int> divisors(int of) {
  std::vector<int> all;
  for (int d = 1; d <= of; ++d)
    if (of % d == 0) all.push_back(d);
  return all;
}

/// All ways to write a number as a product of at most `Axes` factors above 1, in order, fewer factors first; axes of
/// one device come before others.
template <int Axes>
std::vector<mesh_sizes<Axes>> factorizations(int devices) {
  std::vector<mesh_sizes<Axes>> all;
  mesh_sizes<Axes> now;
  const auto go = [&](auto const& self, int axis, int left) -> void {
    if (axis < 0) {
      if (left == 1) all.push_back(now);
      return;
    }
    for (const int d : divisors(left)) {
      if (d == 1 && left > 1) continue;  // further axes must be 1 then
      now.along[axis] = d;
      self(self, axis - 1, left / d);
    }
  };
  go(go, Axes - 1, devices);
  const auto ones = [](mesh_sizes<Axes> const& mesh) { return std::count(mesh.along, mesh.along + Axes, 1); };
  std::stable_sort(all.begin(), all.end(), [&](auto const& a, auto const& b) { return ones(a) > ones(b); });
  return all;
}

/// Stages, axes and parts of a plan, and the least that its passes can take.
template <int Axes>
struct device_cell {
  int stages = 1;
  mesh_sizes<Axes> mesh{};
  int parts = 1;
  double bound = 0;
};

/// The machine as stages of so many devices each find it: where these do not divide a group of links, a stage may lie
/// in two of them.
inline machine_description machine_of_stages(machine_description machine, int devices) {
  for (int level = 0; level + 1 < machine.level_count(); ++level)
    machine.levels[level].ranks = std::gcd(machine.levels[level].ranks, devices);
  return machine;
}

/// What the layers of a part of a model take at the least, each by itself: seconds, and launches of kernels.
struct least_work {
  double seconds = 0;
  int kernels = 0;
};
template <int Axes>
least_work least_of(device_graph<Axes> const& graph, int node) {
  search_node const& n = graph.nodes[static_cast<std::size_t>(node)];
  least_work sum;
  for (const int part : n.parts) {
    const least_work one = least_of(graph, part);
    sum.seconds += one.seconds;
    sum.kernels += one.kernels;
  }
  auto const& cuts = graph.facts[static_cast<std::size_t>(node)].cuts;
  // Where dimensions change in number nothing may have to move in another cut.
  if (cuts.empty() || n.input.rank != n.output.rank) return sum;
  const auto seconds = [](cut_price<Axes> const& c) {
    return c.forward + c.backward + c.forward_messages + c.backward_messages;
  };
  double least = seconds(cuts.front());
  for (auto const& cut : cuts) least = std::min(least, seconds(cut));
  return {sum.seconds + least, sum.kernels + cuts.front().kernels};
}

/// The least time of a step of so many parts whose passes of one part, all stages together, take `part` at the least.
///
/// Stage m begins when those before it are done with the first part, and its last pass is followed by theirs: a step of
/// x seconds has x >= T[0] + ... + T[m - 1] + parts T[m] for each m. Were all of these equal, the first m + 1 stages
/// would have x (1 - (1 - 1 / parts)^(m + 1)) together; no stages of this x have more.
inline double bound_of(int stages, int parts, double part) { return part / (1 - std::pow(1 - 1.0 / parts, stages)); }

/// The same for stages whose passes of one part take so long each, in the order of `one_forward_one_backward`. There
/// stage m of s runs s - m parts forward, then the first one backward, which has been through all stages behind; after
/// that at least `parts` - (s - m) passes each way are left to it.
inline double bound_of(int parts, std::vector<double> const& stages) {
  const double sum = std::accumulate(stages.begin(), stages.end(), 0.0);
  double least = sum;
  double before = 0;
  for (std::size_t m = 0; m < stages.size(); ++m) {
    const int left = parts - static_cast<int>(stages.size() - m);
    least = std::max({least, before + parts * stages[m], sum + std::max(0, left) * stages[m]});
    before += stages[m];
  }
  return least;
}

/// Searches count picoseconds, and 64 bits end at 106 days: throws where a model on one device comes near that.
template <int Axes>
void check_times(device_graph<Axes> const& whole, machine_description const& machine) {
  double bytes = 0;
  for (search_node const& n : whole.nodes) bytes = std::max({bytes, n.input.bytes, n.output.bytes});
  double seconds = least_of(whole, static_cast<int>(whole.nodes.size()) - 1).seconds;
  for (int level = 0; level < machine.level_count(); ++level)
    seconds = std::max(seconds, 1000 * seconds_of(machine.levels[level].link, bytes));
  if (!(seconds < 1e6))
    throw error("a machine whose kernels or messages would take this batch more than a week", "less",
                "check the units of its description: operations and bytes a second, and seconds; or choose a smaller "
                "batch");
}

}  // namespace tessera::detail
