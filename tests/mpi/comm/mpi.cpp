#include "support/message_values.hpp"

#include <doctest/doctest.h>

#include <tessera/comm/mpi.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using message_values::reduced;
using message_values::value_of;
using message_values::values_of;
using tessera::index_t;
using tessera::mpi_comm;
using tessera::mpi_options;
using tessera::reduction;

static_assert(tessera::communicator<mpi_comm>);
static_assert(!std::copyable<mpi_comm> && !std::copyable<tessera::mpi_request>);

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// Uneven counts with a zero: rank r of 4 has 5, 0, 7, 3.
std::vector<index_t> uneven(int ranks) {
  const index_t some[] = {5, 0, 7, 3};
  std::vector<index_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back(some[r % 4]);
  return counts;
}

/// One group with the usual settings and two that cut nearly every call into pieces.
std::vector<mpi_options> all_options() {
  return {{}, {.chunk_limit = 4}, {.chunk_limit = 1, .piece_bytes = 1}, {.piece_bytes = 24}};
}

TEST_CASE_TEMPLATE("all_reduce", T, float, double, std::int32_t, std::int64_t, std::uint8_t) {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    for (const reduction op : {reduction::sum, reduction::maximum})
      for (const index_t count : {0, 1, 4, 13}) {
        std::vector<T> expected;
        for (index_t i = 0; i < count; ++i) expected.push_back(reduced<T>(comm.size(), i, op));
        auto values = values_of<T>(comm.rank(), count);
        comm.all_reduce(values.data(), count, op);
        CHECK(values == expected);
        values = values_of<T>(comm.rank(), count);
        auto request = comm.start_all_reduce(values.data(), count, op);
        request.wait();
        CHECK(request.test());
        CHECK(values == expected);
      }
  }
}

TEST_CASE_TEMPLATE("the maximum is NaN whichever rank holds it", T, float, double) {
  mpi_comm comm;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (int holder = 0; holder < comm.size(); ++holder) {
    std::vector<T> values{comm.rank() == holder ? nan : T(1), static_cast<T>(comm.rank()), T(-1)};
    comm.all_reduce(values.data(), 3, reduction::maximum);
    CHECK(std::isnan(values[0]));
    CHECK(values[1] == static_cast<T>(comm.size() - 1));
    CHECK(values[2] == T(-1));

    T value = comm.rank() == holder ? nan : T(1);
    comm.start_all_reduce(&value, 1, reduction::maximum).wait();
    CHECK(std::isnan(value));

    const std::vector<index_t> one_each(at(comm.size()), 1);
    const std::vector<T> send(at(comm.size()), comm.rank() == holder ? nan : T(1));
    T part = 0;
    comm.reduce_scatter(send.data(), &part, one_each, reduction::maximum);
    CHECK(std::isnan(part));
  }
}

TEST_CASE_TEMPLATE("all_gather", T, float, double, std::int32_t, std::int64_t, std::uint8_t) {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    const auto counts = uneven(comm.size());
    std::vector<T> expected;
    index_t own = 0;
    for (int r = 0; r < comm.size(); ++r) {
      if (r == comm.rank()) own = static_cast<index_t>(expected.size());
      for (index_t i = 0; i < counts[at(r)]; ++i) expected.push_back(value_of<T>(r, i));
    }
    const auto send = values_of<T>(comm.rank(), counts[at(comm.rank())]);
    std::vector<T> receive(expected.size());
    comm.all_gather(send.data(), receive.data(), counts);
    CHECK(receive == expected);

    std::vector<T> in_place(expected.size());
    std::copy(send.begin(), send.end(), in_place.begin() + own);
    comm.all_gather(in_place.data() + own, in_place.data(), counts);
    CHECK(in_place == expected);
  }
}

TEST_CASE_TEMPLATE("reduce_scatter", T, float, double, std::int32_t, std::int64_t, std::uint8_t) {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    const auto counts = uneven(comm.size());
    const auto begins = tessera::detail::begins_of(counts);
    const auto send = values_of<T>(comm.rank(), tessera::detail::total_of(counts));
    const index_t own = counts[at(comm.rank())];
    for (const reduction op : {reduction::sum, reduction::maximum}) {
      std::vector<T> expected;
      for (index_t i = 0; i < own; ++i) expected.push_back(reduced<T>(comm.size(), begins[at(comm.rank())] + i, op));
      std::vector<T> receive(at(own));
      comm.reduce_scatter(send.data(), receive.data(), counts, op);
      CHECK(receive == expected);
    }
  }
}

TEST_CASE_TEMPLATE("all_to_all", T, float, double, std::int32_t, std::int64_t, std::uint8_t) {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    // Rank s sends (s + 2 r) % 4 elements to rank r: every rank has zeros, and no two rows agree.
    const auto count = [](int from, int to) { return static_cast<index_t>((from + 2 * to) % 4); };
    std::vector<index_t> send_counts, receive_counts;
    std::vector<T> send, expected;
    for (int r = 0; r < comm.size(); ++r) {
      send_counts.push_back(count(comm.rank(), r));
      receive_counts.push_back(count(r, comm.rank()));
      for (index_t i = 0; i < count(comm.rank(), r); ++i) send.push_back(value_of<T>(comm.rank(), 5 * r + i));
      for (index_t i = 0; i < count(r, comm.rank()); ++i) expected.push_back(value_of<T>(r, 5 * comm.rank() + i));
    }
    std::vector<T> receive(expected.size());
    comm.all_to_all(send.data(), send_counts, receive.data(), receive_counts);
    CHECK(receive == expected);
  }
}

