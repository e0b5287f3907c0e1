#pragma once

#include <tessera/plan/mesh_costs.hpp>
#include <tessera/plan/search/edge.hpp>

namespace tessera::detail {

/// A layout as `cost_between` takes it: sets of axes, and of each axis that cuts where it does so.
template <int Axes>
struct cut_places {
  unsigned cut = 0;
  unsigned partial = 0;
  int dim[Axes] = {};
  int order[Axes] = {};
  /// The dimension, the axes that cut it before, and the axis itself, a digit each: equal where an axis cuts alike.
  std::uint64_t key[Axes] = {};

  constexpr cut_places() = default;
  constexpr explicit cut_places(edge_code code) {
    for (int a = 0; a < Axes; ++a) {
      const unsigned what = edge::at(code, a);
      if (what == edge::partial) partial |= 1u << a;
      if (what < 8) continue;
      cut |= 1u << a;
      dim[a] = static_cast<int>(what / 8) - 1;
      order[a] = static_cast<int>(what % 8);
    }
    for (int i = 0; i < Axes; ++i)
      for (int a = 0; a < Axes; ++a) {
        if ((cut >> a & 1) == 0 || order[a] != i) continue;
        key[a] = static_cast<std::uint64_t>(dim[a] + 1);
        for (int b = 0; b < Axes; ++b)
          if ((cut >> b & 1) != 0 && dim[b] == dim[a] && order[b] == i - 1) key[a] = key[b];
        key[a] = key[a] * 16 + static_cast<std::uint64_t>(a + 1);
      }
  }
  /// Another axis cuts a dimension, after all that do.
  constexpr void add(int axis, int d) {
    std::uint64_t last = static_cast<std::uint64_t>(d + 1);
    for (int b = 0; b < Axes; ++b)
      if ((cut >> b & 1) != 0 && dim[b] == d && key[b] > last) last = key[b];
    partial &= ~(1u << axis);
    cut |= 1u << axis;
    dim[axis] = d;
    key[axis] = last * 16 + static_cast<std::uint64_t>(axis + 1);
  }
};

/// What routes between layouts cost on a mesh: `cost_of_route` of `find_route`, by arithmetic on places in a twentieth
/// of the steps. Partial values are sums. (The tests compare them.)
template <int Axes>
struct route_pricer {
  mesh_costs<Axes> const& costs;
  int size[1 << Axes] = {};  ///< devices of a group

  constexpr route_pricer(mesh_sizes<Axes> const& mesh, mesh_costs<Axes> const& given) : costs(given) {
    for (int set = 0; set < 1 << Axes; ++set) size[set] = mesh.group_size(static_cast<axis_set>(set));
  }

  /// A step, or none, of values that are resolved: `moving` axes cut another place before than after.
  struct step_found {
    unsigned moving = 0;
    bool gathers = true;  ///< and nothing else
    double common = 0;    ///< the share of the tensor that a device holds before and after, of an exchange
  };
  constexpr step_found step(cut_places<Axes> const& from, cut_places<Axes> const& to) const {
    step_found found;
    unsigned alike = 0;
    unsigned left = 0;  // dimensions
    for (int a = 0; a < Axes; ++a) {
      if ((from.cut >> a & 1) == 0) continue;
      if ((to.cut >> a & 1) != 0 && from.key[a] == to.key[a]) {
        alike |= 1u << a;
      } else {
        found.moving |= 1u << a;
        left |= 1u << from.dim[a];
      }
    }
    const unsigned others = to.cut & ~alike;
    if (found.moving == 0 || others == 0) return found;
    found.gathers = false;
    for (int a = 0; a < Axes; ++a)
      if ((others >> a & 1) != 0 && (left >> to.dim[a] & 1) != 0) return found;
    found.common = 1.0 / (size[from.cut] * size[others]);
    return found;
  }
  constexpr double received(step_found const& found, cut_places<Axes> const& from, cut_places<Axes> const& to) const {
    return found.moving == 0 ? 0
           : found.gathers   ? 1.0 / size[to.cut] - 1.0 / size[from.cut]
                             : 1.0 / size[to.cut] - found.common;
  }
  constexpr void add(link_cost& sum, link_cost const& by, double share, int times = 1, bool apart = false) const {
    double per_byte = times * by.seconds_per_byte * share;
    if (apart) per_byte += costs.packing * share;
    sum.latency += times * by.latency;
    sum.seconds_per_byte += per_byte;
  }
  constexpr void add(link_cost& sum, step_found const& found, cut_places<Axes> const& from,
                     cut_places<Axes> const& to) const {
    if (found.moving == 0) return;
    bool apart = false;
    for (int a = 0; a < Axes; ++a)
      if ((found.moving >> a & 1) != 0) apart = apart || from.dim[a] != 0 || ((to.cut >> a & 1) != 0 && to.dim[a] != 0);
    if (found.gathers)
      add(sum, costs.gather[found.moving], 1.0 / size[to.cut], 1, apart);
    else
      add(sum, costs.exchange[found.moving], 1.0 / size[to.cut] - found.common, 1, apart);
  }
  constexpr void add_scatter(link_cost& sum, unsigned group, cut_places<Axes> const& to) const {
    bool apart = false;
    for (int a = 0; a < Axes; ++a) apart = apart || ((group >> a & 1) != 0 && to.dim[a] != 0);
    add(sum, costs.gather[group], size[group] * (1.0 / size[to.cut]), 1, apart);
  }

