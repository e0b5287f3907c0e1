#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/mesh.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace tessera {

/// The place of this rank in a mesh, and a communicator for each set of mesh axes: its group holds the ranks whose
/// coordinates differ only along those axes, ordered as `Mesh::group_rank` says (row-major in mesh order).
template <device_mesh Mesh, communicator Comm>
class mesh_groups {
 public:
  /// Collective over `world`, which has one rank for each device of the mesh and is not kept. Communicators that have
  /// `label` (recording ones) get their set of axes.
  explicit mesh_groups(Comm const& world) : coordinates_(place(world)) {
    for (std::size_t set = 0; set < groups_.size(); ++set) {
      const auto axes = static_cast<axis_set>(set);
      if (axes != Mesh::cutting(axes)) continue;
      const auto others = static_cast<axis_set>(Mesh::all & ~axes);
      Comm& made = groups_[set].emplace(
          world.split(Mesh::group_rank(others, coordinates_), Mesh::group_rank(axes, coordinates_)));
      if constexpr (requires { made.label(axes); }) made.label(axes);
    }
  }

  /// This rank's coordinates, in mesh order.
  std::array<int, static_cast<std::size_t>(Mesh::axes)> const& coordinates() const { return coordinates_; }

  /// The communicator along the axes of `set`. Axes of one device make no difference; the empty set gives the group of
  /// this rank alone.
  Comm& group(axis_set set) { return *groups_[Mesh::cutting(set)]; }

 private:
  static auto place(Comm const& world) {
    if (world.size() != Mesh::devices) {
      const std::string devices = std::to_string(Mesh::devices);
      throw error("mesh needs " + devices + " devices, world has " + std::to_string(world.size()),
                  "one rank for each device of the mesh",
                  "start the program with " + devices + " ranks (mpirun -n " + devices +
                      ") or change the sizes of the mesh axes");
    }
    return Mesh::coordinates(world.rank());
  }

  std::array<int, static_cast<std::size_t>(Mesh::axes)> coordinates_;
  std::array<std::optional<Comm>, std::size_t{1} << Mesh::axes> groups_;
};

}  // namespace tessera
