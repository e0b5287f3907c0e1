#pragma once

#include <tessera/op/conv2d.hpp>
#include <tessera/redistribute/cost.hpp>
#include <tessera/redistribute/route.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

/// All ways to compute a product, with its gradients or without, from the layouts that are given to those that are
/// wanted: by the rules of an operator, and by routes before and after it.
namespace product_plans {

using tessera::index_t;
using tessera::mesh_sizes;
using tessera::placements;
using tessera::shape;

/// More than any plan takes, and small enough to be added a few times.
inline constexpr index_t impossible = std::numeric_limits<index_t>::max() / 16;

/// The tensors of a product c of a and b. A gradient has the extents of what it is the gradient of.
enum tensor_name : std::size_t { a, b, c };

/// An operator: the rules by which the last one of these tensors, or its gradient, comes of the others.
struct operation {
  tessera::index_rules rules;
  tensor_name left;
  tensor_name right;
  tensor_name made;
};

/// A product and its gradients.
template <int Axes, int Rank>
struct problem {
  std::array<shape<Rank>, 3> extents;
  /// How many dimensions of each tensor may be cut: the first ones.
  std::array<int, 3> cut_dims;
  operation product;
  operation gradient_a;
  operation gradient_b;
  /// Bytes that a device receives at the most to read what its share of c needs of a, or, with `true`, for the gradient
  /// of a from that of c. Takes the layouts of a and c.
  std::function<index_t(placements<Axes> const&, placements<Axes> const&, bool)> halo = [](auto const&, auto const&,
                                                                                           bool) { return index_t{0}; };
};

/// Of an m x k matrix and a k x n one.
template <int Axes>
problem<Axes, 2> matrix_product(index_t m, index_t k, index_t n) {
  using namespace tessera::detail;
  return {{{{m, k}, {k, n}, {m, n}}},
          {2, 2, 2},
          {matmul_op<false, false>::rules, a, b, c},
          {matmul_op<false, true>::rules, c, b, a},
          {matmul_op<true, false>::rules, a, c, b}};
}

/// Of images x and a weight w, both written [N, C, H, W]. `Mesh` has the sizes of the mesh that is planned for.
template <class Mesh>
problem<Mesh::axes, 4> convolution(shape<4> const& x, shape<4> const& w, tessera::conv2d_geometry const& g) {
  using namespace tessera::detail;
  const shape<4> y = convolved_extents(x, w[0], g);
  const auto halo = [=](placements<Mesh::axes> const& of_x, placements<Mesh::axes> const& of_y, bool back) {
    const bool fetched = back && fetches_gradient<Mesh>(of_x, x, of_y, y, g);
    index_t most = 0;
    for (int r = 0; r < Mesh::devices; ++r) {
      const auto at = Mesh::coordinates(r);
      using plan = tessera::halo_plan<Mesh, 4, 2, 3>;
      const auto traffic = fetched ? plan(of_y, y, gradient_windows(g, x), at).received()
                           : back  ? plan(of_x, x, halo_windows(g, x), at).sent()
                                   : plan(of_x, x, halo_windows(g, x), at).received();
      most = std::max(most, traffic.elements);
    }
    return 4 * most;
  };
  return {{x, w, y},
          {4, 2, 4},
          {conv2d_op<1>::rules, a, b, c},
          {conv2d_input_gradient_op<1>::rules, c, b, a},
          {conv2d_weight_gradient_op<1>::rules, c, a, b},
          halo};
}

/// All layouts of a tensor whose first dimensions may be cut, along the axes that have more than one device; those that
/// are no partial sums first.
template <int Axes>
std::vector<placements<Axes>> all_layouts(mesh_sizes<Axes> const& mesh, int cut_dims) {
  std::vector<placements<Axes>> all(1);
  for (int x = 0; x < Axes; ++x) {
    if (mesh[x] == 1) continue;
    std::vector<placements<Axes>> longer = all;
    for (placements<Axes> layout : all) {
      layout[x] = tessera::partial_placement();
      longer.push_back(layout);
    }
    for (placements<Axes> const& layout : all)
      for (int d = 0; d < cut_dims; ++d)
        for (int order = 0; order <= layout.cuts(d); ++order) {
          placements<Axes> cut = layout;
          for (int y = 0; y < x; ++y)
            if (cut[y].is_shard(d) && cut[y].order >= order) ++cut[y].order;
          cut[x] = tessera::shard_placement(d, order);
          longer.push_back(cut);
        }
    all = longer;
  }
  std::stable_partition(all.begin(), all.end(), [](auto const& layout) { return layout.partial_axes() == 0; });
  return all;
}

/// Bytes that a device receives on a route, at the most.
template <int Axes, int Rank>
index_t bytes_of(mesh_sizes<Axes> const& mesh, shape<Rank> const& extents, tessera::route<Axes> const& route) {
  index_t elements = 0;
  for (auto const& s : route) elements += cost_of(mesh, tessera::mesh_links<Axes>{}, extents, 4, s).received;
  return elements * 4;
}

/// A way to do one of the products: layouts of the tensors by number, of gradients where it takes or makes these.
struct way {
  std::array<std::size_t, 3> layouts{};
  index_t halo = 0;  ///< bytes
  int repeats = 1;   ///< devices that do the same work
  std::size_t operator[](tensor_name which) const { return layouts[which]; }
};

/// A tensor is brought from one layout to another, or its halo is exchanged where both are the same.
struct move {
  char const* name;
  tensor_name which;
  std::size_t from;
  std::size_t to;
  bool halo = false;
};

struct plan {
  index_t bytes = impossible;
  std::vector<move> moves{};
};

/// The least bytes for each amount of work: the times that the products are done, all together.
using plans = std::map<int, plan>;

/// The plan of least work that takes no more bytes than that, or the one of fewest bytes if none does.
inline plans::value_type const& least_work(plans const& all, index_t bytes) {
  for (auto const& p : all)
    if (p.second.bytes <= bytes) return p;
  return *std::min_element(all.begin(), all.end(),
                           [](auto const& p, auto const& q) { return p.second.bytes < q.second.bytes; });
}

template <int Axes, int Rank>
class planner {
 public:
  planner(mesh_sizes<Axes> const& mesh, problem<Axes, Rank> const& what) : mesh_(mesh), extents_(what.extents) {
    for (const tensor_name t : {a, b, c}) {
      layouts_[t] = all_layouts(mesh, what.cut_dims[t]);
      for (auto const& from : layouts_[t])
        for (auto const& to : layouts_[t])
          bytes_[t].push_back(can_reach(from, to) ? bytes_of(mesh, extents_[t], find_route(mesh, from, to, Rank))
                                                  : impossible);
    }
    products_ = ways(what, what.product);
    gradients_a_ = ways(what, what.gradient_a);
    gradients_b_ = ways(what, what.gradient_b);
  }