  /// From a value of `rank` dimensions to one that is partial along no other axes: see `least_route`.
  constexpr link_cost cost(cut_places<Axes> const& from, cut_places<Axes> const& to, int rank) const {
    link_cost sum;
    const unsigned resolved = from.partial & ~to.partial;
    if (resolved == 0) {
      add(sum, step(from, to), from, to);
      return sum;
    }
    const unsigned spread = to.cut & ~from.cut & ~from.partial;
    const unsigned reduced = resolved & ~to.cut;
    const unsigned scattered = resolved & to.cut;
    // Reduce-scatter what is cut in the end, all-reduce the rest, then exchange.
    cut_places<Axes> middle = from;
    for (int order = 0; order < Axes; ++order)
      for (int a = 0; a < Axes; ++a)
        if (((scattered | spread) >> a & 1) != 0 && to.order[a] == order) middle.add(a, to.dim[a]);
    const double share = 1.0 / size[middle.cut];
    const step_found rest = step(middle, to);
    if (scattered != 0) add_scatter(sum, scattered, middle);
    if (reduced != 0) add(sum, costs.gather[reduced], share, 2);
    add(sum, rest, middle, to);
    const bool moves = rest.moving != 0 && !rest.gathers;
    if (reduced == 0 && !moves) return sum;
    const int steps = ((scattered | spread) != 0) + (reduced != 0) + (rest.moving != 0);
    if (!moves) {
      // All that is reduced can be scattered and gathered with the rest, which moves as much: the first way to do so is
      // taken where that spares a step.
      if (steps < 3) return sum;
      for (int a = 0; a < Axes; ++a)
        if ((reduced >> a & 1) != 0) middle.add(a, 0);
      return scattered_first(from, middle, to, resolved);
    }
    double least = received(rest, middle, to);
    if (scattered != 0) least += (size[scattered] - 1) * share;
    if (reduced != 0) least += 2.0 * (size[reduced] - 1) / size[reduced] * share;
    const unsigned placed = resolved | spread;
    // Dimensions that `to` does not cut serve alike, and the first of them comes before the others.
    unsigned cut_in_the_end = 0;
    for (int a = 0; a < Axes; ++a)
      if ((to.cut >> a & 1) != 0) cut_in_the_end |= 1u << to.dim[a];
    int dims[max_rank] = {};
    int count = 0;
    bool other = false;
    for (int d = 0; d < rank; ++d) {
      if ((cut_in_the_end >> d & 1) == 0) {
        if (other) continue;
        other = true;
      }
      dims[count++] = d;
    }
    int choices = 1;
    for (int a = 0; a < Axes; ++a)
      if ((placed >> a & 1) != 0) choices *= count;
    int fewest = steps;
    cut_places<Axes> best;
    for (int choice = 0; choice < choices; ++choice) {
      middle = from;
      int digits = choice;
      for (int order = 0; order <= Axes; ++order)
        for (int a = 0; a < Axes; ++a) {
          if ((placed >> a & 1) == 0 || ((to.cut >> a & 1) != 0 ? to.order[a] : Axes) != order) continue;
          middle.add(a, dims[digits % count]);
          digits /= count;
        }
      const double here = (size[resolved] - 1) * (1.0 / size[middle.cut]) + received(step(middle, to), middle, to);
      if (here < least - 1e-9 || (here < least + 1e-9 && 2 < fewest)) {
        best = middle;
        least = here;
        fewest = 2;
      }
    }
    return best.cut == 0 ? sum : scattered_first(from, best, to, resolved);
  }

 private:
  constexpr link_cost scattered_first(cut_places<Axes> const&, cut_places<Axes> const& middle,
                                      cut_places<Axes> const& to, unsigned resolved) const {
    link_cost sum;
    add_scatter(sum, resolved, middle);
    add(sum, step(middle, to), middle, to);
    return sum;
  }
};

}  // namespace tessera::detail
