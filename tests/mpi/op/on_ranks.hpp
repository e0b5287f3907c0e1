#pragma once

#include "support/worlds.hpp"

#include <cstring>
#include <type_traits>

/// One axis over all ranks of the run, however many they are.
namespace on_ranks {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct all : axis<Size> {};
template <int Size>
using all_ranks = mesh<all<Size>>;
using alone = worlds::serial_team<all_ranks<1>>;

/// Calls `f.operator()<N>(team)` with a team of the run's N ranks.
template <class F>
void run(F f) {
  const auto with = [&]<int Size>(std::integral_constant<int, Size>) {
    if (worlds::size() != Size) return;
    worlds::parallel_team<all_ranks<Size>> team{mpi_comm{}};
    f.template operator()<Size>(team);
  };
  with(std::integral_constant<int, 1>{});
  with(std::integral_constant<int, 2>{});
  with(std::integral_constant<int, 3>{});
  with(std::integral_constant<int, 4>{});
}

/// Whether two blocks hold the same bits.
template <class A, class B>
bool same_bits(A const& a, B const& b) {
  return a.extents() == b.extents() &&
         (a.size() == 0 ||
          std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(*a.data())) == 0);
}

}  // namespace on_ranks
