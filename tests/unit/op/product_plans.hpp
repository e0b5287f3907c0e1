#pragma once

#include <tessera/op/matmul.hpp>
#include <tessera/redistribute/cost.hpp>
#include <tessera/redistribute/route.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <vector>

/// All ways to compute a matrix product, with its gradients or without, from the layouts that are given to those that
/// are wanted: by the rules of `op::matmul`, and by routes before and after it.
namespace product_plans {

using tessera::index_t;
using tessera::mesh_sizes;
using tessera::placements;
using tessera::shape;

/// More than any plan takes, and small enough to be added a few times.
inline constexpr index_t impossible = std::numeric_limits<index_t>::max() / 16;

/// All layouts of a matrix along the axes that have more than one device, those that are no partial sums first.
template <int Axes>
std::vector<placements<Axes>> matrix_layouts(mesh_sizes<Axes> const& mesh) {
  std::vector<placements<Axes>> all(1);
  for (int a = 0; a < Axes; ++a) {
    if (mesh[a] == 1) continue;
    std::vector<placements<Axes>> longer = all;
    for (placements<Axes> layout : all) {
      layout[a] = tessera::partial_placement();
      longer.push_back(layout);
    }
    for (placements<Axes> const& layout : all)
      for (int d = 0; d < 2; ++d)
        for (int order = 0; order <= layout.cuts(d); ++order) {
          placements<Axes> cut = layout;
          for (int b = 0; b < a; ++b)
            if (cut[b].is_shard(d) && cut[b].order >= order) ++cut[b].order;
          cut[a] = tessera::shard_placement(d, order);
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

/// The matrices of a product and its gradients. A gradient has the extents of what it is the gradient of.
enum matrix : std::size_t { a, b, c };

/// A way to do one product: layouts by number.
struct way {
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t result = 0;
  int repeats = 1;  ///< devices that do the same work
};

/// A matrix is brought from one layout to another.
struct move {
  char const* name;
  matrix which;
  std::size_t from;
  std::size_t to;
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

template <int Axes>
class planner {
 public:
  /// Of an m x k matrix and a k x n one.
  planner(mesh_sizes<Axes> const& mesh, index_t m, index_t k, index_t n)
      : mesh_(mesh), extents_{{{m, k}, {k, n}, {m, n}}}, layouts_(matrix_layouts(mesh)) {
    for (const matrix which : {a, b, c})
      for (auto const& from : layouts_)
        for (auto const& to : layouts_)
          bytes_[which].push_back(can_reach(from, to) ? bytes_of(mesh, extents_[which], find_route(mesh, from, to, 2))
                                                      : impossible);
    products_ = ways<false, false>();
    gradients_a_ = ways<false, true>();
    gradients_b_ = ways<true, false>();
  }

  /// The number of a layout along the axes that have more than one device.
  std::size_t number(placements<Axes> const& layout) const {
    return static_cast<std::size_t>(std::find(layouts_.begin(), layouts_.end(), layout) - layouts_.begin());
  }
  tessera::route<Axes> route(move const& m) const { return find_route(mesh_, layouts_[m.from], layouts_[m.to], 2); }

  plans forward(std::size_t from_a, std::size_t from_b, std::size_t to) const {
    plans found;
    for (way const& w : products_)
      keep(found, w.repeats, bytes(a, from_a, w.left) + bytes(b, from_b, w.right) + bytes(c, w.result, to), [&] {
        return std::vector<move>{{"a", a, from_a, w.left}, {"b", b, from_b, w.right}, {"c", c, w.result, to}};
      });
    return found;
  }

  /// With the gradients of both operands, from that of the result in the layout `from[c]`.
  plans forward_and_backward(std::array<std::size_t, 3> const& from, std::array<std::size_t, 3> const& to) const {
    const auto of_a = two_copies(a, from[a]);
    const auto of_b = two_copies(b, from[b]);
    const auto of_dc = two_copies(c, from[c]);
    const std::size_t n = layouts_.size();
    plans found;
    for (way const& p : products_)
      for (way const& da : gradients_a_)
        for (way const& db : gradients_b_) {
          copies const& all_a = of_a[p.left * n + db.left];
          copies const& all_b = of_b[p.right * n + da.right];
          copies const& all_dc = of_dc[da.left * n + db.right];
          keep(found, p.repeats + da.repeats + db.repeats,
               all_a.bytes + all_b.bytes + all_dc.bytes + bytes(c, p.result, to[c]) + bytes(a, da.result, to[a]) +
                   bytes(b, db.result, to[b]),
               [&] {
                 std::vector<move> moves;
                 const auto fetch = [&](char const* name, matrix which, copies const& all, std::size_t i,
                                        std::size_t j) {
                   moves.push_back({name, which, from[which], all.middle});
                   moves.push_back({name, which, all.middle, i});
                   if (j != i) moves.push_back({name, which, all.middle, j});
                 };
                 fetch("a", a, all_a, p.left, db.left);
                 fetch("b", b, all_b, p.right, da.right);
                 fetch("dc", c, all_dc, da.left, db.right);
                 moves.push_back({"c", c, p.result, to[c]});
                 moves.push_back({"da", a, da.result, to[a]});
                 moves.push_back({"db", b, db.result, to[b]});
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
  index_t bytes(matrix which, std::size_t from, std::size_t to) const {
    return bytes_[which][from * layouts_.size() + to];
  }

  /// Copies of a matrix in two layouts: it is brought to a third one, and both are made from that.
  struct copies {
    index_t bytes = impossible;
    std::size_t middle = 0;
  };
  /// The cheapest, by the numbers of both layouts.
  std::vector<copies> two_copies(matrix which, std::size_t from) const {
    const std::size_t n = layouts_.size();
    std::vector<copies> least(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < n; ++k) {
          const std::size_t middle = (from + k) % n;  // the given layout first: of equal ones it takes the fewest steps
          const index_t sum =
              bytes(which, from, middle) + bytes(which, middle, i) + (j == i ? 0 : bytes(which, middle, j));
          if (sum < least[i * n + j].bytes) least[i * n + j] = {sum, middle};
        }
    return least;
  }

  template <bool TransposeLeft, bool TransposeRight>
  std::vector<way> ways() const {
    std::vector<way> all;
    for (std::size_t left = 0; left < layouts_.size(); ++left)
      for (std::size_t right = 0; right < layouts_.size(); ++right) {
        const auto result =
            tessera::detail::infer_result(tessera::detail::matmul_op<TransposeLeft, TransposeRight>::rules,
                                          std::array{layouts_[left], layouts_[right]});
        if (result.fault != tessera::detail::rule_fault::none) continue;
        way w{left, right, number(result.layout), 1};
        for (int x = 0; x < Axes; ++x)
          if (layouts_[left][x].is_replicated() && layouts_[right][x].is_replicated()) w.repeats *= mesh_[x];
        all.push_back(w);
      }
    return all;
  }

  mesh_sizes<Axes> mesh_;
  std::array<shape<2>, 3> extents_;
  std::vector<placements<Axes>> layouts_;
  std::array<std::vector<index_t>, 3> bytes_;  // by layout before and after
  std::vector<way> products_;
  std::vector<way> gradients_a_;
  std::vector<way> gradients_b_;
};

}  // namespace product_plans
