#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/parameter.hpp>
#include <tessera/layer/resolve.hpp>

#include <string_view>
#include <type_traits>
#include <utility>

namespace tessera {

/// What kernels of a layer compute: its output; in backward the gradients of its parameters, or that of its input,
/// which is left out where nobody wants it.
enum class layer_pass : std::uint8_t { forward, parameters, input };

/// The extents of the largest block that a device holds of a tensor, that of the device at coordinates 0; those that
/// only run time knows count as `unknown`.
template <int Axes, int Rank>
constexpr shape<Rank> largest_block(mesh_sizes<Axes> const& mesh, placements<Axes> const& layout, shape<Rank> extents,
                                    index_t unknown) {
  // (Without calls, which constant evaluation would spend most of its time in.)
  index_t* const extent = extents.extents.data();
  for (int d = 0; d < Rank; ++d)
    if (extent[d] == dynamic) extent[d] = unknown;
  // The first of the parts of a first part is the first of all parts together, rounded up: the order does not matter.
  for (int a = 0; a < Axes; ++a)
    if (placement const& p = layout.axis[a]; p.kind == placement_kind::shard)
      extent[p.dim] = (extent[p.dim] + mesh.along[a] - 1) / mesh.along[a];
  return extents;
}

/// The elements of that block.
template <int Axes, int Rank>
constexpr double largest_size(mesh_sizes<Axes> const& mesh, placements<Axes> const& layout, shape<Rank> const& extents,
                              index_t unknown) {
  const shape<Rank> block = largest_block(mesh, layout, extents, unknown);
  index_t const* const extent = block.extents.data();
  index_t size = 1;
  for (int d = 0; d < Rank; ++d) size *= extent[d];
  return static_cast<double>(size);
}

namespace detail {

/// What the rules of a layer say of its products, the same under all splits.
template <class Layer, auto Extents>
struct product_rules {
  static constexpr index_rules rules = Layer::template rules<Extents>();
  static constexpr auto output = Layer::template output<Extents>();
  static constexpr bool looks_up = requires { typename Layer::input_element; };
  /// The dimensions of the result that the input has too and this operand, a weight, has not: each of their positions
  /// multiplies with the weight.
  template <int Operand>
  static constexpr unsigned positions = [] {
    unsigned set = 0;
    for (int d = 0; d < output.rank; ++d) {
      const char letter = rules.result()[static_cast<std::size_t>(d)];
      if (dim_of(rules.operand(0), letter) >= 0 && dim_of(rules.operand(Operand), letter) < 0) set |= 1u << d;
    }
    return set;
  }();
};

/// The kernels of a layer that does not list its own, by its rules. Weights of two dimensions or more are matrices; one
/// kernel multiplies with all of them, and backward has two products as large, one for their gradients and one for that
/// of the input. Layers without such weights go through memory: backward reads what forward left, as large as the
/// result, beside its gradient.
template <class Layer, auto Extents, class Mesh, class Add, class... P>
constexpr void kernels_by_rules(resolved_layer<Mesh::axes> const& r, index_t unknown, Add& add,
                                parameter_list<P...> const*) {
  using known = product_rules<Layer, Extents>;
  const auto result = largest_block(Mesh::value, r.output, known::output, unknown);
  const double in = largest_size(Mesh::value, r.operand[0], Extents, unknown);
  const double out = largest_size(Mesh::value, r.output, known::output, unknown);
  double flops = 0;
  double weights = 0;
  [[maybe_unused]] const auto one = [&]<int Operand, int Rank>(std::integral_constant<int, Operand>,
                                                               shape<Rank> const& extents) {
    if constexpr (Rank >= 2) {
      const double size = largest_size(Mesh::value, r.operand[Operand], extents, unknown);
      double products = 2 * size;
      constexpr unsigned positions = known::template positions<Operand>;
      for (int d = 0; d < known::output.rank; ++d)
        if ((positions >> d & 1u) != 0) products *= static_cast<double>(result.extents.data()[d]);
      flops += products;
      weights += size;
    }
  };
  [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, I + 1>{}, P::extents), ...); }
  (std::make_integer_sequence<int, static_cast<int>(sizeof...(P))>{});
  if constexpr (known::looks_up) {
    add(layer_pass::forward, 0.0, in + 2 * out);
    add(layer_pass::parameters, 0.0, in + 2 * out + weights);
  } else if (weights > 0) {
    for (const layer_pass pass : {layer_pass::forward, layer_pass::parameters, layer_pass::input})
      add(pass, flops, in + out + weights);
  } else {
    add(layer_pass::forward, 0.0, in + out);
    if constexpr ((false || ... || P::trainable)) add(layer_pass::parameters, 0.0, in + out);
    add(layer_pass::input, 0.0, in + 2 * out);
  }
}

/// The kind of a layer's kernels, where it does not say so of one of them.
template <class Layer>
inline constexpr kernel_kind kind_of_kernels = [] {
  if constexpr (requires { Layer::kernels; })
    return Layer::kernels;
  else
    return kernel_kind::plain;
}();

/// What layers call with each kernel.
template <class Add>
struct kernel_list {
  Add& add;
  kernel_kind usual;
  constexpr void operator()(layer_pass pass, double flops, double elements) const { add(pass, flops, elements, usual); }
  constexpr void operator()(layer_pass pass, double flops, double elements, kernel_kind kind) const {
    add(pass, flops, elements, kind);
  }
};

/// Calls `add(pass, flops, elements, kind)` for each kernel that a layer runs on the device that has most to do: the
/// floating-point operations of its matrix products, and the elements that go through memory. Extents that only run
/// time knows count as `unknown`.
template <class Layer, auto Extents, class Mesh, class Add>
constexpr void each_kernel(resolved_layer<Mesh::axes> const& r, index_t unknown, Add add) {
  kernel_list<Add> list{add, kind_of_kernels<Layer>};
  if constexpr (requires { Layer::template work<Extents, Mesh>(r, unknown, list); })
    Layer::template work<Extents, Mesh>(r, unknown, list);
  else
    kernels_by_rules<Layer, Extents, Mesh>(r, unknown, list, static_cast<typename Layer::parameters const*>(nullptr));
}

}  // namespace detail

}  // namespace tessera
