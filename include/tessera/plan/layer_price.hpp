#pragma once

#include <tessera/layer/bind.hpp>
#include <tessera/layer/kernels.hpp>
#include <tessera/plan/mesh_costs.hpp>

namespace tessera {

/// What a layer in one layout costs a step, in seconds, and what the device with the largest blocks holds for it.
struct layer_price {
  double forward =
      0;  ///< its kernels and the collectives that they make themselves; without routes of input and output
  double backward = 0;  ///< the same
  /// All-reduces of the gradients of its parameters, as if nothing hid them: the bytes only, since the gradients of a
  /// bucket share one latency.
  double gradient = 0;
  index_t parameter_bytes = 0;  ///< values of parameters and states
  index_t gradient_bytes = 0;   ///< of trainable ones
};

namespace detail {

/// The elements of a halo on a device with neighbours on all sides, about: what its windows read and others hold.
template <device_mesh Mesh>
constexpr double halo_elements(collective_call<Mesh::axes> const& call, shape<max_rank> const& extents) {
  shape<4> local{{extents[0], extents[1], 1, 1}};
  local = largest_block(Mesh::value, call.from, local, 1);
  double all = 1;
  double own = 1;
  for (const int d : {2, 3}) {
    halo_window const& window = call.windows[d - 2];
    const int parts = Mesh::group_size(call.from.shard_axes(d));
    const int inner = parts > 2 ? 1 : 0;
    const interval held = cut({0, extents[d]}, parts, inner);
    const interval read = window.read(cut({0, window.output_extent(extents[d])}, parts, inner), extents[d]);
    all *= static_cast<double>(read.size);
    own *= static_cast<double>(intersect(read, held).size);
  }
  return static_cast<double>(local[0] * local[1]) * (all - own);
}

/// Seconds of a collective that a layer makes, as the device that moves most sees it.
template <device_mesh Mesh>
constexpr double seconds_of_call(mesh_costs<Mesh::axes> const& costs, collective_call<Mesh::axes> const& call,
                                 index_t element_bytes, index_t unknown) {
  shape<max_rank> extents;
  index_t* const extent = extents.extents.data();
  for (int d = 0; d < max_rank; ++d)
    extent[d] = d >= call.rank ? 1 : call.extents[d] == dynamic ? unknown : call.extents[d];
  const double element = static_cast<double>(call.factor * element_bytes);
  const auto bytes = [&](placements<Mesh::axes> const& layout) {
    return element * largest_size(Mesh::value, layout, extents, unknown);
  };
  const link_cost& gather = costs.gather[call.group];
  const link_cost& message = costs.message[call.group];
  switch (call.kind) {
    case collective::all_gather: return seconds_of(gather, bytes(call.to));
    case collective::reduce_scatter: return seconds_of(gather, bytes(call.from));
    case collective::all_to_all:
      return seconds_of(costs.exchange[call.group],
                        static_cast<double>(call.template elements<Mesh>(unknown, {}) * element_bytes));
    case collective::halo: {
      // From both sides, height and width one after the other; backward the same way back, or as much.
      int messages = 0;
      for (const int d : {2, 3})
        if (const int parts = Mesh::group_size(call.from.shard_axes(d)); parts > 1) messages += parts > 2 ? 2 : 1;
      return messages * message.latency + message.seconds_per_byte * element * halo_elements<Mesh>(call, extents);
    }
    case collective::ring: {
      // The last device gets the blocks of all others, be they causal or not. Backward the gradients of as many blocks
      // follow, its own among them; where blocks are causal nobody sends it that one, and none that it is first to see.
      const int parts = Mesh::group_size(call.group);
      const double whole = static_cast<double>(extents[1]);
      const double block = static_cast<double>(extents[1] / parts);
      const bool returns = call.when == phase::backward;
      const int messages = parts - 1 + (returns ? parts - 1 - call.causal : 0);
      const double positions = whole - block + (returns ? whole - (1 + call.causal) * block : 0);
      extents[1] = parts;  // one position on each device
      return messages * message.latency + message.seconds_per_byte * positions * bytes(call.from);
    }
    default: return 2 * seconds_of(gather, bytes(call.from));  // all_reduce
  }
}

/// Those of a pass.
template <device_mesh Mesh>
constexpr double seconds_of_calls(mesh_costs<Mesh::axes> const& costs, call_list<Mesh::axes> const& calls,
                                  index_t element_bytes, index_t unknown) {
  double sum = 0;
  for (auto const& call : calls) sum += seconds_of_call<Mesh>(costs, call, element_bytes, unknown);
  return sum;
}

/// The collectives that a layer makes itself in a pass. Most make none: see `makes_calls`.
template <class Layer, auto Extents, class Mesh>
constexpr call_list<Mesh::axes> own_calls([[maybe_unused]] phase when,
                                          [[maybe_unused]] resolved_layer<Mesh::axes> const& r,
                                          [[maybe_unused]] bool wants_input) {
  call_list<Mesh::axes> list;
  if constexpr (requires { Layer::template calls<Extents, Mesh>(when, r, list); })
    Layer::template calls<Extents, Mesh>(when, r, list);
  if constexpr (requires { Layer::template input_gradient_calls<Extents, Mesh>(r, list); })
    if (when == phase::backward && wants_input) Layer::template input_gradient_calls<Extents, Mesh>(r, list);
  return list;
}
template <class Layer, auto Extents, class Mesh>
constexpr bool makes_calls = requires(resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
  Layer::template calls<Extents, Mesh>(phase::forward, r, list);
}
|| requires(resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
  Layer::template input_gradient_calls<Extents, Mesh>(r, list);
};

template <device_mesh Mesh, class... P>
constexpr void price_parameters(layer_price& price, mesh_costs<Mesh::axes> const& costs,
                                resolved_layer<Mesh::axes> const& r, index_t element_bytes,
                                parameter_list<P...> const*) {
  int operand = 0;
  [[maybe_unused]] const auto one = [&]<int Rank>(shape<Rank> const& extents, bool trainable) {
    ++operand;
    const index_t bytes = largest_block(Mesh::value, r.operand[operand], extents, 1).size() * element_bytes;
    price.parameter_bytes += bytes;
    if (!trainable) return;
    price.gradient_bytes += bytes;
    price.gradient +=
        2 * costs.bucket[r.gradient[operand].partial_axes()].seconds_per_byte * static_cast<double>(bytes);
  };
  (one(P::extents, P::trainable), ...);
}

}  // namespace detail

/// The price of a layer with an input of `Extents` when it is resolved to a layout, for elements of `element_bytes`;
/// extents that only run time knows count as `unknown`. Kernels are those of `work`, or follow from the rules (see
/// layer/kernels.hpp); each takes the longer of the times of its operations and of its bytes, and a launch.
template <class Layer, auto Extents, device_mesh Mesh>
constexpr layer_price price_of(machine_description const& machine, mesh_costs<Mesh::axes> const& costs,
                               resolved_layer<Mesh::axes> const& resolved, bool wants_input, index_t element_bytes,
                               index_t unknown) {
  constexpr auto* parameters = static_cast<typename Layer::parameters const*>(nullptr);
  layer_price price;
  detail::price_parameters<Mesh>(price, costs, resolved, element_bytes, parameters);
  detail::each_kernel<Layer, Extents, Mesh>(
      resolved, unknown, [&](layer_pass pass, double flops, double elements, kernel_kind kind) {
        if (pass == layer_pass::input && !wants_input) return;
        (pass == layer_pass::forward ? price.forward : price.backward) +=
            machine.seconds(flops, elements * static_cast<double>(element_bytes), element_bytes, kind);
      });
  if constexpr (detail::makes_calls<Layer, Extents, Mesh>) {
    if constexpr (requires { Layer::calls_when_cut; })
      if (resolved.axes_cutting(Layer::calls_when_cut) == 0) return price;
    const auto seconds_in = [&](phase when) {
      return detail::seconds_of_calls<Mesh>(costs, detail::own_calls<Layer, Extents, Mesh>(when, resolved, wants_input),
                                            element_bytes, unknown);
    };
    price.forward += seconds_in(phase::forward);
    if (wants_input || detail::any_trainable(parameters)) price.backward += seconds_in(phase::backward);
  }
  return price;
}

}  // namespace tessera
