#include "support/errors.hpp"

#include <doctest/doctest.h>

#include <tessera/comm/mesh_groups.hpp>
#include <tessera/comm/mpi.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using tessera::index_t;
using tessera::memory_handle;
using tessera::mpi_comm;
using tessera::mpi_options;
using tessera::reduction;

std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// A buffer from `allocate`.
template <class T>
struct shared_buffer {
  memory_handle memory;
  index_t size;

  shared_buffer(mpi_comm& comm, index_t count) : memory(comm.allocate(at(count) * sizeof(T))), size(count) {}
  T* data() const { return static_cast<T*>(memory.get()); }
  std::vector<T> values() const { return {data(), data() + size}; }
};

/// Element `i` of rank `rank` in a test's buffer number `stream`: a whole number, or a fraction that sums round.
template <class T>
T value_of(int rank, index_t i, int stream) {
  const index_t mixed = (i * 7919 + rank * 104'729 + stream * 613) % 1009;
  if constexpr (std::floating_point<T>) return static_cast<T>(mixed) / T(1009) - T(0.5);
  return static_cast<T>(mixed % 50);
}

template <class T>
void fill(T* data, index_t count, int rank, int stream) {
  for (index_t i = 0; i < count; ++i) data[i] = value_of<T>(rank, i, stream);
}

/// The reduction in rank order.
template <class T>
std::vector<T> reduced(std::vector<int> const& ranks, index_t count, int stream, reduction op) {
  std::vector<T> all(at(count));
  for (index_t i = 0; i < count; ++i) {
    T value = value_of<T>(ranks[0], i, stream);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const T next = value_of<T>(ranks[r], i, stream);
      value = op == reduction::sum ? static_cast<T>(value + next) : std::max(value, next);
    }
    all[at(i)] = value;
  }
  return all;
}
std::vector<int> ranks_below(int size) {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  return ranks;
}

