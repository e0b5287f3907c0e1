#pragma once

#include <tessera/plan/priced_layers.hpp>
#include <tessera/plan/spell.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// What a layer of a bound model is called and how it is cut: a row for each of those of `price_layers`, in their
/// order.
struct layer_row {
  std::string path{};                ///< its place in the model, as parameters are named: `2.branch.0`
  std::string layer{};               ///< its type without split words; `layout`, `sum` and `output` for what has none
  std::vector<std::string> split{};  ///< by axis of the mesh: the split word of what it cuts, or nothing
  std::string input{};               ///< the layout in which the layer takes its input: `[dp,-]` (see `parse_layout`)
  std::string output{};              ///< that in which it leaves its output
  std::vector<int> keepers{};        ///< places of what it keeps among all that the model keeps
};

namespace detail {

/// A layer as it is written in a serial model, for its name.
template <class Layer>
struct unsplit_layer {
  using type = Layer;
};
template <class Layer>
requires requires {
  typename Layer::unsplit;
}
struct unsplit_layer<Layer> : unsplit_layer<typename Layer::unsplit> {
};

/// Writes the rows of a bound model.
template <device_mesh Mesh>
struct row_writer {
  named_mesh<Mesh::axes> mesh = named<Mesh>();
  std::vector<layer_row> out{};
  layer_path path{};
  int keepers = 0;
  int keeper_of_block = -1;  // of a `recompute`, whose first layer has not come yet

  template <int In, int Out>
  layer_row& add(std::string layer, placements<Mesh::axes> const& from, shape<In> const&,
                 placements<Mesh::axes> const& to, shape<Out> const&) {
    layer_row row{std::string(path.text()), std::move(layer), std::vector<std::string>(mesh.names.size()),
                  to_string(mesh, from, In), to_string(mesh, to, Out)};
    if (keeper_of_block >= 0) row.keepers.push_back(keeper_of_block);
    keeper_of_block = -1;
    out.push_back(std::move(row));
    return out.back();
  }
};

template <class Bound>
struct layer_rows_of;

template <class Layer, class Mesh, class Flow>
struct layer_rows_of<bound_layer<Layer, Mesh, Flow>> {
  using bound = bound_layer<Layer, Mesh, Flow>;
  static void append(row_writer<Mesh>& to) {
    auto& row = to.add(spell_type<typename unsplit_layer<Layer>::type>("").line(false), bound::resolved.operand[0], Flow::extents,
                       bound::resolved.output, bound::output_extents);
    for (int a = 0; a < Mesh::axes; ++a)
      if (const int cut = bound::rules.find(bound::resolved.letter[a]); cut >= 0)
        row.split[static_cast<std::size_t>(a)] = bound::rules.cuts[cut].word;
    row.keepers.push_back(to.keepers++);
  }
};
template <auto Target, class Mesh, class Flow>
struct layer_rows_of<bound_relayout<Target, Mesh, Flow>> {
  static void append(row_writer<Mesh>& to) { to.add("layout", Flow::layout, Flow::extents, Target, Flow::extents); }
};
template <class Chain, class Mesh, class Flow>
struct layer_rows_of<bound_chain<Chain, Mesh, Flow>> {
  using bound = bound_chain<Chain, Mesh, Flow>;
  static void append(row_writer<Mesh>& to) {
    const layer_path path = to.path;
    int place = 0;
    const auto one = [&]<int I>(std::integral_constant<int, I>) {
      using layer = typename bound::template at<I>;
      to.path = path;
      if (!layer::only_layout) to.path.add(place++);
      layer_rows_of<layer>::append(to);
    };
    [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, I>{}), ...); }
    (std::make_integer_sequence<int, bound::count>{});
    to.path = path;
  }
};
template <class Branch, class Shortcut, class Mesh, class Flow>
struct layer_rows_of<bound_residual<Branch, Shortcut, Mesh, Flow>> {
  using bound = bound_residual<Branch, Shortcut, Mesh, Flow>;
  static void append(row_writer<Mesh>& to) {
    const layer_path path = to.path;
    to.path.add("branch");
    layer_rows_of<typename bound::branch>::append(to);
    if constexpr (!bound::plain) {
      to.path = path;
      to.path.add("shortcut");
      layer_rows_of<typename bound::shortcut>::append(to);
    }
    to.path = path;
    to.add("sum", bound::joined, bound::output::extents, bound::joined, bound::output::extents);
  }
};
template <class Layer, class Mesh, class Flow>
struct layer_rows_of<bound_recompute<Layer, Mesh, Flow>> {
  static void append(row_writer<Mesh>& to) {
    to.keeper_of_block = to.keepers++;
    layer_rows_of<typename bound_recompute<Layer, Mesh, Flow>::inner>::append(to);
  }
};

}  // namespace detail

/// The rows of a model of any kind, that of its way to the loss included. Names are alike whichever compiler makes the
/// program.
template <class Model, device_mesh Mesh>
std::vector<layer_row> layer_rows() {
  using whole = plan<Model, Mesh>;
  detail::row_writer<Mesh> to;
  detail::layer_rows_of<typename whole::bound>::append(to);
  to.add("output", whole::output::layout, whole::output::extents, whole::loss_layout, whole::output::extents);
  return std::move(to.out);
}

}  // namespace tessera
