#pragma once

#include <tessera/core/layout.hpp>

namespace tessera {

/// What a tensor needs to know of the program around it: its mesh, where this rank sits, and who moves and computes.
///
/// `session` is the usual one. A context outlives the tensors that refer to it.
template <class C>
concept context = requires(C& c) {
  typename C::mesh;
  typename C::communicator;
  typename C::backend;
  /// The type that tensors name: itself, or a base (`session` is named by its `team`).
  typename C::context_type;
  requires device_mesh<typename C::mesh>;
  /// Coordinates of this rank in the mesh.
  { c.coordinates() } -> std::convertible_to<decltype(C::mesh::sizes)>;
  /// The communicator of the ranks that differ from this one only in the axes of the set.
  { c.group(axis_set{}) } -> std::same_as<typename C::communicator&>;
  /// The kernels.
  { c.kernels() } -> std::same_as<typename C::backend&>;
};

}  // namespace tessera
