#pragma once

#include <tessera/plan/search/problem.hpp>
#include <tessera/plan/search/route_costs.hpp>

#include <utility>

namespace tessera::detail {

/// What belongs to what among the values of so many dimensions on a mesh, as places in `ways_to_take`, `ways_to_make`
/// and `values_to_make`. Sets are of axes that replicate a value and along which its gradient is partial.
template <auto Sizes, int Rank>
struct edge_places {
  static constexpr auto& taken = ways_to_take<Sizes, Rank>;
  static constexpr auto& made = ways_to_make<Sizes, Rank>;
  static constexpr auto& values = values_to_make<Sizes, Rank>;
  static constexpr int axes = taken.axes;
  static constexpr int takes = taken.size();
  static constexpr int makes = made.size();
  static constexpr int value_count = values.size();
  static constexpr int sets = 1 << axes;
  /// Values that are no partial sums.
  static constexpr int resolved = static_cast<int>(count_of_edges(Sizes, Rank, false, false));

  struct value_tables {
    cut_places<axes> cuts[value_count] = {};
    std::uint64_t keys[value_count] = {};           ///< of the first three axes, 16 bits each, which four digits fill
    std::uint16_t dims[value_count][sets] = {};     ///< dimensions that axes of a set cut, a bit each
    std::uint8_t whole[value_count] = {};           ///< the axes that replicate it
    std::int16_t column[value_count] = {};          ///< its place among values that are resolved, or -1
    std::int16_t handed[value_count] = {};          ///< the place of its gradient among these, where that is whole
    std::int16_t summed[value_count][sets] = {};    ///< the value that is a partial sum along these axes instead, or -1
    std::int16_t made_at[value_count][sets] = {};   ///< the way of making it, or -1
    std::int16_t taken_at[value_count][sets] = {};  ///< the way of taking it, or -1
  };
  static constexpr value_tables of_value = [] {
    value_tables out;
    int columns = 0;
    for (int v = 0; v < value_count; ++v) {
      const edge_code code = values[v];
      out.cuts[v] = cut_places<axes>(code);
      const unsigned partial = out.cuts[v].partial;
      for (int a = 0; a < axes && a < 3; ++a) out.keys[v] |= out.cuts[v].key[a] << (16 * a);
      for (int a = 0; a < axes; ++a)
        for (int set = 1 << a; set < 2 << a; ++set) {
          const unsigned own = (out.cuts[v].cut >> a & 1) << out.cuts[v].dim[a];
          out.dims[v][set] = static_cast<std::uint16_t>(out.dims[v][set - (1 << a)] | own);
        }
      unsigned whole = 0;
      edge_code gradient = code;
      for (int a = 0; a < axes; ++a) {
        if (Sizes[a] > 1 && edge::at(code, a) == edge::whole) whole |= 1u << a;
        if (edge::at(code, a) == edge::partial) gradient = edge::with(gradient, a, edge::whole);
      }
      out.whole[v] = static_cast<std::uint8_t>(whole);
      out.column[v] = static_cast<std::int16_t>(partial == 0 ? columns++ : -1);
      out.handed[v] = static_cast<std::int16_t>(values.place(gradient));
      for (unsigned set = 0; set < static_cast<unsigned>(sets); ++set) {
        edge_code sum = code;
        edge_code with_gradient = code;
        for (int a = 0; a < axes; ++a)
          if ((set >> a & 1) != 0) {
            sum = edge::with(sum, a, edge::partial);
            with_gradient = edge::with(with_gradient, a, edge::partial_gradient);
          }
        const bool fits = (set & ~whole) == 0;
        out.summed[v][set] = static_cast<std::int16_t>(fits ? values.place(sum) : -1);
        out.made_at[v][set] = static_cast<std::int16_t>(fits ? made.place(with_gradient) : -1);
        out.taken_at[v][set] = static_cast<std::int16_t>(fits && partial == 0 ? taken.place(with_gradient) : -1);
      }
    }
    for (std::int16_t& place : out.handed) place = out.column[place];
    return out;
  }();

