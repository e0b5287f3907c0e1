#include <doctest/doctest.h>

#include <tessera/comm/mpi.hpp>
#include <tessera/comm/ordered.hpp>
#include <tessera/comm/serial.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace tessera;
using tessera::index_t;

static_assert(communicator<ordered<mpi_comm>> && communicator<ordered<serial_comm>>);

constexpr index_t small = 5;
constexpr index_t large = 3 * ordered<mpi_comm>::gathered_elements + 1;

/// Element `i` of a rank: values of sizes so different that each order of adding them gives another sum.
template <class T>
T value_of(int rank, index_t i, int stream = 0) {
  const index_t mixed = (i * 7919 + rank * 104'729 + stream * 613) % 1009;
  if constexpr (std::floating_point<T>)
    return std::ldexp(static_cast<T>(mixed) / T(1009) - T(0.5), static_cast<int>(mixed % 9));
  return static_cast<T>(mixed % 7);
}
template <class T>
std::vector<T> values_of(int rank, index_t count, int stream = 0) {
  std::vector<T> values;
  for (index_t i = 0; i < count; ++i) values.push_back(value_of<T>(rank, i, stream));
  return values;
}

/// The sum over ranks first to first + ranks - 1: that of the most ranks that are a power of two, plus that of the
/// rest.
template <class T>
T tree(int first, int ranks, index_t i, int stream) {
  if (ranks == 1) return value_of<T>(first, i, stream);
  int half = 1;
  while (2 * half < ranks) half *= 2;
  return static_cast<T>(tree<T>(first, half, i, stream) + tree<T>(first + half, ranks - half, i, stream));
}
template <class T>
std::vector<T> sums(int ranks, interval part, int stream = 0) {
  std::vector<T> all;
  for (index_t i = part.begin; i < part.end(); ++i) all.push_back(tree<T>(0, ranks, i, stream));
  return all;
}

template <class T>
void check_all_reduce(ordered<mpi_comm>& comm, index_t count) {
  auto at_once = values_of<T>(comm.rank(), count);
  comm.all_reduce(at_once.data(), count, reduction::sum);
  CHECK(at_once == sums<T>(comm.size(), {0, count}));

  // Two under way, with a collective between them; the later one is looked after first.
  auto one = values_of<T>(comm.rank(), count, 1);
  auto other = values_of<T>(comm.rank(), count, 2);
  auto first = comm.start_all_reduce(one.data(), count, reduction::sum);
  comm.barrier();
  auto second = comm.start_all_reduce(other.data(), count, reduction::sum);
  while (!second.test()) first.test();
  first.wait();
  CHECK(one == sums<T>(comm.size(), {0, count}, 1));
  CHECK(other == sums<T>(comm.size(), {0, count}, 2));
}

}  // namespace

TEST_CASE("sums are added in pairs of ranks, then pairs of pairs") {
  ordered<mpi_comm> comm{mpi_comm{}};
  for (const index_t count : {index_t{0}, index_t{1}, small, large}) {
    CAPTURE(count);
    check_all_reduce<float>(comm, count);
    check_all_reduce<double>(comm, count);
    check_all_reduce<std::int64_t>(comm, count);
  }
}

TEST_CASE("a reduce-scatter has the same sums, parts being of any size") {
  ordered<mpi_comm> comm{mpi_comm{}};
  std::vector<index_t> counts;
  for (int r = 0; r < comm.size(); ++r) counts.push_back(r == 1 ? 0 : 40 * r + 3);
  const auto begins = detail::begins_of(counts);
  const auto at = static_cast<std::size_t>(comm.rank());
  const auto send = values_of<float>(comm.rank(), detail::total_of(counts));
  std::vector<float> receive(static_cast<std::size_t>(counts[at]));
  comm.reduce_scatter(send.data(), receive.data(), counts, reduction::sum);
  CHECK(receive == sums<float>(comm.size(), {begins[at], counts[at]}));
}

TEST_CASE("a request that nobody waits for completes when it is destroyed") {
  ordered<mpi_comm> comm{mpi_comm{}};
  auto data = values_of<float>(comm.rank(), large);
  static_cast<void>(comm.start_all_reduce(data.data(), large, reduction::sum));
  CHECK(data == sums<float>(comm.size(), {0, large}));
}

TEST_CASE("maxima, other collectives and parts of a group are those of the communicator inside") {
  ordered<mpi_comm> comm{mpi_comm{}};
  double most = comm.rank() == 0 ? std::numeric_limits<double>::quiet_NaN() : comm.rank();
  comm.all_reduce(&most, 1, reduction::maximum);
  CHECK(std::isnan(most));

  ordered<mpi_comm> half = comm.split(comm.rank() % 2, comm.rank());
  float one = 1;
  half.all_reduce(&one, 1, reduction::sum);
  CHECK(one == static_cast<float>(half.size()));
  CHECK(half.size() == (comm.size() + 1 - comm.rank() % 2) / 2);

  int value = comm.rank() + 3;
  comm.broadcast(&value, 1, 0);
  CHECK(value == 3);
}