  /// The number of a layout of a tensor along the axes that have more than one device.
  std::size_t number(tensor_name t, placements<Axes> const& layout) const {
    return static_cast<std::size_t>(std::find(layouts_[t].begin(), layouts_[t].end(), layout) - layouts_[t].begin());
  }
  tessera::route<Axes> route(move const& m) const {
    return find_route(mesh_, layouts_[m.which][m.from], layouts_[m.which][m.to], Rank);
  }

  plans forward(std::size_t from_a, std::size_t from_b, std::size_t to) const {
    plans found;
    for (way const& w : products_)
      keep(found, w.repeats, bytes(a, from_a, w[a]) + bytes(b, from_b, w[b]) + w.halo + bytes(c, w[c], to), [&] {
        return std::vector<move>{
            {"a", a, from_a, w[a]}, {"a", a, w[a], w[a], w.halo > 0}, {"b", b, from_b, w[b]}, {"c", c, w[c], to}};
      });
    return found;
  }

  /// With the gradients of both operands, from that of the result in the layout `from[c]`. The gradient of b reads the
  /// halo of a that forward has fetched, if both take a in the same layout.
  plans forward_and_backward(std::array<std::size_t, 3> const& from, std::array<std::size_t, 3> const& to) const {
    const auto of_a = two_copies(a, from[a]);
    const auto of_b = two_copies(b, from[b]);
    const auto of_dc = two_copies(c, from[c]);
    plans found;
    for (way const& p : products_)
      for (way const& da : gradients_a_)
        for (way const& db : gradients_b_) {
          copies const& all_a = of_a[p[a] * layouts_[a].size() + db[a]];
          copies const& all_b = of_b[p[b] * layouts_[b].size() + da[b]];
          copies const& all_dc = of_dc[da[c] * layouts_[c].size() + db[c]];
          const index_t again = db[a] == p[a] ? 0 : db.halo;
          keep(found, p.repeats + da.repeats + db.repeats,
               all_a.bytes + all_b.bytes + all_dc.bytes + p.halo + da.halo + again + bytes(c, p[c], to[c]) +
                   bytes(a, da[a], to[a]) + bytes(b, db[b], to[b]),
               [&] {
                 std::vector<move> moves;
                 const auto fetch = [&](char const* name, tensor_name t, copies const& all, std::size_t i,
                                        std::size_t j) {
                   moves.push_back({name, t, from[t], all.middle});
                   moves.push_back({name, t, all.middle, i});
                   if (j != i) moves.push_back({name, t, all.middle, j});
                 };
                 fetch("a", a, all_a, p[a], db[a]);
                 moves.push_back({"a", a, p[a], p[a], p.halo > 0});
                 moves.push_back({"a", a, db[a], db[a], again > 0});
                 fetch("b", b, all_b, p[b], da[b]);
                 fetch("dc", c, all_dc, da[c], db[c]);
                 moves.push_back({"c", c, p[c], to[c]});
                 moves.push_back({"da", a, da[a], da[a], da.halo > 0});
                 moves.push_back({"da", a, da[a], to[a]});
                 moves.push_back({"db", b, db[b], to[b]});
                 return moves;
               });
        }
    return found;
  }

