#include <doctest/doctest.h>

#include <tessera/comm/mpi.hpp>
#include <tessera/comm/recording.hpp>

namespace {

using tessera::collective;
using tessera::index_t;
using tessera::recorded_call;
using tessera::reduction;

TEST_CASE("the log holds this rank's payload") {
  tessera::recording comm{tessera::mpi_comm{}};
  const auto ranks = static_cast<std::size_t>(comm.size());
  const index_t size = comm.size();
  const index_t rank = comm.rank();
  // Rank r gathers r + 1 elements, sends 2 to each rank, and rank 0 alone receives more than it sends.
  std::vector<index_t> counts;
  for (index_t r = 0; r < size; ++r) counts.push_back(r + 1);
  const index_t total = size * (size + 1) / 2;
  std::vector<float> few(ranks), many(static_cast<std::size_t>(total));
  comm.all_gather(few.data(), many.data(), counts);
  comm.reduce_scatter(many.data(), few.data(), counts, reduction::maximum);

  std::vector<index_t> send_counts(ranks, 0), receive_counts(ranks, 0);
  send_counts[0] = rank + 1;
  if (rank == 0) receive_counts = counts;
  comm.all_to_all(few.data(), send_counts, many.data(), receive_counts);
  const std::vector<recorded_call> expected{{collective::all_gather, 0, total, 4},
                                            {collective::reduce_scatter, 0, total, 4, reduction::maximum},
                                            {collective::all_to_all, 0, rank == 0 ? total : rank + 1, 4}};
  CHECK(comm.calls() == expected);
}

TEST_CASE("groups of a world share its log") {
  tessera::recording comm{tessera::mpi_comm{}};
  auto half = comm.split(comm.rank() % 2, 0);
  half.label(2);
  double value = 1;
  half.all_reduce(&value, 1, reduction::sum);
  CHECK(value == half.size());
  REQUIRE(comm.calls().size() == 1);
  CHECK(comm.calls()[0] == recorded_call{collective::all_reduce, 2, 1, 8, reduction::sum});
}

}  // namespace
