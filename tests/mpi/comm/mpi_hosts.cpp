// Groups on several hosts, which `ranks_per_host` makes out of one.

#include <doctest/doctest.h>

#include <tessera/comm/mpi.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace {

using tessera::index_t;
using tessera::mpi_comm;
using tessera::mpi_options;
using tessera::reduction;

constexpr int ranks_per_host = 2;

/// A collective whose group has ranks on several hosts, as this rank called it.
struct crossing {
  std::string call;
  int ranks;
  index_t bytes;
  friend bool operator==(crossing const&, crossing const&) = default;
};

/// Where the calls of MPI below write what crosses hosts; nowhere while it is null.
std::vector<crossing>* seen = nullptr;

void note(char const* call, MPI_Comm comm, int count, MPI_Datatype type) {
  if (seen == nullptr) return;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int ranks = 0;
  PMPI_Group_size(group, &ranks);
  bool crosses = false;
  int first = 0;
  for (int r = 0; r < ranks; ++r) {
    int of_world = 0;
    PMPI_Group_translate_ranks(group, 1, &r, world, &of_world);
    if (r == 0) first = of_world / ranks_per_host;
    crosses = crosses || of_world / ranks_per_host != first;
  }
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  int each = 0;
  PMPI_Type_size(type, &each);
  if (crosses) seen->push_back({call, ranks, static_cast<index_t>(count) * each});
}

/// What crosses hosts during `call`.
template <class Call>
std::vector<crossing> crossings_of(Call call) {
  std::vector<crossing> calls;
  seen = &calls;
  call();
  seen = nullptr;
  return calls;
}

}  // namespace

// MPI's profiling interface: the program's own definitions come before those of the library.
extern "C" {
int MPI_Allreduce(void const* from, void* into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  note("MPI_Allreduce", comm, count, type);
  return PMPI_Allreduce(from, into, count, type, op, comm);
}
int MPI_Iallreduce(void const* from, void* into, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  note("MPI_Iallreduce", comm, count, type);
  return PMPI_Iallreduce(from, into, count, type, op, comm, request);
}
int MPI_Reduce_scatter(void const* from, void* into, int const counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  note("MPI_Reduce_scatter", comm, counts[0], type);
  return PMPI_Reduce_scatter(from, into, counts, type, op, comm);
}
int MPI_Allgatherv(void const* from, int count, MPI_Datatype type, void* into, int const counts[], int const begins[],
                   MPI_Datatype into_type, MPI_Comm comm) {
  note("MPI_Allgatherv", comm, counts[0], into_type);
  return PMPI_Allgatherv(from, count, type, into, counts, begins, into_type, comm);
}
}

namespace {

template <class T>
std::vector<T> values_of(int rank, index_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (index_t i = 0; i < count; ++i) {
    const index_t mixed = (i * 7919 + rank * 104'729) % 1009;
    values[static_cast<std::size_t>(i)] =
        std::floating_point<T> ? static_cast<T>(mixed) / static_cast<T>(1009) : static_cast<T>(mixed % 50);
  }
  return values;
}

/// Whether `found` is the reduction of the values of these ranks: exactly, or up to rounding for sums of fractions.
template <class T>
bool reduces(T const* found, index_t count, std::vector<int> const& ranks, reduction op) {
  std::vector<std::vector<T>> all;
  for (const int r : ranks) all.push_back(values_of<T>(r, count));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    double wanted = op == reduction::sum ? 0 : -std::numeric_limits<double>::infinity();
    for (auto const& values : all)
      wanted = op == reduction::sum ? wanted + static_cast<double>(values[i])
                                    : std::max(wanted, static_cast<double>(values[i]));
    const bool rounds = op == reduction::sum && std::floating_point<T>;
    const double apart = std::abs(static_cast<double>(found[i]) - wanted);
    const double most =
        rounds ? 4 * static_cast<double>(ranks.size()) * static_cast<double>(std::numeric_limits<T>::epsilon()) : 0;
    if (!(apart <= most)) return false;
  }
  return true;
}

std::vector<int> ranks_below(int size) {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  return ranks;
}

std::vector<mpi_options> all_options() {
  return {{.level_bytes = 0, .ranks_per_host = ranks_per_host},
          {.chunk_limit = 1000, .piece_bytes = 5000, .level_bytes = 0, .ranks_per_host = ranks_per_host},
          {.shared_memory = false, .level_bytes = 0, .ranks_per_host = ranks_per_host},
          {.level_bytes = 0, .ranks_per_host = 1},
          {.level_bytes = 0, .ranks_per_host = 3}};
}

TEST_CASE_TEMPLATE("over several hosts, even and uneven ones", T, float, double, std::int32_t, std::int64_t,
                   std::uint8_t) {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    const auto ranks = ranks_below(comm.size());
    for (const index_t count : {0, 1, 2, 17, 9001})
      for (const reduction op : {reduction::sum, reduction::maximum}) {
        const auto own = values_of<T>(comm.rank(), count);
        auto apart = own;
        comm.all_reduce(apart.data(), count, op);
        CHECK(reduces(apart.data(), count, ranks, op));

        const auto memory = comm.allocate(static_cast<std::size_t>(count) * sizeof(T));
        T* const shared = static_cast<T*>(memory.get());
        std::copy(own.begin(), own.end(), shared);
        comm.all_reduce(shared, count, op);
        CHECK(reduces(shared, count, ranks, op));
        std::copy(own.begin(), own.end(), shared);
        auto request = comm.start_all_reduce(shared, count, op);
        // Other reductions over the same lanes come between its messages.
        apart = own;
        comm.all_reduce(apart.data(), count, op);
        request.wait();
        CHECK(reduces(shared, count, ranks, op));
        CHECK(reduces(apart.data(), count, ranks, op));
        // The same on all ranks, to the last bit.
        std::vector<T> first(shared, shared + count);
        comm.broadcast(first.data(), count, 0);
        CHECK(first == std::vector<T>(shared, shared + count));
      }
  }
}

