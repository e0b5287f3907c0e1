#pragma once

#include <tessera/plan/mesh_costs.hpp>
#include <tessera/plan/search/link.hpp>

#include <cstdint>
#include <string_view>

namespace tessera {

/// Times of a search, in picoseconds: whole numbers, so that sums do not depend on their order. Each cost is rounded
/// once. What takes more than a week and a half, infinities included, takes that.
using search_time = std::int64_t;
constexpr search_time picoseconds(double seconds) {
  return seconds < 1e6 ? static_cast<search_time>(seconds * 1e12 + 0.5) : 1'000'000'000'000'000'000;
}

/// One way for a layer to run: how it takes its input and makes its output, as places in the lists of ways, and what
/// its passes take.
struct layer_way {
  std::int16_t taken = 0;
  std::int16_t made = 0;
  std::int16_t cut = 0;  ///< which of its cuts
  edge_code tie = 0;
  search_time time = 0;
};


/// What a search is for: a mesh of a machine's devices, elements of type T, and what is asked beyond.
///
/// `GradientPercent` is the share of gradient reductions that counts: 100 as if backward hid nothing, 0 as if it hid
/// all.
template <device_mesh Mesh, computing_machine Machine, class T, class Allowed, int GradientPercent>
struct search_problem {
  using mesh = Mesh;
  using machine_type = Machine;
  using element = T;
  static constexpr machine_description machine = description_of<Machine>;
  static constexpr mesh_costs<Mesh::axes> costs = costs_of<Mesh, Machine>;
  static constexpr index_t element_bytes = sizeof(T);
  static constexpr index_t unknown = 32;
  static constexpr double gradient_weight = GradientPercent / 100.0;
  static constexpr bool allows(std::string_view word) { return Allowed::allows(word); }

  template <auto Extents>
  static constexpr double bytes_of() {
    double bytes = static_cast<double>(element_bytes);
    for (int d = 0; d < Extents.rank; ++d) bytes *= static_cast<double>(Extents[d] == dynamic ? unknown : Extents[d]);
    return bytes;
  }
};

}  // namespace tessera