/// Around the sizes at which slices, pieces and runs of the reduction end.
std::vector<index_t> sizes_in_elements() { return {1, 3, 15, 16, 17, 1000, 4097, 70'003}; }

TEST_CASE_TEMPLATE("reductions of shared memory are those in rank order, to the last bit", T, float, double,
                   std::int32_t, std::int64_t, std::uint8_t) {
  mpi_comm comm;
  int stream = 0;
  for (const index_t count : sizes_in_elements()) {
    const shared_buffer<T> buffer(comm, count);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    for (const reduction op : {reduction::sum, reduction::maximum}) {
      const auto expected = reduced<T>(ranks_below(comm.size()), count, ++stream, op);
      fill(buffer.data(), count, comm.rank(), stream);
      comm.all_reduce(buffer.data(), count, op);
      CHECK(buffer.values() == expected);
      fill(buffer.data(), count, comm.rank(), stream);
      auto request = comm.start_all_reduce(buffer.data(), count, op);
      while (!request.test()) std::this_thread::yield();
      CHECK(request.test());
      CHECK(buffer.values() == expected);
    }
  }
}

TEST_CASE_TEMPLATE("the maximum in shared memory is NaN whichever rank holds it", T, float, double) {
  mpi_comm comm;
  const shared_buffer<T> buffer(comm, 2);
  for (int holder = 0; holder < comm.size(); ++holder) {
    buffer.data()[0] = comm.rank() == holder ? std::numeric_limits<T>::quiet_NaN() : T(1);
    buffer.data()[1] = static_cast<T>(comm.rank());
    comm.all_reduce(buffer.data(), 2, reduction::maximum);
    CHECK(std::isnan(buffer.data()[0]));
    CHECK(buffer.data()[1] == static_cast<T>(comm.size() - 1));
  }
}

TEST_CASE("a part of a shared buffer that begins anywhere; nothing around it changes") {
  mpi_comm comm;
  const shared_buffer<float> buffer(comm, 5000);
  for (const index_t first : {0, 1, 7, 4000})
    for (const index_t count : {0, 1, 33, 999}) {
      std::fill_n(buffer.data(), 5000, -5.0f);
      fill(buffer.data() + first, count, comm.rank(), 7);
      comm.all_reduce(buffer.data() + first, count, reduction::sum);
      std::vector<float> expected(5000, -5.0f);
      const auto sums = reduced<float>(ranks_below(comm.size()), count, 7, reduction::sum);
      std::copy(sums.begin(), sums.end(), expected.begin() + first);
      CHECK(buffer.values() == expected);
    }
}

TEST_CASE("more reductions under way than ranks show each other, waited for in any order, among other collectives") {
  mpi_comm comm;
  constexpr int many = 40;
  constexpr index_t count = 5001;
  std::vector<shared_buffer<double>> buffers;
  for (int b = 0; b < many; ++b) buffers.emplace_back(comm, count + b);
  for (int round = 0; round < 3; ++round) {
    std::vector<tessera::mpi_request> requests;
    for (int b = 0; b < many; ++b) {
      fill(buffers[at(b)].data(), count + b, comm.rank(), round * many + b);
      requests.push_back(comm.start_all_reduce(buffers[at(b)].data(), count + b, reduction::sum));
      if (b % 7 == 0) {
        std::int32_t ranks = 1;
        comm.all_reduce(&ranks, 1, reduction::sum);
        CHECK(ranks == comm.size());
        comm.barrier();
      }
      if (b % 5 == comm.rank()) requests.front().test();
    }
    if (round == 1) std::reverse(requests.begin(), requests.end());
    if (round != 2) {
      for (auto& request : requests) request.wait();
    }
    requests.clear();  // waits
    for (int b = 0; b < many; ++b)
      CHECK(buffers[at(b)].values() ==
            reduced<double>(ranks_below(comm.size()), count + b, round * many + b, reduction::sum));
  }
}

TEST_CASE("a request that outlives its communicator is complete") {
  std::optional<mpi_comm> comm(std::in_place);
  shared_buffer<float> buffer(*comm, 100'000);
  std::fill_n(buffer.data(), buffer.size, 1.0f);
  auto request = comm->start_all_reduce(buffer.data(), buffer.size, reduction::sum);
  const auto size = static_cast<float>(comm->size());
  comm.reset();  // the handle still lives: the memory stays
  CHECK(request.test());
  CHECK(buffer.values() == std::vector<float>(100'000, size));
}

TEST_CASE("a request unwound by an exception completes") {
  mpi_comm comm;
  const shared_buffer<int> buffer(comm, 10);
  std::fill_n(buffer.data(), 10, 1);
  try {
    auto request = comm.start_all_reduce(buffer.data(), 10, reduction::sum);
    throw std::runtime_error("passes");
  } catch (std::runtime_error const&) {
  }
  CHECK(buffer.values() == std::vector<int>(10, comm.size()));
}

TEST_CASE("memory that all ranks have dropped serves again") {
  mpi_comm comm;
  float* first = nullptr;
  for (int i = 0; i < 20; ++i) {
    const shared_buffer<float> buffer(comm, 1000);
    if (i == 0) first = buffer.data();
    if (comm.size() > 1) CHECK(buffer.data() == first);
  }
  // While some rank still has a handle it does not.
  std::optional<shared_buffer<float>> kept(std::in_place, comm, 1000);
  if (comm.rank() != 0) kept.reset();
  const shared_buffer<float> other(comm, 1000);
  CHECK(other.data() != (comm.rank() == 0 ? kept->data() : nullptr));
  fill(other.data(), 1000, comm.rank(), 3);
  if (comm.rank() == 0) std::fill_n(kept->data(), 1000, 0.0f);
  comm.all_reduce(other.data(), 1000, reduction::sum);
  CHECK(other.values() == reduced<float>(ranks_below(comm.size()), 1000, 3, reduction::sum));
  kept.reset();
  // Of many sizes: unused windows are freed.
  for (index_t i = 1; i < 60; ++i) {
    const shared_buffer<std::int64_t> buffer(comm, 100 * i);
    buffer.data()[100 * i - 1] = i;
    comm.all_reduce(buffer.data() + 100 * i - 1, 1, reduction::sum);
    CHECK(buffer.data()[100 * i - 1] == i * comm.size());
  }
  CHECK(comm.allocate(0).get() == nullptr);
}

struct rows : tessera::axis<2> {};
struct columns : tessera::axis<2> {};

TEST_CASE("groups along the axes of a mesh reduce side by side") {
  using square = tessera::mesh<rows, columns>;
  const mpi_comm world;
  if (world.size() != 4) return;
  tessera::mesh_groups<square, mpi_comm> groups(world);
  std::vector<shared_buffer<float>> buffers;
  std::vector<tessera::mpi_request> requests;
  for (int set = 0; set < 4; ++set) {
    auto& group = groups.group(static_cast<tessera::axis_set>(set));
    buffers.emplace_back(group, 3000);
    fill(buffers.back().data(), 3000, world.rank(), set);
  }
  for (int set = 0; set < 4; ++set)
    requests.push_back(groups.group(static_cast<tessera::axis_set>(set))
                           .start_all_reduce(buffers[at(set)].data(), 3000, reduction::sum));
  for (int set = 4; set-- > 0;) requests[at(set)].wait();
  for (int set = 0; set < 4; ++set) {
    std::vector<int> ranks;
    for (int r = 0; r < 4; ++r) {
      const auto there = square::coordinates(r);
      const auto others = static_cast<tessera::axis_set>(square::all & ~set);
      if (square::group_rank(others, there) == square::group_rank(others, groups.coordinates())) ranks.push_back(r);
    }
    CHECK(buffers[at(set)].values() == reduced<float>(ranks, 3000, set, reduction::sum));
  }
}

TEST_CASE("memory of another communicator, and the option that switches sharing off, use messages") {
  mpi_comm comm;
  auto twin = comm.split(0, comm.rank());
  const shared_buffer<float> buffer(comm, 3000);
  fill(buffer.data(), 3000, comm.rank(), 1);
  twin.all_reduce(buffer.data(), 3000, reduction::maximum);
  CHECK(buffer.values() == reduced<float>(ranks_below(comm.size()), 3000, 1, reduction::maximum));

  mpi_comm apart(MPI_COMM_WORLD, {.shared_memory = false});
  auto half = apart.split(0, 0);
  for (mpi_comm* group : {&apart, &half}) {
    const std::size_t before = tessera::host_memory::used().live;
    const shared_buffer<float> own(*group, 3000);
    CHECK(tessera::host_memory::used().live > before);
    fill(own.data(), 3000, comm.rank(), 2);
    group->all_reduce(own.data(), 3000, reduction::maximum);
    CHECK(own.values() == reduced<float>(ranks_below(comm.size()), 3000, 2, reduction::maximum));
  }
}

using errors::error_of;

TEST_CASE("calls that differ throw on all ranks, and the communicator goes on") {
  mpi_comm comm;
  if (comm.size() == 1) return;
  const bool last = comm.rank() == comm.size() - 1;
  const shared_buffer<float> buffer(comm, 100);
  const std::string count = error_of([&] { comm.all_reduce(buffer.data(), last ? 10 : 20, reduction::sum); });
  CHECK(count.find("40 bytes at byte 0 of shared block 0") != std::string::npos);
  CHECK(count.find("80 bytes") != std::string::npos);
  const std::string op =
      error_of([&] { comm.all_reduce(buffer.data(), 20, last ? reduction::sum : reduction::maximum); });
  CHECK(op.find("element and reduction") != std::string::npos);
  const std::string size = error_of([&] { comm.allocate(last ? 640 : 64); });
  CHECK(size.find("allocate of different sizes") != std::string::npos);
  const std::string none = error_of([&] { comm.allocate(last ? 0 : 64); });
  CHECK(none.find("allocate of different sizes") != std::string::npos);
  fill(buffer.data(), 100, comm.rank(), 4);
  comm.all_reduce(buffer.data(), 100, reduction::sum);
  CHECK(buffer.values() == reduced<float>(ranks_below(comm.size()), 100, 4, reduction::sum));
}

TEST_CASE("what is missing of shared memory is known before it is asked for") {
  using tessera::detail::shared_bytes_missing;
  CHECK(shared_bytes_missing(1 << 20, 4, 64) == 0);
  CHECK(shared_bytes_missing(0, 1, 4096) == 8192 + 409);
  CHECK(shared_bytes_missing(0, 3, 4097) == 3 * 12'288 + 1843);
  CHECK(shared_bytes_missing(8000, 1, 4096) == 601);
  CHECK(shared_bytes_missing(8192 + 409, 1, 4096) == 0);
  // Without overflow.
  CHECK(shared_bytes_missing(1 << 20, 2, std::numeric_limits<std::size_t>::max()) > std::int64_t{1} << 60);
}

TEST_CASE("too little shared memory throws the same on all ranks, and the communicator goes on") {
  if (tessera::detail::free_shared_bytes() == std::numeric_limits<std::uint64_t>::max()) return;
  for (const int ranks_per_host : {0, 2}) {
    mpi_comm comm(MPI_COMM_WORLD, {.ranks_per_host = ranks_per_host});
    if (comm.size() == 1) return;
    const std::string text = error_of([&] { comm.allocate(std::size_t{1} << 55); });
    CHECK(text.find("/dev/shm lacks") != std::string::npos);
    const auto hash = static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 2);
    auto most = hash;
    comm.all_reduce(&most, 1, reduction::maximum);
    CHECK(most == hash);
    const shared_buffer<float> buffer(comm, 100);
    fill(buffer.data(), 100, comm.rank(), 4);
    comm.all_reduce(buffer.data(), 100, reduction::maximum);
    CHECK(buffer.values() == reduced<float>(ranks_below(comm.size()), 100, 4, reduction::maximum));
  }
}

TEST_CASE("impossible options are refused") {
  CHECK_THROWS_AS(mpi_comm(MPI_COMM_WORLD, {.level_bytes = -1}), tessera::error);
  CHECK_THROWS_AS(mpi_comm(MPI_COMM_WORLD, {.ranks_per_host = -1}), tessera::error);
}

}  // namespace
