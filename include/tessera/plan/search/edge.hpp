#pragma once

#include <tessera/core/layout.hpp>

#include <cstdint>
#include <vector>

namespace tessera {

/// What a value of a model does along each mesh axis, forward and backward, in one number: a byte an axis. Between two
/// layers it says how the value is laid out and along which of the axes that replicate it its gradient comes back as a
/// partial sum; a layer's input is described alike. (The gradient along other axes follows: cut where the value is cut,
/// whole where the value is partial.)
using edge_code = std::uint64_t;

namespace edge {

inline constexpr unsigned whole = 0;            ///< replicated, the gradient too
inline constexpr unsigned partial = 1;          ///< a partial sum, its gradient replicated
inline constexpr unsigned partial_gradient = 2; ///< replicated, its gradient a partial sum
/// Cut along `dim`, after `order` other axes.
constexpr unsigned cut(int dim, int order) { return static_cast<unsigned>(8 + 8 * dim + order); }

constexpr unsigned at(edge_code code, int axis) { return static_cast<unsigned>(code >> (8 * axis) & 0xff); }
constexpr edge_code with(edge_code code, int axis, unsigned what) {
  return (code & ~(edge_code{0xff} << (8 * axis))) | edge_code{what} << (8 * axis);
}

}  // namespace edge

/// The code of a value in `layout` whose gradient is partial along the axes of `partial_gradients`, which replicate it.
template <int Axes>
constexpr edge_code edge_of(placements<Axes> const& layout, axis_set partial_gradients = 0) {
  edge_code code = 0;
  for (int a = 0; a < Axes; ++a) {
    placement const& p = layout[a];
    const unsigned what = p.is_shard()                   ? edge::cut(p.dim, p.order)
                          : p.is_partial()               ? edge::partial
                          : (partial_gradients >> a & 1) ? edge::partial_gradient
                                                         : edge::whole;
    code |= edge_code{what} << (8 * a);
  }
  return code;
}

/// The layout of the value.
template <int Axes>
constexpr placements<Axes> layout_of_edge(edge_code code) {
  placements<Axes> layout;
  for (int a = 0; a < Axes; ++a) {
    const unsigned what = edge::at(code, a);
    if (what == edge::partial) layout[a] = partial_placement();
    if (what >= 8) layout[a] = shard_placement(static_cast<int>(what / 8) - 1, static_cast<int>(what % 8));
  }
  return layout;
}
/// The axes along which a replicated value's gradient is partial.
template <int Axes>
constexpr axis_set partial_gradients_of(edge_code code) {
  unsigned set = 0;
  for (int a = 0; a < Axes; ++a)
    if (edge::at(code, a) == edge::partial_gradient) set |= 1u << a;
  return static_cast<axis_set>(set);
}
/// The layout of the gradient as whoever takes the value makes it.
template <int Axes>
constexpr placements<Axes> gradient_of_edge(edge_code code) {
  placements<Axes> layout = dual(layout_of_edge<Axes>(code));
  for (int a = 0; a < Axes; ++a)
    if (edge::at(code, a) == edge::partial_gradient) layout[a] = partial_placement();
  return layout;
}
/// The code with gradients whole: the layout alone.
template <int Axes>
constexpr edge_code value_of_edge(edge_code code) {
  for (int a = 0; a < Axes; ++a)
    if (edge::at(code, a) == edge::partial_gradient) code = edge::with(code, a, edge::whole);
  return code;
}

/// Whether a value that is made so keeps its layout when it is taken so; a partial one becomes replicated.
template <int Axes>
constexpr bool keeps_layout(edge_code made, edge_code taken) {
  for (int a = 0; a < Axes; ++a) {
    const unsigned before = edge::at(made, a);
    const unsigned after = edge::at(taken, a);
    if (before >= 8 ? after != before : after >= 8) return false;
  }
  return true;
}

namespace detail {

/// Writes all codes from `axis` on; returns the end.
template <int Axes>
constexpr edge_code* write_edges(edge_code* at, edge_code code, int axis, mesh_sizes<Axes> const& mesh, int rank,
                                 bool gradients, bool partials) {
  if (axis == Axes) {
    *at = code;
    return at + 1;
  }
  at = write_edges(at, code, axis + 1, mesh, rank, gradients, partials);
  if (mesh[axis] == 1) return at;
  if (gradients)
    at = write_edges(at, edge::with(code, axis, edge::partial_gradient), axis + 1, mesh, rank, gradients, partials);
  if (partials) at = write_edges(at, edge::with(code, axis, edge::partial), axis + 1, mesh, rank, gradients, partials);
  for (int d = 0; d < rank; ++d) {
    const auto cuts_too = [&](int b) { return static_cast<int>(edge::at(code, b) / 8) == d + 1; };
    int cuts = 0;
    for (int b = 0; b < axis; ++b) cuts += cuts_too(b);
    for (int order = 0; order <= cuts; ++order) {
      edge_code cut = edge::with(code, axis, edge::cut(d, order));
      for (int b = 0; b < axis; ++b)
        if (cuts_too(b) && static_cast<int>(edge::at(code, b) % 8) >= order)
          cut = edge::with(cut, b, edge::at(cut, b) + 1);
      at = write_edges(at, cut, axis + 1, mesh, rank, gradients, partials);
    }
  }
  return at;
}

}  // namespace detail

/// How many codes `all_edges` has: of n axes, those that cut come in some order, which is divided among the dimensions.
template <int Axes>
constexpr std::size_t count_of_edges(mesh_sizes<Axes> const& mesh, int rank, bool gradients, bool partials) {
  std::size_t ways[static_cast<std::size_t>(Axes) + 1] = {1};  // by the number of axes that cut
  for (int a = 0; a < Axes; ++a) {
    if (mesh[a] == 1) continue;
    for (int cuts = Axes; cuts >= 0; --cuts) {
      ways[cuts] *= 1 + static_cast<std::size_t>(gradients) + static_cast<std::size_t>(partials);
      if (cuts > 0) ways[cuts] += ways[cuts - 1] * static_cast<std::size_t>(rank + cuts - 1);
    }
  }
  std::size_t all = 0;
  for (const std::size_t n : ways) all += n;
  return all;
}

/// All codes of a value of so many dimensions: each axis cuts a dimension or replicates, with a whole or, with
/// `gradients`, a partial gradient, and, with `partials`, makes it a partial sum. Axes of one device replicate.
template <int Axes>
constexpr std::vector<edge_code> all_edges(mesh_sizes<Axes> const& mesh, int rank, bool gradients, bool partials) {
  std::vector<edge_code> all(count_of_edges(mesh, rank, gradients, partials));
  detail::write_edges(all.data(), 0, 0, mesh, rank, gradients, partials);
  return all;
}

/// A list of codes that knows the place of each.
///
/// (Plain arrays: the classes of the standard library take most of the time of a constant evaluation.)
struct edge_list {
  edge_code const* first = nullptr;
  std::int16_t const* places = nullptr;
  int count = 0;
  int axes = 0;
  int base = 0;  ///< digits a code may have in `places`