  struct way_tables {
    std::int16_t value_of[makes] = {};        ///< of a way of making: the value
    std::uint8_t set_of[makes] = {};          ///< and where its gradient is partial
    std::int16_t value_of_taken[takes] = {};  ///< the same of a way of taking
    std::uint8_t set_of_taken[takes] = {};
    std::int16_t made_of[takes] = {};  ///< the way of making with its value and gradient
  };
  static constexpr way_tables of_way = [] {
    way_tables out;
    for (int v = 0; v < value_count; ++v)
      for (int set = 0; set < sets; ++set) {
        const int m = of_value.made_at[v][set];
        const int k = of_value.taken_at[v][set];
        if (m >= 0) {
          out.value_of[m] = static_cast<std::int16_t>(v);
          out.set_of[m] = static_cast<std::uint8_t>(set);
        }
        if (k >= 0) {
          out.value_of_taken[k] = static_cast<std::int16_t>(v);
          out.set_of_taken[k] = static_cast<std::uint8_t>(set);
          out.made_of[k] = static_cast<std::int16_t>(m);
        }
      }
    return out;
  }();
};

/// What routes from each value to those that are resolved cost: a latency, and seconds for each byte of the tensor.
template <class Problem, int Rank>
struct route_table {
  using places = edge_places<Problem::mesh::value, Rank>;
  struct row {
    double latency[places::resolved] = {};
    double per_byte[places::resolved] = {};
  };
  template <int From>
  static constexpr row from = [] {
    const route_pricer<Problem::mesh::axes> pricer(Problem::mesh::value, Problem::costs);
    auto const& of_value = places::of_value;
    row out;
    if constexpr (places::axes <= 3) {
      if (of_value.cuts[From].partial == 0) {
        // `route_pricer::step` of all axes at once: most pairs are such.
        auto const& costs = Problem::costs;
        const unsigned cut = of_value.cuts[From].cut;
        const std::uint64_t keys = of_value.keys[From];
        for (int v = 0; v < places::value_count; ++v) {
          const int column = of_value.column[v];
          if (column < 0) continue;
          const std::uint64_t differs = keys ^ of_value.keys[v];
          const unsigned other = ((differs & 0xffff) != 0 ? 1u : 0u) | ((differs & 0xffff0000) != 0 ? 2u : 0u) |
                                 ((differs >> 32) != 0 ? 4u : 0u);
          const unsigned moving = cut & other;
          if (moving == 0) continue;
          const unsigned after = of_value.cuts[v].cut;
          const unsigned begins = after & other;
          const unsigned left = of_value.dims[From][moving];
          double share = 1.0 / pricer.size[after];
          if (begins != 0 && (left & of_value.dims[v][begins]) == 0)
            share -= 1.0 / (pricer.size[cut] * pricer.size[begins]);
          link_cost const& by = begins == 0 ? costs.gather[moving] : costs.exchange[moving];
          out.latency[column] = by.latency;
          out.per_byte[column] = by.seconds_per_byte * share;
          if (((left | of_value.dims[v][moving]) & ~1u) != 0) out.per_byte[column] += costs.packing * share;
        }
        return out;
      }
    }
    for (int v = 0; v < places::value_count; ++v) {
      const int column = of_value.column[v];
      if (column < 0 || v == From) continue;
      const link_cost cost = pricer.cost(of_value.cuts[From], of_value.cuts[v], Rank);
      out.latency[column] = cost.latency;
      out.per_byte[column] = cost.seconds_per_byte;
    }
    return out;
  }();
  struct row_list {
    row const* at[places::value_count];
  };
  static constexpr row_list rows = []<int... V>(std::integer_sequence<int, V...>) { return row_list{{&from<V>...}}; }
  (std::make_integer_sequence<int, places::value_count>{});

