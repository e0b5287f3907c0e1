#pragma once

#include <tessera/core/placement.hpp>

#include <type_traits>
#include <utility>

namespace tessera {

/// Dimension `Dim` is cut by these axes, the first axis first: `shard<0, dp, tp>` cuts by dp, then each part by tp.
template <int Dim, mesh_axis... Axes>
struct shard {
  static_assert(Dim >= 0 && Dim < max_rank, "tessera: shard names a dimension from 0 to 5");
  static_assert(sizeof...(Axes) > 0, "tessera: shard names at least one mesh axis; leave it out to replicate");
};

/// The true value is the reduction (sum unless said otherwise) of what the ranks along the axis hold. One word an axis:
/// a sum over two is `layout<partial<x>, partial<y>>`.
template <mesh_axis Axis, reduction Op = reduction::sum>
struct partial {};

/// The layout of a tensor over a mesh: what each axis does to it. An axis that is not named is replicated.
///
/// Axes that cut one dimension in separate words, as in `layout<shard<0, tp>, shard<0, dp>>`, cut it in mesh order;
/// `shard<0, tp, dp>` says another order. Otherwise spelling does not matter: on a mesh each layout has one
/// canonical type (`canonical<Mesh, Layout>`), which is the one that tensors carry.
template <class... Placements>
struct layout {};

/// Cut by rows, by columns, or not at all.
template <mesh_axis Axis>
using row = shard<0, Axis>;
template <mesh_axis Axis>
using column = shard<1, Axis>;
using replicated = layout<>;

namespace detail {

template <class X>
struct as_layout;
template <class... P>
struct as_layout<layout<P...>> {
  using type = layout<P...>;
};
template <int Dim, class... Axes>
struct as_layout<shard<Dim, Axes...>> {
  using type = layout<shard<Dim, Axes...>>;
};
template <class Axis, reduction Op>
struct as_layout<partial<Axis, Op>> {
  using type = layout<partial<Axis, Op>>;
};

/// Writes one word of a layout into the value; false where an axis was named before.
template <class Mesh, int Dim, class... Axes>
constexpr bool place(placements<Mesh::axes>& value, bool* named, std::type_identity<shard<Dim, Axes...>>) {
  bool fresh = true;
  // Within one word the order is as written; words apart are merged in mesh order by a common base.
  int next = sizeof...(Axes) == 1 ? 0 : 16;
  const auto one = [&](int a) {
    fresh = fresh && !named[a];
    named[a] = true;
    value[a] = shard_placement(Dim, next++);
  };
  (one(Mesh::template index_of<Axes>), ...);
  return fresh;
}
template <class Mesh, class Axis, reduction Op>
constexpr bool place(placements<Mesh::axes>& value, bool* named, std::type_identity<partial<Axis, Op>>) {
  constexpr int a = Mesh::template index_of<Axis>;
  const bool fresh = !named[a];
  named[a] = true;
  value[a] = partial_placement(Op);
  return fresh;
}

template <class Mesh, class Layout>
struct parse_layout;
template <class Mesh, class... P>
struct parse_layout<Mesh, layout<P...>> {
  struct result {
    placements<Mesh::axes> value;
    bool distinct;
  };
  static constexpr result parsed = [] {
    result r{{}, true};
    bool named[8] = {};
    (void)named;
    ((r.distinct = place<Mesh>(r.value, named, std::type_identity<P>{}) && r.distinct), ...);
    r.value = r.value.normalized();
    return r;
  }();
  static_assert(parsed.distinct,
                "tessera: this layout uses a mesh axis twice; an axis either cuts one dimension or is partial, once");
};

template <class Layout, class Word>
struct append_word;
template <class... P, class Word>
struct append_word<layout<P...>, Word> {
  using type = layout<P..., Word>;
};

template <class Mesh, placements<Mesh::axes> Value, int Dim, int... Order>
auto cut_word(std::integer_sequence<int, Order...>)
    -> shard<Dim, typename Mesh::template axis_at<Value.axis_cutting(Dim, Order)>...>;

template <class Mesh, placements<Mesh::axes> Value, class Layout, int Dim>
constexpr auto spell_cuts() {
  if constexpr (Dim > Value.last_cut_dim()) {
    return std::type_identity<Layout>{};
  } else if constexpr (Value.cuts(Dim) == 0) {
    return spell_cuts<Mesh, Value, Layout, Dim + 1>();
  } else {
    using word = decltype(cut_word<Mesh, Value, Dim>(std::make_integer_sequence<int, Value.cuts(Dim)>{}));
    return spell_cuts<Mesh, Value, typename append_word<Layout, word>::type, Dim + 1>();
  }
}

template <class Mesh, placements<Mesh::axes> Value, class Layout, int Axis>
constexpr auto spell_partials() {
  if constexpr (Axis == Mesh::axes) {
    return std::type_identity<Layout>{};
  } else if constexpr (Value[Axis].is_partial()) {
    using word = partial<typename Mesh::template axis_at<Axis>, Value[Axis].op>;
    return spell_partials<Mesh, Value, typename append_word<Layout, word>::type, Axis + 1>();
  } else {
    return spell_partials<Mesh, Value, Layout, Axis + 1>();
  }
}

template <class Mesh, placements<Mesh::axes> Value>
struct spell_layout {
  using cuts = typename decltype(spell_cuts<Mesh, Value, layout<>, 0>())::type;
  using type = typename decltype(spell_partials<Mesh, Value, cuts, 0>())::type;
};

}  // namespace detail

/// A layout word (`shard`, `partial`) or layout as `layout<...>`.
template <class X>
using as_layout = typename detail::as_layout<X>::type;

/// Satisfied by `layout<...>`, `shard<...>` and `partial<...>`.
template <class X>
concept layout_word = requires {
  typename detail::as_layout<X>::type;
};

/// A layout as a value on a mesh.
///
/// Does not compile where the layout names an axis that the mesh lacks, or an axis twice.
template <device_mesh Mesh, layout_word Layout>
inline constexpr placements<Mesh::axes> placements_of = detail::parse_layout<Mesh, as_layout<Layout>>::parsed.value;

/// The canonical layout type of a value: cuts by dimension, then partials in mesh order.
template <device_mesh Mesh, auto Value>
using layout_of = typename detail::spell_layout<Mesh, Value>::type;

/// The one type that all spellings of a layout have on a mesh.
template <device_mesh Mesh, layout_word Layout>
using canonical = layout_of<Mesh, placements_of<Mesh, Layout>>;

/// The layout of a value's gradient where every rank did all the work: cut alike; a partial value's is replicated.
template <int Axes>
constexpr placements<Axes> dual(placements<Axes> const& value) {
  placements<Axes> gradient = value;
  for (int a = 0; a < Axes; ++a)
    if (value[a].is_partial()) gradient[a] = replicated_placement();
  return gradient;
}

}  // namespace tessera
