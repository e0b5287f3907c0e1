#include "support/errors.hpp"

#include <doctest/doctest.h>

#include <tessera/comm/checked.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/recording.hpp>

namespace {

using tessera::index_t;
using tessera::reduction;
using comm_type = tessera::checked<tessera::mpi_comm>;

static_assert(tessera::communicator<comm_type>);
static_assert(tessera::communicator<tessera::recording<comm_type>>);

using errors::error_of;

TEST_CASE("calls that agree go through") {
  comm_type comm{tessera::mpi_comm{}};
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::vector<index_t> one_each(ranks, 1);
  const int own = comm.rank();
  std::vector<int> all(ranks);
  comm.all_gather(&own, all.data(), one_each);
  CHECK(all.back() == comm.size() - 1);
  int part = 0;
  comm.reduce_scatter(all.data(), &part, one_each, reduction::sum);
  CHECK(part == comm.size() * comm.rank());
  comm.all_to_all(std::vector<int>(ranks, own).data(), one_each, all.data(), one_each);
  CHECK(all.back() == comm.size() - 1);
  comm.all_reduce(&part, 1, reduction::maximum);
  CHECK(part == comm.size() * (comm.size() - 1));
  comm.broadcast(&part, 1, comm.size() - 1);
  float value = 1;
  comm.start_all_reduce(&value, 1, reduction::sum).wait();
  CHECK(value == static_cast<float>(comm.size()));
  comm.barrier();
  auto half = comm.split(comm.rank() % 2, 0);
  half.all_reduce(&value, 1, reduction::maximum);
}

TEST_CASE("allocations of different sizes throw on all ranks") {
  comm_type comm{tessera::mpi_comm{}};
  CHECK(comm.allocate(100).get() != nullptr);
  if (comm.size() == 1) return;
  const std::string text = error_of([&] { comm.allocate(comm.rank() == 0 ? 64 : 640); });
  CHECK(text.find("allocate of 64 bytes") != std::string::npos);
  CHECK(text.find("allocate of 640 bytes") != std::string::npos);
}

TEST_CASE("calls that differ throw on all ranks and show both") {
  comm_type comm{tessera::mpi_comm{}};
  if (comm.size() == 1) return;
  const int last = comm.size() - 1;
  const bool odd = comm.rank() == last;
  const std::string other = ", rank " + std::to_string(last) + " calls collective ";
  const std::string rest =
      "; wanted the same call on all ranks of the group; look for a branch or an extent before this call that differs "
      "between the two ranks";
  std::vector<float> values(8);
  std::vector<double> doubles(8);
  const auto ranks = static_cast<std::size_t>(comm.size());

  SUBCASE("operation") {
    CHECK(error_of([&] { odd ? comm.barrier() : comm.all_reduce(values.data(), 3, reduction::sum); }) ==
          "tessera: rank 0 calls collective 1, all_reduce of 3 x float by sum" + other + "1, barrier" + rest);
  }
  SUBCASE("split") {
    CHECK(error_of([&] {
            if (odd)
              comm.barrier();
            else
              (void)comm.split(comm.rank(), 0);
          }) == "tessera: rank 0 calls collective 1, split" + other + "1, barrier" + rest);
  }
  SUBCASE("count") {
    comm.barrier();
    CHECK(error_of([&] { comm.all_reduce(values.data(), odd ? 4 : 3, reduction::sum); }) ==
          "tessera: rank 0 calls collective 2, all_reduce of 3 x float by sum" + other +
              "2, all_reduce of 4 x float by sum" + rest);
  }
  SUBCASE("element type") {
    CHECK(error_of([&] { odd ? comm.broadcast(doubles.data(), 3, 1) : comm.broadcast(values.data(), 3, 1); }) ==
          "tessera: rank 0 calls collective 1, broadcast of 3 x float from rank 1" + other +
              "1, broadcast of 3 x double from rank 1" + rest);
  }
  SUBCASE("root") {
    CHECK(error_of([&] { comm.broadcast(values.data(), 3, odd ? 1 : 0); }) ==
          "tessera: rank 0 calls collective 1, broadcast of 3 x float from rank 0" + other +
              "1, broadcast of 3 x float from rank 1" + rest);
  }
  SUBCASE("reduction") {
    CHECK(error_of([&] {
            comm.start_all_reduce(values.data(), 3, odd ? reduction::maximum : reduction::sum).wait();
          }) == "tessera: rank 0 calls collective 1, start_all_reduce of 3 x float by sum" + other +
                    "1, start_all_reduce of 3 x float by maximum" + rest);
  }
  SUBCASE("parts of the same total") {
    std::vector<index_t> counts(ranks, 0);
    counts[odd ? 0 : 1] = 2;
    const std::string text = error_of([&] { comm.all_gather(values.data(), values.data(), counts); });
    CHECK(text.find("all_gather of 2 x float in parts 0, 2") != std::string::npos);
    CHECK(text.find("all_gather of 2 x float in parts 2, 0") != std::string::npos);
  }
  SUBCASE("sent and received counts") {
    std::vector<index_t> send_counts(ranks, 1), receive_counts(ranks, 1);
    std::vector<float> received(8);
    if (odd) receive_counts[0] = 2;
    CHECK(error_of([&] { comm.all_to_all(values.data(), send_counts, received.data(), receive_counts); }) ==
          "tessera: all_to_all where rank 0 sends 1 elements to rank " + std::to_string(last) +
              ", which receives 2; wanted equal counts; make send_counts[r] of rank s equal to receive_counts[s] of "
              "rank r for all ranks");
  }
  // The group still works.
  float value = 1;
  comm.all_reduce(&value, 1, reduction::sum);
  CHECK(value == static_cast<float>(comm.size()));
}

TEST_CASE("long lists of counts are told apart") {
  std::vector<index_t> counts(20, 1);
  const std::string text = tessera::detail::counts_text(counts);
  CHECK(text.find("1, 1, 1, 1, 1, 1, 1, 1, ... (20 counts, hash ") == 0);
  std::swap(counts[18] = 2, counts[19]);
  const std::string other = tessera::detail::counts_text(counts);
  CHECK(other != text);
  std::swap(counts[18], counts[19]);
  CHECK(tessera::detail::counts_text(counts) != other);
}

}  // namespace