  /// From one value to another, which may stay a partial sum: whole axes would do as little.
  static constexpr link_cost between(int from, int to) {
    auto const& of_value = places::of_value;
    const unsigned kept = of_value.cuts[to].partial;
    if ((kept & ~of_value.cuts[from].partial) != 0) return {};
    edge_code code = places::values[from];
    for (int a = 0; a < places::axes; ++a)
      if ((kept >> a & 1) != 0) code = edge::with(code, a, edge::whole);
    row const& costs = *rows.at[places::values.place(code)];
    return {costs.latency[of_value.handed[to]], costs.per_byte[of_value.handed[to]]};
  }
};

/// The links of an edge of tensors of `Rank` dimensions: see `link_between`.
template <class Problem, int Rank, int Forwards, int Backwards>
struct edge_links {
  using places = edge_places<Problem::mesh::value, Rank>;
  using routes = route_table<Problem, Rank>;
  static constexpr int makes = places::makes;
  static constexpr int takes = places::takes;
  static constexpr std::int16_t const (&value_of)[static_cast<std::size_t>(makes)] = places::of_way.value_of;

  double bytes = 0;

  static constexpr link_cost cost(int value, int taken) {
    auto const& of_value = places::of_value;
    const int target = places::of_way.value_of_taken[taken];
    auto const& forward = *routes::rows.at[value];
    const int column = of_value.column[target];
    if constexpr (Backwards == 0) {
      return {Forwards * forward.latency[column], Forwards * forward.per_byte[column]};
    } else {
      // What is handed back partial is not reduced.
      const int gradient = of_value.summed[target][places::of_way.set_of_taken[taken] & ~of_value.whole[value]];
      auto const& backward = *routes::rows.at[gradient];
      const int handed = of_value.handed[value];
      return {Forwards * forward.latency[column] + Backwards * backward.latency[handed],
              Forwards * forward.per_byte[column] + Backwards * backward.per_byte[handed]};
    }
  }
  constexpr search_time time(int value, int taken) const {
    const link_cost one = cost(value, taken);
    return picoseconds(one.latency + one.seconds_per_byte * bytes);
  }
  /// Where the gradient is handed back partial.
  static constexpr int set(int value, int set_of_taken) {
    return Backwards == 0 ? 0 : set_of_taken & places::of_value.whole[value];
  }
  /// The way of making the value that the producer sees.
  static constexpr int made(int value, int taken) {
    return places::of_value.made_at[value][set(value, places::of_way.set_of_taken[taken])];
  }

  /// The links from a value, those that cost the same together: for each set along which the gradient is handed back
  /// partial, groups in order of seconds for each byte, then latency.
  struct link_groups {
    std::int16_t begin[places::sets + 1] = {};  ///< of a set: its first group
    double latency[static_cast<std::size_t>(takes)] = {};
    double per_byte[static_cast<std::size_t>(takes)] = {};
    std::int16_t end[static_cast<std::size_t>(takes)] = {};  ///< of a group: after its last member
    std::int16_t members[static_cast<std::size_t>(takes)] = {};

