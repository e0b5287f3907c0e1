#pragma once

#include "compare.hpp"

#include <tessera/comm/mpi_environment.hpp>
#include <tessera/train/session.hpp>

#include <Eigen/Core>

#include <cstdio>
#include <exception>
#include <memory>

namespace comparison {

namespace ts = tessera;

/// The one mesh axis of the benchmarks: all ranks.
template <int Ranks>
struct ranks : ts::axis<Ranks> {};
template <int Ranks>
using team = ts::team<ts::mesh<ranks<Ranks>>, ts::mpi_comm>;

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using array = Eigen::Array<float, Eigen::Dynamic, 1>;
using matrix_map = Eigen::Map<matrix>;
using const_matrix_map = Eigen::Map<matrix const>;

/// A tensor with the given layout whose elements are small numbers of either sign, the same for any split.
template <class Layout, int Ranks, int Rank>
auto numbers(team<Ranks>& where, ts::shape<Rank> const& extents, std::uint64_t stream) {
  ts::tensor<float, Rank> whole(extents);
  const ts::philox draw(1, stream);
  for (ts::index_t i = 0; i < whole.size(); ++i)
    whole.data()[i] = static_cast<float>(2 * draw.uniform(static_cast<std::uint64_t>(i)) - 1);
  return ts::distribute<Layout>(where, whole);
}

/// This rank's block of a tensor.
template <ts::sharded_tensor X>
std::span<float const> values(X const& x) {
  return {x.read().data, static_cast<std::size_t>(x.read().size())};
}
/// A matrix of the hand-written way on the memory of a tensor's block.
template <ts::sharded_tensor X>
const_matrix_map map(X const& x) {
  const auto b = as_matrix(x.read());
  return {b.data, b.extents[0], b.extents[1]};
}
inline std::span<float const> values(matrix const& m) { return {m.data(), static_cast<std::size_t>(m.size())}; }

/// Whether a result still has to be summed over ranks, and what it is then.
template <ts::sharded_tensor X>
inline constexpr bool is_partial = X::mesh::group_size(X::placements.partial_axes()) > 1;
template <ts::sharded_tensor X>
using whole_sums = ts::relaid<X, X::rank, dual(X::placements)>;

inline void sum_over_ranks(float* data, ts::index_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/// `main` of a benchmark program: `add_all(team)` registers its benchmarks for the ranks it runs on, one or two.
template <class AddAll>
int main(int argc, char** argv, AddAll add_all) {
  try {
    const ts::mpi_environment mpi(argc, argv);
    const ts::mpi_comm world;
    Eigen::setNbThreads(1);  // by hand as by the library: one thread a rank
    const auto on = [&]<int Ranks>(std::integral_constant<int, Ranks>) {
      team<Ranks> all(world);
      add_all(all);
      return run(argc, argv);
    };
    if (world.size() == 1) return on(std::integral_constant<int, 1>{});
    if (world.size() == 2) return on(std::integral_constant<int, 2>{});
    throw ts::error(std::to_string(world.size()) + " ranks", "1 or 2", "start it with mpirun -n 1 or -n 2");
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}

}  // namespace comparison
