#pragma once

#include <tessera/plan/search/front.hpp>

namespace tessera::detail {

template <int Count>
struct route_costs {
  link_cost at[static_cast<std::size_t>(Count)] = {};
};

/// What routes from one value cost, by the value to which: a latency, and seconds for each byte of the tensor.
template <class Problem, int Rank, int From>
struct routes_from {
  static constexpr auto& values = values_to_make<Problem::mesh::value, Rank>;
  using type = route_costs<values_to_make<Problem::mesh::value, Rank>.size()>;
  static constexpr type costs = [] {
    constexpr int axes = Problem::mesh::axes;
    type out;
    const edge_code code = values[From];
    const placements<axes> from = layout_of_edge<axes>(code);
    for (int v = 0; v < values.size(); ++v) {
      bool reaches = v != From;
      for (int a = 0; a < axes; ++a)
        if (edge::at(values[v], a) == edge::partial && edge::at(code, a) != edge::partial) reaches = false;
      if (reaches)
        out.at[v] = cost_of_route(Problem::mesh::value, Problem::costs,
                                  find_route(Problem::mesh::value, from, layout_of_edge<axes>(values[v]), Rank));
    }
    return out;
  }();
};

/// The links of a tensor of `Rank` dimensions: see `link_between`, with the routes taken from a table.
template <class Problem, int Rank, int Forwards, int Backwards>
struct link_table {
  static constexpr int axes = Problem::mesh::axes;
  static constexpr auto& taken = ways_to_take<Problem::mesh::value, Rank>;
  static constexpr auto& made = ways_to_make<Problem::mesh::value, Rank>;
  static constexpr auto& values = values_to_make<Problem::mesh::value, Rank>;
  static constexpr int takes = taken.size();
  static constexpr int makes = made.size();
  static constexpr int value_count = values.size();

  struct entry {
    link_cost cost{};
    std::int16_t made = 0;
  };
  struct row_type;
  struct row_list {
    row_type const* at[static_cast<std::size_t>(value_count)];
  };
  struct row_type {
    entry at[static_cast<std::size_t>(takes)] = {};
  };

 private:
  struct route_list {
    route_costs<value_count> const* at[static_cast<std::size_t>(value_count)];
  };
  static constexpr auto routes = []<int... V>(std::integer_sequence<int, V...>) {
    return route_list{{&routes_from<Problem, Rank, V>::costs...}};
  }
  (std::make_integer_sequence<int, value_count>{});

  /// Of each way of taking: the place of its layout, and of its gradient's.
  struct sides {
    std::int16_t value = 0;
    std::int16_t gradient = 0;
  };
  struct side_list {
    sides at[static_cast<std::size_t>(takes)] = {};
  };
  static constexpr side_list sides_of = [] {
    side_list out;
    for (int k = 0; k < takes; ++k) {
      edge_code gradient = taken[k];
      for (int a = 0; a < axes; ++a)
        if (edge::at(gradient, a) == edge::partial_gradient) gradient = edge::with(gradient, a, edge::partial);
      out.at[k] = {static_cast<std::int16_t>(values.place(value_of_edge<axes>(taken[k]))),
                static_cast<std::int16_t>(values.place(gradient))};
    }
    return out;
  }();

  template <int V>
  static constexpr row_type row = [] {
    row_type out{};
    const edge_code from = values[V];
    for (int k = 0; k < takes; ++k) {
      const auto one = [&](int a, int b, int times) {
        link_cost const& route = routes.at[a]->at[b];
        out.at[k].cost.latency += times * route.latency;
        out.at[k].cost.seconds_per_byte += times * route.seconds_per_byte;
      };
      one(V, sides_of.at[k].value, Forwards);
      edge_code seen = from;
      if (Backwards > 0) {
        // `gradient_for`, on codes.
        edge_code handed = from;
        for (int a = 0; a < axes; ++a) {
          if (edge::at(from, a) == edge::partial) handed = edge::with(handed, a, edge::whole);
          if (edge::at(from, a) != edge::whole || edge::at(taken[k], a) != edge::partial_gradient) continue;
          handed = edge::with(handed, a, edge::partial);
          seen = edge::with(seen, a, edge::partial_gradient);
        }
        one(sides_of.at[k].gradient, values.place(handed), Backwards);
      }
      out.at[k].made = static_cast<std::int16_t>(made.place(seen));
    }
    return out;
  }();

 public:
  static constexpr auto rows = []<int... V>(std::integer_sequence<int, V...>) {
    return row_list{{&row<V>...}};
  }
  (std::make_integer_sequence<int, value_count>{});
};

/// The same for a tensor of so many bytes.
template <int Values, int Taken, int Made, class Table>
constexpr edge_links<Values, Taken, Made> time_links(Table, double bytes) {
  edge_links<Values, Taken, Made> out;
  for (int v = 0; v < Values; ++v) {
    auto const& row = *Table::rows.at[v];
    for (int k = 0; k < Taken; ++k)
      out.rows[v][k] = {picoseconds(row.at[k].cost.latency + row.at[k].cost.seconds_per_byte * bytes), row.at[k].made};
  }
  for (int m = 0; m < Made; ++m) out.value_of[m] = static_cast<std::int16_t>(Table::values.place(value_of_edge<Table::axes>(Table::made[m])));
  return out;
}
template <class Problem, int Rank, int Forwards, int Backwards, index_t Bytes>
inline constexpr auto timed_links = [] {
  using table = link_table<Problem, Rank, Forwards, Backwards>;
  constexpr int values = table::value_count;
  constexpr int takes = table::takes;
  constexpr int makes = table::makes;
  return time_links<values, takes, makes>(table{}, static_cast<double>(Bytes));
}();

}  // namespace tessera::detail