TEST_CASE_TEMPLATE("broadcast", T, float, double, std::int32_t, std::int64_t, std::uint8_t) {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    for (int root = 0; root < comm.size(); ++root) {
      auto values = values_of<T>(comm.rank(), 9);
      comm.broadcast(values.data(), 9, root);
      CHECK(values == values_of<T>(root, 9));
    }
  }
}

TEST_CASE("null buffers of no elements, on some ranks or all") {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    float* none = nullptr;
    const std::vector<index_t> zeros(at(comm.size()), 0);
    comm.all_reduce(none, 0, reduction::sum);
    comm.start_all_reduce(none, 0, reduction::sum).wait();
    comm.broadcast(none, 0, 0);
    comm.all_gather<float>(none, none, zeros);
    comm.reduce_scatter<float>(none, none, zeros, reduction::sum);
    comm.all_to_all<float>(none, zeros, none, zeros);
    comm.start_send<float>(none, 0, comm.rank(), 0).wait();

    // Only the last rank has anything.
    std::vector<index_t> counts = zeros;
    counts.back() = 6;
    const bool last = comm.rank() == comm.size() - 1;
    const auto values = values_of<float>(0, 6);
    std::vector<float> receive(6);
    comm.all_gather<float>(last ? values.data() : none, receive.data(), counts);
    CHECK(receive == values);
    comm.reduce_scatter<float>(values.data(), last ? receive.data() : none, counts, reduction::maximum);
    CHECK(receive == values);
    const auto size = static_cast<float>(comm.size());
    comm.reduce_scatter<float>(values.data(), last ? receive.data() : none, counts, reduction::sum);
    if (last) {
      for (std::size_t i = 0; i < 6; ++i) CHECK(receive[i] == size * values[i]);
    }
    // The last rank sends to rank 0 and nobody else sends.
    std::vector<index_t> send_counts = zeros, receive_counts = zeros;
    if (last) send_counts[0] = 6;
    if (comm.rank() == 0) receive_counts.back() = 6;
    std::vector<float> arrived(6);
    comm.all_to_all<float>(last ? values.data() : none, send_counts, comm.rank() == 0 ? arrived.data() : none,
                           receive_counts);
    if (comm.rank() == 0) CHECK(arrived == values);
  }
}

TEST_CASE("messages around a ring, several pieces and tags at once") {
  for (mpi_options const& options : all_options()) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    const auto low = values_of<double>(comm.rank(), 10);
    const auto high = values_of<double>(comm.rank() + 1, 7);
    std::vector<double> from_low(10), from_high(7);
    auto receive_high = comm.start_receive(from_high.data(), 7, previous, 32766);
    auto receive_low = comm.start_receive(from_low.data(), 10, previous, 0);
    auto send_low = comm.start_send(low.data(), 10, next, 0);
    auto send_high = comm.start_send(high.data(), 7, next, 32766);
    while (!receive_high.test()) {
    }
    receive_low.wait();
    send_low.wait();
    send_high.wait();
    CHECK(from_low == values_of<double>(previous, 10));
    CHECK(from_high == values_of<double>(previous + 1, 7));
  }
}

TEST_CASE("an all_to_all does not take other messages under way") {
  mpi_comm comm;
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  const int sent = comm.rank();
  int message = -1;
  auto send = comm.start_send(&sent, 1, next, 32766);
  const std::vector<index_t> one_each(at(comm.size()), 1);
  std::vector<int> mine(at(comm.size())), theirs(at(comm.size()), -1);
  for (int r = 0; r < comm.size(); ++r) mine[at(r)] = 100 * comm.rank() + r;
  comm.all_to_all(mine.data(), one_each, theirs.data(), one_each);
  for (int r = 0; r < comm.size(); ++r) CHECK(theirs[at(r)] == 100 * r + comm.rank());
  comm.start_receive(&message, 1, previous, 32766).wait();
  CHECK(message == previous);
}