 private:
  template <class Moves>
  static void keep(plans& found, int work, index_t bytes, Moves moves) {
    plan& best = found[work];
    if (bytes < best.bytes) best = {bytes, moves()};
  }
  index_t bytes(tensor_name t, std::size_t from, std::size_t to) const {
    return bytes_[t][from * layouts_[t].size() + to];
  }

  /// Copies of a tensor in two layouts: it is brought to a third one, and both are made from that.
  struct copies {
    index_t bytes = impossible;
    std::size_t middle = 0;
  };
  /// The cheapest, by the numbers of both layouts.
  std::vector<copies> two_copies(tensor_name t, std::size_t from) const {
    const std::size_t n = layouts_[t].size();
    std::vector<copies> least(n * n);
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t middle = (from + k) % n;  // the given layout first: of equal ones it takes the fewest steps
      const index_t before = bytes(t, from, middle);
      if (before >= impossible) continue;
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          const index_t sum = before + bytes(t, middle, i) + (j == i ? 0 : bytes(t, middle, j));
          if (sum < least[i * n + j].bytes) least[i * n + j] = {sum, middle};
        }
    }
    return least;
  }

  /// All ways to do an operation. The halo of a sum is fetched before the sum is made whole.
  std::vector<way> ways(problem<Axes, Rank> const& what, operation const& o) const {
    std::vector<way> all;
    for (std::size_t l = 0; l < layouts_[o.left].size(); ++l)
      for (std::size_t r = 0; r < layouts_[o.right].size(); ++r) {
        const std::array operands{layouts_[o.left][l], layouts_[o.right][r]};
        const auto result = tessera::detail::infer_result(o.rules, operands);
        if (result.fault != tessera::detail::rule_fault::none) continue;
        way w;
        w.layouts[o.left] = l;
        w.layouts[o.right] = r;
        w.layouts[o.made] = number(o.made, result.layout);
        w.halo = what.halo(layouts_[a][w[a]], layouts_[c][w[c]], o.made == a);
        for (int x = 0; x < Axes; ++x)
          if (operands[0][x].is_replicated() && operands[1][x].is_replicated()) w.repeats *= mesh_[x];
        all.push_back(w);
      }
    return all;
  }

  mesh_sizes<Axes> mesh_;
  std::array<shape<Rank>, 3> extents_;
  std::array<std::vector<placements<Axes>>, 3> layouts_;
  std::array<std::vector<index_t>, 3> bytes_;  // by layout before and after
  std::vector<way> products_;
  std::vector<way> gradients_a_;
  std::vector<way> gradients_b_;
};

}  // namespace product_plans
