#include <doctest/doctest.h>

#include <tessera/comm/recording.hpp>
#include <tessera/comm/serial.hpp>

#include <string>

namespace {

using tessera::collective;
using tessera::index_t;
using tessera::recorded_call;
using tessera::reduction;

static_assert(tessera::communicator<tessera::recording<tessera::serial_comm>>);

TEST_CASE("every call is logged with its payload") {
  tessera::recording comm{tessera::serial_comm{}};
  const std::vector<index_t> counts{2};
  double values[6] = {1, 2, 3, 4, 5, 6};
  double other[2];
  float single = 0;
  comm.all_reduce(values, 6, reduction::maximum);
  comm.all_gather(values, other, counts);
  comm.reduce_scatter(values, other, counts, reduction::sum);
  comm.all_to_all(values, counts, other, counts);
  comm.broadcast(&single, 1, 0);
  comm.start_send(values, 3, 0, 0).wait();
  comm.start_receive(values, 3, 0, 0).wait();
  comm.start_all_reduce(&single, 1, reduction::sum).wait();
  comm.barrier();
  const std::vector<recorded_call> expected{{collective::all_reduce, 0, 6, 8, reduction::maximum},
                                            {collective::all_gather, 0, 2, 8},
                                            {collective::reduce_scatter, 0, 2, 8, reduction::sum},
                                            {collective::all_to_all, 0, 2, 8},
                                            {collective::broadcast, 0, 1, 4},
                                            {collective::send, 0, 3, 8},
                                            {collective::receive, 0, 3, 8},
                                            {collective::all_reduce, 0, 1, 4, reduction::sum},
                                            {collective::barrier, 0, 0, 0}};
  CHECK(comm.calls() == expected);
  CHECK(other[1] == 2);
  comm.clear();
  CHECK(comm.calls().empty());
}

TEST_CASE("groups share the log and label their entries") {
  tessera::recording comm{tessera::serial_comm{}};
  auto child = comm.split(0, 0);
  child.label(5);
  child.barrier();
  comm.barrier();
  REQUIRE(comm.calls().size() == 2);
  CHECK(comm.calls()[0].group == 5);
  CHECK(comm.calls()[1].group == 0);
  child.clear();
  CHECK(comm.calls().empty());
}

TEST_CASE("memory is that of the inner communicator, and not logged") {
  tessera::recording comm{tessera::serial_comm{}};
  const auto before = tessera::host_memory::used().live;
  const auto memory = comm.allocate(100);
  CHECK(tessera::host_memory::used().live - before == 128);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % 64 == 0);
  CHECK(comm.calls().empty());
}

TEST_CASE("names of collectives and reductions") {
  CHECK(std::string(to_string(collective::reduce_scatter)) == "reduce_scatter");
  CHECK(std::string(to_string(reduction::maximum)) == "maximum");
}

}  // namespace
