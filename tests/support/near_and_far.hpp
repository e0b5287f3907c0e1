#pragma once

#ifdef TESSERA_TESTS_ON_ASCEND
#include "ascend/devices.hpp"
#else
#include "support/far.hpp"
#endif
#include "support/worlds.hpp"

#include <tessera/backend/transfer.hpp>
#include <tessera/core/sharded.hpp>
#include <tessera/redistribute/to.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#ifndef TESSERA_TESTS_ON_ASCEND
/// A session's communicator, which the backend is there before.
template <>
struct tessera::communicator_for<worlds::far> {
  using type = worlds::far_comm<tessera::mpi_comm>;
  static type world(worlds::far& kernels, tessera::session_options const& options) {
    kernels.synchronize();
    return type(tessera::mpi_comm(MPI_COMM_WORLD, options.mpi));
  }
};

#endif

/// Programs on a backend whose memory the host cannot reach, against the same on Eigen.
namespace worlds {

#ifdef TESSERA_TESTS_ON_ASCEND
template <class Mesh>
using far_team = job::devices<Mesh>;
inline auto far_world() { return job::team_world(); }
/// How far values may be apart, relative to one and to them.
inline constexpr double far_allows = 1e-5;
#else
template <class Mesh>
using far_team = tessera::team<Mesh, far_comm<tessera::mpi_comm>, far>;
inline auto far_world() { return far_comm(tessera::mpi_comm{MPI_COMM_WORLD, {.shared_memory = false}}); }
inline constexpr double far_allows = 0;
#endif

/// All that a program has seen, with the words that it gave them.
class witness {
 public:
  void operator()(char const* word, double value) { values_.push_back({word, value}); }
  template <tessera::sharded_tensor X>
  void operator()(char const* word, X const& x) {
    seen(word, x.where().kernels(), x.local());
  }
  template <class Kernels, class T, int Rank, class Memory, tessera::storage_order Order>
  void seen(char const* word, Kernels& kernels, tessera::tensor<T, Rank, Memory, Order> const& x) {
    tessera::eigen host;
    const auto values = tessera::from_host(host, tessera::to_host(kernels, x));
    for (T const v : values.read()) (*this)(word, static_cast<double>(v));
  }

  /// The first word where two have seen other bits, or values further apart than `allowed`; or nothing.
  std::string first_difference(witness const& other, double allowed = 0) const {
    if (values_.size() != other.values_.size()) return "other numbers of values";
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const double a = values_[i].second;
      const double b = other.values_[i].second;
      if (std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b)) continue;
      if (!(std::abs(a - b) <= allowed * (1 + std::abs(b)) && allowed > 0)) return values_[i].first;
    }
    return "";
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<std::pair<std::string, double>> values_{};
};

/// Runs `program(team, witness)` near and far on this mesh, if the test has as many ranks: both see the same, to the
/// bit where the kernels are the same.
template <class Mesh, class Program>
void near_and_far(Program program) {
  if (size() != Mesh::devices) return;
  witness near;
  witness far_away;
  {
    // Memory that hosts share adds up in another order.
    parallel_team<Mesh> team{tessera::mpi_comm{MPI_COMM_WORLD, {.shared_memory = false}}};
    program(team, near);
  }
  {
    far_team<Mesh> team{far_world()};
    program(team, far_away);
  }
  CHECK(near.size() > 0);
  CHECK(far_away.first_difference(near, far_allows) == "");
}

/// The same numbers on a team, cut by a layout.
template <class Layout, class T, int Rank, class Team>
auto values_on(Team& team, tessera::shape<Rank> const& extents, std::uint64_t stream) {
  return tessera::distribute<Layout>(team, values<T>(extents, stream));
}

}  // namespace worlds
