#pragma once

#include "support/far.hpp"
#include "support/worlds.hpp"

#include <tessera/backend/transfer.hpp>
#include <tessera/core/sharded.hpp>
#include <tessera/redistribute/to.hpp>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

/// A session's communicator, which the backend is there before.
template <>
struct tessera::communicator_for<worlds::far> {
  using type = worlds::far_comm<tessera::mpi_comm>;
  static type world(worlds::far& kernels, tessera::session_options const& options) {
    kernels.synchronize();
    return type(tessera::mpi_comm(MPI_COMM_WORLD, options.mpi));
  }
};

/// Programs on a backend whose memory the host cannot reach, against the same on Eigen.
namespace worlds {

template <class Mesh>
using far_team = tessera::team<Mesh, far_comm<tessera::mpi_comm>, far>;

/// The bits of all that a program has seen, with the words that it gave them.
class witness {
 public:
  void operator()(char const* word, double value) { bits_.push_back({word, std::bit_cast<std::uint64_t>(value)}); }
  template <tessera::sharded_tensor X>
  void operator()(char const* word, X const& x) {
    seen(word, x.where().kernels(), x.local());
  }
  template <class Kernels, class T, int Rank, class Memory, tessera::storage_order Order>
  void seen(char const* word, Kernels& kernels, tessera::tensor<T, Rank, Memory, Order> const& x) {
    const auto values = tessera::to_host(kernels, x);
    for (index_t i = 0; i < values.size(); ++i) (*this)(word, static_cast<double>(std::as_const(values).data()[i]));
  }

  /// The first word where two have seen other things, or nothing.
  std::string first_difference(witness const& other) const {
    if (bits_.size() != other.bits_.size()) return "other numbers of values";
    for (std::size_t i = 0; i < bits_.size(); ++i)
      if (bits_[i].second != other.bits_[i].second) return bits_[i].first;
    return "";
  }
  std::size_t size() const { return bits_.size(); }

 private:
  std::vector<std::pair<std::string, std::uint64_t>> bits_{};
};

/// Runs `program(team, witness)` near and far on this mesh, if the test has as many ranks: both see the same bits.
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
    far_team<Mesh> team{far_comm(tessera::mpi_comm{MPI_COMM_WORLD, {.shared_memory = false}})};
    program(team, far_away);
  }
  CHECK(near.size() > 0);
  CHECK(far_away.first_difference(near) == "");
}

/// The same numbers on a team, cut by a layout.
template <class Layout, class T, int Rank, class Team>
auto values_on(Team& team, tessera::shape<Rank> const& extents, std::uint64_t stream) {
  return tessera::distribute<Layout>(team, values<T>(extents, stream));
}

}  // namespace worlds
