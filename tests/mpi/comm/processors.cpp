#include <tessera/comm/processors.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

TEST_CASE("ranks that may run on the same processors share them") {
  const auto own = tessera::detail::own_processors();
  const int usable = std::accumulate(own.begin(), own.end(), 0);
  auto most = own;
  auto least = own;
  const int count = static_cast<int>(own.size());
  MPI_Allreduce(MPI_IN_PLACE, most.data(), count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, least.data(), count, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int share = tessera::detail::processors_of_rank(MPI_COMM_WORLD);
  CHECK(share >= 1);
  CHECK(share <= usable);
  if (most == least) CHECK(share == std::max(1, usable / ranks));
}
