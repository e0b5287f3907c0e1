#include <doctest/doctest.h>

#include <tessera/comm/mpi.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

// All-reduces by messages that are under way, in memory that ranks do not share.

namespace {

using tessera::index_t;
using tessera::mpi_comm;
using tessera::mpi_options;
using tessera::reduction;

/// Element `i` of rank `rank` in buffer number `stream`: a whole number, or a fraction that sums round.
template <class T>
T value_of(int rank, index_t i, int stream) {
  const index_t mixed = (i * 7919 + rank * 104'729 + stream * 613) % 1009;
  if constexpr (std::floating_point<T>) return static_cast<T>(mixed) / T(1009) - T(0.5);
  return static_cast<T>(mixed % 50);
}

template <class T>
std::vector<T> values_of(int rank, index_t count, int stream) {
  std::vector<T> values;
  for (index_t i = 0; i < count; ++i) values.push_back(value_of<T>(rank, i, stream));
  return values;
}

/// The reduction in rank order.
template <class T>
std::vector<T> reduced(int ranks, index_t count, int stream, reduction op) {
  auto all = values_of<T>(0, count, stream);
  for (int r = 1; r < ranks; ++r)
    for (index_t i = 0; i < count; ++i) {
      T& value = all[static_cast<std::size_t>(i)];
      const T next = value_of<T>(r, i, stream);
      value = op == reduction::sum ? static_cast<T>(value + next) : std::max(value, next);
    }
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("elements are reduced in rank order, whatever the number of pieces", T, float, double, std::int32_t,
                   std::int64_t, std::uint8_t) {
  for (const index_t limit : {1, 7, 1 << 30}) {
    mpi_comm comm(MPI_COMM_WORLD, {.chunk_limit = limit});
    for (const reduction op : {reduction::sum, reduction::maximum})
      for (const index_t count : {1, 3, 1000, 300'001}) {
        if (limit < 10 && count > 1000) continue;
        auto values = values_of<T>(comm.rank(), count, 1);
        comm.start_all_reduce(values.data(), count, op).wait();
        CHECK(values == reduced<T>(comm.size(), count, 1, op));
      }
  }
}

TEST_CASE("several are under way at a time, polled unevenly, beside other collectives and messages") {
  mpi_comm comm;
  auto half = comm.split(comm.rank() % 2, comm.rank());
  const index_t counts[] = {200'000, 0, 5, 70'000, 1, 300'000};
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::int64_t>> numbers;
  std::vector<mpi_comm::request> requests;
  for (int b = 0; b < 6; ++b) {
    floats.push_back(values_of<float>(comm.rank(), counts[b], b));
    numbers.push_back(values_of<std::int64_t>(half.rank(), counts[b], b));
    requests.push_back(comm.start_all_reduce(floats.back().data(), counts[b], reduction::sum));
    requests.push_back(half.start_all_reduce(numbers.back().data(), counts[b], reduction::maximum));
    for (int look = 0; look < 3 * comm.rank(); ++look) static_cast<void>(requests[requests.size() / 2].test());
    int ranks = 1;
    comm.all_reduce(&ranks, 1, reduction::sum);
    CHECK(ranks == comm.size());
    const int next = (comm.rank() + 1) % comm.size();
    int heard = -1;
    const int said = comm.rank();
    auto send = comm.start_send(&said, 1, next, 0);
    comm.start_receive(&heard, 1, (comm.rank() + comm.size() - 1) % comm.size(), 0).wait();
    CHECK(heard == (comm.rank() + comm.size() - 1) % comm.size());
  }
  // Complete in `test` alone.
  while (!requests.back().test()) {
  }
  for (auto& request : requests) request.wait();
  for (int b = 0; b < 6; ++b) {
    const auto which = static_cast<std::size_t>(b);
    CHECK(floats[which] == reduced<float>(comm.size(), counts[b], b, reduction::sum));
    CHECK(numbers[which] == reduced<std::int64_t>(half.size(), counts[b], b, reduction::maximum));
  }
}

TEST_CASE("a communicator that moves takes them along") {
  mpi_comm first;
  auto values = values_of<double>(first.rank(), 100'000, 2);
  auto request = first.start_all_reduce(values.data(), 100'000, reduction::sum);
  mpi_comm second = std::move(first);
  auto others = values_of<double>(second.rank(), 10, 3);
  second.start_all_reduce(others.data(), 10, reduction::sum).wait();
  request.wait();
  CHECK(values == reduced<double>(second.size(), 100'000, 2, reduction::sum));
  CHECK(others == reduced<double>(second.size(), 10, 3, reduction::sum));
}