TEST_CASE("a request that goes out of scope early has completed") {
  mpi_comm comm;
  std::vector<double> sums(100'000, 1.0);
  std::vector<int> received(1000, 0);
  const std::vector<int> sent(1000, comm.rank());
  {
    auto reduce = comm.start_all_reduce(sums.data(), 100'000, reduction::sum);
    auto receive = comm.start_receive(received.data(), 1000, (comm.rank() + comm.size() - 1) % comm.size(), 1);
    auto send = comm.start_send(sent.data(), 1000, (comm.rank() + 1) % comm.size(), 1);
    auto moved = std::move(reduce);
    receive = std::move(moved);  // the receive completes when its request is replaced
  }
  CHECK(sums == std::vector<double>(100'000, comm.size()));
  CHECK(received == std::vector<int>(1000, (comm.rank() + comm.size() - 1) % comm.size()));
}

TEST_CASE("a request unwound by an exception lets it pass and leaves no receive behind") {
  mpi_comm comm;
  int never = -1;
  std::string caught;
  try {
    auto request = comm.start_receive(&never, 1, comm.rank(), 5);
    throw std::runtime_error("seen");
  } catch (std::runtime_error const& e) {
    caught = e.what();
  }
  CHECK(caught == "seen");
  const int sent = 3;
  int received = 0;
  auto send = comm.start_send(&sent, 1, comm.rank(), 5);
  comm.start_receive(&received, 1, comm.rank(), 5).wait();
  CHECK(never == -1);
  CHECK(received == 3);
}

TEST_CASE("split by color, ordered by key, inheriting the settings") {
  mpi_comm comm;
  comm.piece_bytes(4096);
  auto half = comm.split(comm.rank() % 2, -comm.rank());
  const int size = (comm.size() + 1 - comm.rank() % 2) / 2;
  CHECK(half.size() == size);
  CHECK(half.rank() == size - 1 - comm.rank() / 2);
  CHECK(half.piece_bytes() == 4096);
  float ones = 1;
  half.all_reduce(&ones, 1, reduction::maximum);
  half.all_reduce(&ones, 1, reduction::sum);
  CHECK(ones == static_cast<float>(size));
  // A child outlives its parent.
  std::optional<mpi_comm> parent(std::in_place);
  auto child = parent->split(0, 0);
  parent.reset();
  float value = static_cast<float>(child.rank());
  child.all_reduce(&value, 1, reduction::maximum);
  CHECK(value == static_cast<float>(child.size() - 1));
}

TEST_CASE("many groups come and go") {
  mpi_comm comm;
  for (int i = 0; i < 3000; ++i) {
    auto group = comm.split(0, comm.rank());
    if (i % 1000 == 0) group.barrier();
  }
  CHECK(comm.split(0, 0).size() == comm.size());
}

TEST_CASE("bad arguments are refused on the rank that gives them") {
  mpi_comm comm;
  float value = 0;
  CHECK_THROWS_AS(comm.all_reduce(&value, -1, reduction::sum), tessera::error);
  CHECK_THROWS_AS(comm.broadcast(&value, 1, comm.size()), tessera::error);
  CHECK_THROWS_AS((void)comm.start_send(&value, 1, comm.size(), 0), tessera::error);
  CHECK_THROWS_AS((void)comm.start_receive(&value, 1, 0, 32767), tessera::error);
  const std::vector<index_t> too_many(at(comm.size()) + 1, 0);
  CHECK_THROWS_AS(comm.all_gather(&value, &value, too_many), tessera::error);
  CHECK_THROWS_AS(comm.split(-1, 0), tessera::error);
  CHECK_THROWS_AS(comm.piece_bytes(0), tessera::error);
  CHECK(comm.piece_bytes() == index_t{1} << 20);
  CHECK_THROWS_AS(mpi_comm(MPI_COMM_WORLD, {.chunk_limit = index_t{1} << 31}), tessera::error);
}

TEST_CASE("a failure inside MPI becomes an error that names the call") {
  mpi_comm comm;
  const std::vector<double> sent(4, 1.0);
  double received = 0;
  std::string text;
  auto send = comm.start_send(sent.data(), 4, comm.rank(), 0);
  try {
    comm.start_receive(&received, 1, comm.rank(), 0).wait();  // too small for the message
  } catch (tessera::error const& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("tessera: MPI_Wait failed with code ") == 0);
  CHECK(text.find("truncat") != std::string::npos);
}

TEST_CASE("a message of other elements than its receive asks for is an error") {
  for (const mpi_options options : {mpi_options{}, mpi_options{.chunk_limit = 4}}) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    const std::vector<float> sent(3, 1.0f);
    std::vector<float> received(4);
    const auto text_of = [&](auto wait) {
      std::string text;
      auto send = comm.start_send(sent.data(), 3, comm.rank(), 0);
      try {
        auto receive = comm.start_receive(received.data(), 4, comm.rank(), 0);
        wait(receive);
      } catch (tessera::error const& e) {
        text = e.what();
      }
      return text;
    };
    const std::string wanted = "tessera: a message of 3 elements from rank " + std::to_string(comm.rank()) +
                               " of the group; wanted 4 as the receive says; check that both ranks work out the same "
                               "counts and element types for the message";
    CHECK(text_of([](auto& receive) { receive.wait(); }) == wanted);
    CHECK(text_of([](auto& receive) {
            while (!receive.test()) {
            }
          }) == wanted);
  }
}

TEST_CASE("an environment inside another one leaves MPI running") {
  { tessera::mpi_environment inner; }
  mpi_comm comm;
  float value = 1;
  comm.all_reduce(&value, 1, reduction::sum);
  CHECK(value == static_cast<float>(comm.size()));
}

}  // namespace
