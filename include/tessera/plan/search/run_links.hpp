#pragma once

#include <tessera/plan/search/link.hpp>
#include <tessera/plan/search/problem.hpp>

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace tessera::detail {

/// All ways in which a value of so many dimensions can be on a mesh, at run time: codes by place, and what belongs to
/// what.
template <int Axes>
struct rank_edges {
  static constexpr int sets = 1 << Axes;

  std::vector<edge_code> taken{};
  std::vector<edge_code> made{};
  std::vector<edge_code> values{};
  std::vector<std::int16_t> made_value{};  ///< of a way to make: its value
  std::vector<std::int16_t> made_set{};    ///< and where its gradient is partial
  std::vector<std::int16_t> made_at{};     ///< by value and such a set (`value * sets + set`): the way to make, or -1
  std::vector<std::int16_t> made_taken{};  ///< the way of taking a value that is made so, or -1
  std::vector<std::int16_t> taken_made{};  ///< of a way to take: the way to make that has its layout and gradient
  std::vector<std::int16_t> taken_gradient{};  ///< and the value that its gradient is
  std::vector<std::int16_t> value_gradient{};  ///< of a value: its gradient where whoever takes it does the same work

  rank_edges(mesh_sizes<Axes> const& mesh, int rank)
      : taken(all_edges(mesh, rank, true, false)),
        made(all_edges(mesh, rank, true, true)),
        values(all_edges(mesh, rank, false, true)) {
    for (std::size_t v = 0; v < values.size(); ++v) places_.emplace(values[v], static_cast<std::int16_t>(v));
    made_at.assign(values.size() * sets, -1);
    std::unordered_map<edge_code, std::int16_t> makes;
    for (std::size_t m = 0; m < made.size(); ++m) {
      makes.emplace(made[m], static_cast<std::int16_t>(m));
      made_value.push_back(value(value_of_edge<Axes>(made[m])));
      made_set.push_back(static_cast<std::int16_t>(partial_gradients_of<Axes>(made[m])));
      made_at[static_cast<std::size_t>(made_value[m] * sets + made_set[m])] = static_cast<std::int16_t>(m);
    }
    made_taken.assign(made.size(), -1);
    for (const edge_code code : taken) {
      const std::int16_t m = makes.at(code);
      made_taken[static_cast<std::size_t>(m)] = static_cast<std::int16_t>(taken_made.size());
      taken_made.push_back(m);
      taken_gradient.push_back(value(edge_of(gradient_of_edge<Axes>(code))));
    }
    for (const edge_code code : values) value_gradient.push_back(value(edge_of(gradient_of_edge<Axes>(code))));
  }

  std::int16_t value(edge_code code) const { return places_.at(code); }
  /// The gradient of a value that is handed back partial along the axes of a set.
  std::int16_t gradient(std::int16_t value_place, int set) const {
    edge_code code = values[static_cast<std::size_t>(value_gradient[static_cast<std::size_t>(value_place)])];
    for (int a = 0; a < Axes; ++a)
      if (set >> a & 1) code = edge::with(code, a, edge::partial);
    return value(code);
  }

 private:
  std::unordered_map<edge_code, std::int16_t> places_{};
};

/// The links of one edge of a model, by the value that is made and the way of taking it: the time, and the way in which
/// its producer makes the value.
struct edge_rows {
  int takes = 0;
  std::vector<search_time> time{};
  std::vector<std::int16_t> made{};

  search_time const* times_from(int value) const { return time.data() + static_cast<std::ptrdiff_t>(value) * takes; }
  std::int16_t const* made_from(int value) const { return made.data() + static_cast<std::ptrdiff_t>(value) * takes; }
};

/// Edges, routes and links of a mesh: each route is searched once.
template <int Axes>
class run_links {
 public:
  run_links(mesh_sizes<Axes> const& mesh, mesh_costs<Axes> const& costs) : mesh_(mesh), costs_(costs) {}

  rank_edges<Axes> const& edges(int rank) { return of(rank).edges; }

  /// What a route from one value to another costs.
  link_cost const& route(int rank, int from, int to) {
    by_rank& one = of(rank);
    const std::size_t at = static_cast<std::size_t>(from) * one.edges.values.size() + static_cast<std::size_t>(to);
    if (one.known[at] == 0) {
      one.known[at] = 1;
      if (from != to)
        one.routes[at] =
            cost_of_route(mesh_, costs_,
                          find_route(mesh_, layout_of_edge<Axes>(one.edges.values[static_cast<std::size_t>(from)]),
                                     layout_of_edge<Axes>(one.edges.values[static_cast<std::size_t>(to)]), rank));
    }
    return one.routes[at];
  }
  search_time route_time(int rank, int from, int to, double bytes) {
    return picoseconds(seconds_of(route(rank, from, to), bytes));
  }

  /// The links of a tensor, as `link_between` has them.
  edge_rows const& rows(int rank, double bytes, pass_counts passes) {
    auto& rows = rows_[{rank, bytes, passes.forward, passes.backward}];
    if (!rows) rows = std::make_unique<edge_rows>(find_rows(rank, bytes, passes));
    return *rows;
  }

 private:
  struct by_rank {
    rank_edges<Axes> edges;
    std::vector<link_cost> routes{};
    std::vector<char> known{};
    by_rank(mesh_sizes<Axes> const& mesh, int rank) : edges(mesh, rank) {
      routes.resize(edges.values.size() * edges.values.size());
      known.resize(routes.size());
    }
  };
  by_rank& of(int rank) {
    auto& one = ranks_[rank];
    if (!one) one = std::make_unique<by_rank>(mesh_, rank);
    return *one;
  }

  edge_rows find_rows(int rank, double bytes, pass_counts passes) {
    rank_edges<Axes> const& e = edges(rank);
    edge_rows out;
    out.takes = static_cast<int>(e.taken.size());
    for (std::size_t v = 0; v < e.values.size(); ++v) {
      const edge_code from = e.values[v];
      for (std::size_t k = 0; k < e.taken.size(); ++k) {
        const int value = e.made_value[static_cast<std::size_t>(e.taken_made[k])];
        link_cost cost;
        const auto add = [&](link_cost const& one, int times) {
          cost.latency += times * one.latency;
          cost.seconds_per_byte += times * one.seconds_per_byte;
        };
        if (passes.forward > 0) add(route(rank, static_cast<int>(v), value), passes.forward);
        int set = 0;
        if (passes.backward > 0) {
          for (int a = 0; a < Axes; ++a)
            if (edge::at(from, a) == edge::whole && edge::at(e.taken[k], a) == edge::partial_gradient) set |= 1 << a;
          add(route(rank, e.taken_gradient[k], e.gradient(static_cast<std::int16_t>(v), set)), passes.backward);
        }
        out.time.push_back(picoseconds(seconds_of(cost, bytes)));
        out.made.push_back(e.made_at[v * rank_edges<Axes>::sets + static_cast<std::size_t>(set)]);
      }
    }
    return out;
  }

  mesh_sizes<Axes> mesh_;
  mesh_costs<Axes> costs_;
  std::map<int, std::unique_ptr<by_rank>> ranks_{};
  std::map<std::tuple<int, double, int, int>, std::unique_ptr<edge_rows>> rows_{};
};

}  // namespace tessera::detail