    constexpr search_time time(int group, double bytes) const {
      return picoseconds(latency[group] + per_byte[group] * bytes);
    }
    /// No group from here on takes less.
    constexpr search_time least(int group, double bytes) const { return picoseconds(per_byte[group] * bytes); }
  };
  template <int V>
  static constexpr link_groups groups_from = [] {
    auto const& of_way = places::of_way;
    double latency[static_cast<std::size_t>(takes)] = {};
    double per_byte[static_cast<std::size_t>(takes)] = {};
    int next_group[static_cast<std::size_t>(takes)] = {};
    int first_group[static_cast<std::size_t>(places::sets)] = {};
    int first_member[static_cast<std::size_t>(takes)] = {};
    int next_member[static_cast<std::size_t>(takes)] = {};
    int groups = 0;  // places count from 1
    for (int k = 0; k < takes; ++k) {
      const int partial = of_way.set_of_taken[k];
      if (Backwards == 0 && partial != 0) continue;
      const link_cost one = cost(V, k);
      int* at = &first_group[set(V, partial)];
      while (*at != 0 && (per_byte[*at - 1] < one.seconds_per_byte ||
                          (per_byte[*at - 1] == one.seconds_per_byte && latency[*at - 1] < one.latency)))
        at = &next_group[*at - 1];
      if (*at == 0 || per_byte[*at - 1] != one.seconds_per_byte || latency[*at - 1] != one.latency) {
        latency[groups] = one.latency;
        per_byte[groups] = one.seconds_per_byte;
        next_group[groups] = *at;
        *at = ++groups;
      }
      next_member[k] = first_member[*at - 1];
      first_member[*at - 1] = k + 1;
    }
    link_groups out;
    int count = 0;
    int members = 0;
    for (int set = 0; set < places::sets; ++set) {
      out.begin[set] = static_cast<std::int16_t>(count);
      for (int g = first_group[set]; g != 0; g = next_group[g - 1]) {
        out.latency[count] = latency[g - 1];
        out.per_byte[count] = per_byte[g - 1];
        for (int k = first_member[g - 1]; k != 0; k = next_member[k - 1])
          out.members[members++] = static_cast<std::int16_t>(k - 1);
        out.end[count++] = static_cast<std::int16_t>(members);
      }
    }
    out.begin[places::sets] = static_cast<std::int16_t>(count);
    return out;
  }();
  struct group_list {
    link_groups const* at[static_cast<std::size_t>(places::value_count)];
  };
  static constexpr group_list groups = []<int... V>(std::integer_sequence<int, V...>) {
    return group_list{{&groups_from<V>...}};
  }
  (std::make_integer_sequence<int, places::value_count>{});
};

// All links at once, for searches that look at each again and again.

template <int Count>
struct route_costs {
  link_cost at[static_cast<std::size_t>(Count)] = {};
};
/// What routes from one value cost, by the value to which.
template <class Problem, int Rank, int From>
struct routes_from {
  static constexpr int count = edge_places<Problem::mesh::value, Rank>::value_count;
  using type = route_costs<count>;
  static constexpr type costs = [] {
    type out;
    for (int v = 0; v < count; ++v) out.at[v] = route_table<Problem, Rank>::between(From, v);
    return out;
  }();
};

/// The links of tensors of so many bytes: picoseconds, and the place of the value that each starts from, gradient
/// included.
struct timed_link {
  search_time time = 0;
  std::int16_t made = 0;
};
template <class Problem, int Rank, int Forwards, int Backwards, index_t Bytes>
struct timed_links : edge_links<Problem, Rank, Forwards, Backwards> {
  using links = edge_links<Problem, Rank, Forwards, Backwards>;
  static constexpr int value_count = links::places::value_count;
  constexpr timed_links() : links{static_cast<double>(Bytes)} {}

  struct row_type {
    timed_link at[static_cast<std::size_t>(links::takes)] = {};
  };
  template <int V>
  static constexpr row_type row = [] {
    row_type out;
    constexpr timed_links here;
    for (int k = 0; k < links::takes; ++k) out.at[k] = {here.time(V, k), static_cast<std::int16_t>(links::made(V, k))};
    return out;
  }();
  struct row_list {
    timed_link const* at[static_cast<std::size_t>(value_count)];
    constexpr timed_link const* operator[](int v) const { return at[v]; }
  };
  /// By values without their gradients and by the ways of taking them.
  static constexpr row_list rows = []<int... V>(std::integer_sequence<int, V...>) { return row_list{{row<V>.at...}}; }
  (std::make_integer_sequence<int, value_count>{});
};

}  // namespace tessera::detail
