#pragma once

#include <tessera/comm/mpi.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/core/random.hpp>
#include <tessera/train/session.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

/// What tests over meshes share: teams on the test's ranks, reproducible values, and comparison with the serial run.
namespace worlds {

using tessera::index_t;

/// Number of ranks of this test run.
inline int size() { return tessera::mpi_comm().size(); }

template <class Mesh>
using parallel_team = tessera::team<Mesh, tessera::mpi_comm>;
template <class Mesh>
using serial_team = tessera::team<Mesh, tessera::serial_comm>;

/// Uniform values in [-1, 1), the same on every rank.
template <class T, int Rank>
tessera::tensor<T, Rank> values(tessera::shape<Rank> const& extents, std::uint64_t stream) {
  tessera::tensor<T, Rank> out(extents);
  const tessera::philox draw(99, stream);
  for (index_t i = 0; i < out.size(); ++i)
    out.data()[i] = static_cast<T>(2 * draw.uniform(static_cast<std::uint64_t>(i)) - 1);
  return out;
}

/// Labels in [0, classes), the same on every rank.
inline std::vector<std::int64_t> labels(index_t rows, index_t classes, std::uint64_t stream) {
  const tessera::philox draw(98, stream);
  std::vector<std::int64_t> out(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::int64_t>(draw.uniform(i) * static_cast<double>(classes));
  return out;
}

/// The part of a list that belongs to an interval of rows.
template <class T>
std::vector<T> rows_of(std::vector<T> const& all, tessera::interval rows) {
  return {all.begin() + rows.begin, all.begin() + rows.end()};
}

/// The largest difference of two blocks, relative to the largest entry of the second (at least 1e-30).
template <class A, class B>
double difference(A const& found, B const& wanted) {
  REQUIRE(found.extents() == wanted.extents());
  double most = 1e-30;
  double apart = 0;
  for (index_t i = 0; i < wanted.size(); ++i) {
    const auto f = static_cast<double>(found.data()[i]);
    const auto w = static_cast<double>(wanted.data()[i]);
    if (std::isnan(f) != std::isnan(w)) return INFINITY;
    if (std::isnan(w)) continue;
    most = std::max(most, std::abs(w));
    apart = std::max(apart, std::abs(f - w));
  }
  return apart / most;
}

}  // namespace worlds