TEST_CASE("groups of a split know their hosts") {
  const mpi_comm comm(MPI_COMM_WORLD, {.level_bytes = 0, .ranks_per_host = ranks_per_host});
  // All in reverse order, those of a host, and those of a position.
  const int host = comm.rank() / ranks_per_host;
  const std::vector<std::pair<int, int>> splits{{0, -comm.rank()}, {host, 0}, {comm.rank() % ranks_per_host, 0}};
  for (auto const& [color, key] : splits) {
    std::vector<int> colors(static_cast<std::size_t>(comm.size()));
    PMPI_Allgather(&color, 1, MPI_INT, colors.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::vector<int> ranks;
    for (int r = 0; r < comm.size(); ++r)
      if (colors[static_cast<std::size_t>(r)] == color) ranks.push_back(r);
    auto group = comm.split(color, key);
    REQUIRE(group.size() == static_cast<int>(ranks.size()));
    const auto memory = group.allocate(1000 * sizeof(float));
    auto* const shared = static_cast<float*>(memory.get());
    auto own = values_of<float>(comm.rank(), 1000);
    std::copy(own.begin(), own.end(), shared);
    group.all_reduce(shared, 1000, reduction::sum);
    CHECK(reduces(shared, 1000, ranks, reduction::sum));
    group.all_reduce(own.data(), 1000, reduction::sum);
    CHECK(reduces(own.data(), 1000, ranks, reduction::sum));
  }
}

TEST_CASE("what crosses between 2 hosts of 2 ranks: each lane's share, once") {
  if (mpi_comm().size() != 4) return;
  constexpr index_t count = 100'000;
  constexpr index_t bytes = 4 * count;
  mpi_options options{.ranks_per_host = ranks_per_host};
  std::vector<float> apart(count, 1.0f);
  {
    mpi_comm comm(MPI_COMM_WORLD, options);
    CHECK(crossings_of([&] { comm.all_reduce(apart.data(), count, reduction::sum); }) ==
          std::vector<crossing>{{"MPI_Allreduce", 2, bytes / 2}});
    // Below level_bytes all ranks take part in one call.
    CHECK(crossings_of([&] { comm.all_reduce(apart.data(), 10, reduction::sum); }) ==
          std::vector<crossing>{{"MPI_Allreduce", 4, 40}});

    const auto memory = comm.allocate(bytes);
    auto* const shared = static_cast<float*>(memory.get());
    std::fill_n(shared, count, 1.0f);
    for (const index_t part : {count, index_t{16}, index_t{32}}) {
      const auto crossed = crossings_of([&] { comm.all_reduce(shared, part, reduction::sum); });
      // One line of the cache is one share.
      const index_t own = part > 16 ? part / 2 : comm.rank() % 2 == 1 ? part : 0;
      CHECK(crossed == (own == 0 ? std::vector<crossing>{} : std::vector<crossing>{{"MPI_Iallreduce", 2, 4 * own}}));
    }
    CHECK(shared[0] == 64.0f);
    CHECK(shared[count - 1] == 4.0f);

    // Inside one host nothing crosses.
    auto host = comm.split(comm.rank() / ranks_per_host, 0);
    const auto of_host = host.allocate(bytes);
    std::fill_n(static_cast<float*>(of_host.get()), count, 1.0f);
    CHECK(crossings_of([&] {
            host.all_reduce(static_cast<float*>(of_host.get()), count, reduction::sum);
            host.all_reduce(apart.data(), count, reduction::sum);
          }).empty());
  }
  options.piece_bytes = bytes / 8;
  mpi_comm pieces(MPI_COMM_WORLD, options);
  const auto memory = pieces.allocate(bytes);
  std::fill_n(static_cast<float*>(memory.get()), count, 1.0f);
  CHECK(crossings_of([&] { pieces.all_reduce(static_cast<float*>(memory.get()), count, reduction::sum); }) ==
        std::vector<crossing>(4, {"MPI_Iallreduce", 2, bytes / 8}));
  CHECK(crossings_of([&] { pieces.all_reduce(apart.data(), count, reduction::sum); }) ==
        std::vector<crossing>(4, {"MPI_Allreduce", 2, bytes / 8}));
}

TEST_CASE("many reductions under way across hosts") {
  mpi_comm comm(MPI_COMM_WORLD, {.piece_bytes = 1000, .ranks_per_host = ranks_per_host});
  std::vector<tessera::memory_handle> buffers;
  std::vector<tessera::mpi_request> requests;
  for (int b = 0; b < 30; ++b) {
    buffers.push_back(comm.allocate(8000));
    auto* const data = static_cast<std::int64_t*>(buffers.back().get());
    const auto own = values_of<std::int64_t>(comm.rank(), 1000);
    std::copy(own.begin(), own.end(), data);
    requests.push_back(comm.start_all_reduce(data, 1000, reduction::sum));
    if (b % 3 == comm.rank()) requests.back().test();
  }
  while (!requests.empty()) requests.pop_back();
  for (auto const& buffer : buffers)
    CHECK(reduces(static_cast<std::int64_t*>(buffer.get()), 1000, ranks_below(comm.size()), reduction::sum));
}

}  // namespace
