#include <doctest/doctest.h>

#include <tessera/comm/serial.hpp>

#include <cstdint>
#include <vector>

namespace {

using tessera::index_t;
using tessera::reduction;

static_assert(tessera::communicator<tessera::serial_comm>);
static_assert(!tessera::message_element<char> && !tessera::message_element<float const>);

TEST_CASE("a group of one") {
  const tessera::serial_comm comm;
  CHECK(comm.rank() == 0);
  CHECK(comm.size() == 1);
  CHECK(comm.split(3, 1).size() == 1);
  CHECK_THROWS_AS(comm.split(-1, 0), tessera::error);
}

TEST_CASE_TEMPLATE("collectives of one rank copy or do nothing", T, float, double, std::int32_t, std::int64_t,
                   std::uint8_t) {
  tessera::serial_comm comm;
  const std::vector<T> values{1, 2, 3};
  const std::vector<index_t> counts{3};
  std::vector<T> same = values;
  comm.all_reduce(same.data(), 3, reduction::sum);
  comm.start_all_reduce(same.data(), 3, reduction::maximum).wait();
  comm.broadcast(same.data(), 3, 0);
  comm.all_gather(same.data(), same.data(), counts);
  comm.barrier();
  CHECK(same == values);

  std::vector<T> gathered(3);
  comm.all_gather(values.data(), gathered.data(), counts);
  CHECK(gathered == values);
  std::vector<T> scattered(3);
  comm.reduce_scatter(values.data(), scattered.data(), counts, reduction::sum);
  CHECK(scattered == values);
  std::vector<T> exchanged(3);
  comm.all_to_all(values.data(), counts, exchanged.data(), counts);
  CHECK(exchanged == values);
}

TEST_CASE("null buffers of no elements") {
  tessera::serial_comm comm;
  float* none = nullptr;
  const std::vector<index_t> counts{0};
  comm.all_reduce(none, 0, reduction::sum);
  comm.all_gather<float>(none, none, counts);
  comm.reduce_scatter<float>(none, none, counts, reduction::sum);
  comm.all_to_all<float>(none, counts, none, counts);
  comm.broadcast(none, 0, 0);
  comm.start_send<float>(none, 0, 0, 0).wait();
  comm.start_receive(none, 0, 0, 0).wait();
}

TEST_CASE("arguments of other ranks are refused") {
  tessera::serial_comm comm;
  float value = 0;
  const std::vector<index_t> two{1, 0};
  CHECK_THROWS_AS(comm.broadcast(&value, 1, 1), tessera::error);
  CHECK_THROWS_AS(comm.all_gather(&value, &value, two), tessera::error);
  CHECK_THROWS_AS((void)comm.start_send(&value, 1, 1, 0), tessera::error);
  CHECK_THROWS_AS(comm.all_reduce(&value, -1, reduction::sum), tessera::error);
}

TEST_CASE("messages to itself arrive by tag and in order") {
  tessera::serial_comm comm;
  const int first = 1, second = 2, other = 3;
  int a = 0, b = 0, c = 0;
  comm.start_send(&first, 1, 0, 7).wait();
  comm.start_send(&other, 1, 0, 8).wait();
  comm.start_send(&second, 1, 0, 7).wait();
  comm.start_receive(&a, 1, 0, 7).wait();
  comm.start_receive(&b, 1, 0, 7).wait();
  comm.start_receive(&c, 1, 0, 8).wait();
  CHECK(a == 1);
  CHECK(b == 2);
  CHECK(c == 3);
}

TEST_CASE("a receive may start before its send") {
  tessera::serial_comm comm;
  int a = 0, b = 0;
  auto first = comm.start_receive(&a, 1, 0, 7);
  auto second = comm.start_receive(&b, 1, 0, 8);
  CHECK_FALSE(first.test());
  CHECK_THROWS_WITH_AS(first.wait(),
                       "tessera: waiting for a message with tag 7 that was never sent; wanted a send of the only rank "
                       "to itself before the wait; start the send first, or run more ranks",
                       tessera::error);
  const int value = 5;
  comm.start_send(&value, 1, 0, 8).wait();
  CHECK_FALSE(first.test());
  CHECK(second.test());
  comm.start_send(&value, 1, 0, 7).wait();
  first.wait();
  CHECK(a == 5);
  CHECK(b == 5);
}

TEST_CASE("a receive whose request is gone is withdrawn") {
  tessera::serial_comm comm;
  int gone = 0, kept = 0;
  { auto request = comm.start_receive(&gone, 1, 0, 1); }
  const int value = 9;
  comm.start_send(&value, 1, 0, 1).wait();
  CHECK(gone == 0);
  comm.start_receive(&kept, 1, 0, 1).wait();
  CHECK(kept == 9);
}

TEST_CASE("a receive of another size is refused") {
  tessera::serial_comm comm;
  const int value = 9;
  std::int64_t wide = 0;
  comm.start_send(&value, 1, 0, 1).wait();
  CHECK_THROWS_AS((void)comm.start_receive(&wide, 1, 0, 1), tessera::error);
}

}  // namespace
