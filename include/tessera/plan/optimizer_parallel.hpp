#pragma once

#include <tessera/core/mesh.hpp>

namespace tessera {

/// Several axes where a policy takes one: `optimizer_parallel<axis_list<dp, sp>, 2>`.
template <mesh_axis... Axes>
struct axis_list {};

namespace detail {
template <class Axis>
struct policy_axes {
  template <device_mesh Mesh>
  static constexpr axis_set set = Mesh::template set_of<Axis>;
};
template <class... Axes>
struct policy_axes<axis_list<Axes...>> {
  template <device_mesh Mesh>
  static constexpr axis_set set = Mesh::template set_of<Axes...>;
};

/// What a model without the policy has.
struct no_optimizer_parallel {
  static constexpr int level = 0;
  template <device_mesh Mesh>
  static constexpr axis_set axes = 0;
};
}  // namespace detail

/// Ranks that hold the same parameters, because an axis cuts the batch, divide among them what training keeps of these:
/// of each gradient bucket every rank along `Axis` owns a slice, and updates it alone (S. Rajbhandari, J. Rasley,
/// O. Ruwase and Y. He, "ZeRO", SC 2020; Y. Zhao et al., "PyTorch FSDP", VLDB 2023).
///
/// - Level 1: each rank keeps the optimizer's state of its slices. Gradients are all-reduced as without; after the
///   update the values of a bucket are gathered when forward comes to its first layer.
/// - Level 2: also gradients. They are reduce-scattered; the whole gradients of a bucket lie in memory that takes
/// turns.
/// - Level 3: also parameters. Those of a bucket are gathered before its layers run, forward and backward, one bucket
///   ahead, into memory that takes turns.
///
/// A bucket is one flat range, cut into floor/ceil parts without regard to where parameters begin. Parameters whose
/// gradients come out whole stay whole. Losses and updates are those without: bit for bit in level 1, up to the order
/// of sums in the others (`clip_norm` too sums in another order).
template <class Axis, int Level>
struct optimizer_parallel {
  static_assert(Level >= 1 && Level <= 3,
                "tessera: optimizer_parallel has the levels 1 (optimizer state), 2 (also gradients) and 3 (also "
                "parameters); name one of these");
  static constexpr int level = Level;
  template <device_mesh Mesh>
  static constexpr axis_set axes = detail::policy_axes<Axis>::template set<Mesh>;
};

}  // namespace tessera