  constexpr int size() const { return count; }
  constexpr edge_code operator[](int i) const { return first[i]; }
  constexpr edge_code const* begin() const { return first; }
  constexpr edge_code const* end() const { return first + count; }
  /// The place of a code that is in the list.
  constexpr int place(edge_code code) const { return places[digits(code, axes, base)]; }

  /// A number of its own for each code whose digits are below `base`.
  static constexpr int digits(edge_code code, int axes, int base) {
    int number = 0;
    for (int a = 0; a < axes; ++a) {
      const int what = static_cast<int>(edge::at(code, a));
      // Orders are below the number of axes.
      number = number * base + (what < 8 ? what : 3 + (what / 8 - 1) * axes + what % 8);
    }
    return number;
  }
};

namespace detail {

template <auto Sizes, int Rank, bool Gradients, bool Partials>
struct stored_edges {
  static constexpr int axes = static_cast<int>(sizeof(Sizes.along) / sizeof(int));
  static constexpr int base = 3 + Rank * axes;
  static constexpr std::size_t count = count_of_edges(Sizes, Rank, Gradients, Partials);
  struct code_list {
    edge_code at[count] = {};
  };
  static constexpr code_list codes = [] {
    code_list out;
    write_edges(out.at, 0, 0, Sizes, Rank, Gradients, Partials);
    return out;
  }();
  static constexpr std::size_t numbers = [] {
    std::size_t n = 1;
    for (int a = 0; a < axes; ++a) n *= static_cast<std::size_t>(base);
    return n;
  }();
  struct place_list {
    std::int16_t at[numbers] = {};
  };
  static constexpr place_list places = [] {
    place_list out;
    for (std::size_t i = 0; i < count; ++i)
      out.at[edge_list::digits(codes.at[i], axes, base)] = static_cast<std::int16_t>(i);
    return out;
  }();
};

template <class Stored>
inline constexpr edge_list list_of_edges{Stored::codes.at, Stored::places.at, static_cast<int>(Stored::count),
                                         Stored::axes, Stored::base};

}  // namespace detail

/// The ways in which a value of so many dimensions can be taken on a mesh, those in which one can be made, and the
/// latter without their gradients.
template <auto Sizes, int Rank>
inline constexpr edge_list ways_to_take = detail::list_of_edges<detail::stored_edges<Sizes, Rank, true, false>>;
template <auto Sizes, int Rank>
inline constexpr edge_list ways_to_make = detail::list_of_edges<detail::stored_edges<Sizes, Rank, true, true>>;
template <auto Sizes, int Rank>
inline constexpr edge_list values_to_make = detail::list_of_edges<detail::stored_edges<Sizes, Rank, false, true>>;

}  // namespace tessera
