#include "job.hpp"
#include "support/message_values.hpp"

#include <tessera/comm/checked.hpp>
#include <tessera/comm/recording.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using job::at;
using job::device_side;
using job::device_values;
using job::host_side;
using job::world;
using message_values::reduced;
using message_values::value_of;
using message_values::values_of;
using tessera::index_t;
using tessera::reduction;

static_assert(!std::copyable<tessera::hccl_comm> && !std::copyable<tessera::hccl_request>);
static_assert(tessera::communicator<tessera::checked<tessera::recording<tessera::hccl_comm>>>);

#define ALL_SIDES                                                                                                \
  device_side<float>, device_side<std::int32_t>, device_side<std::int64_t>, host_side<float>, host_side<double>, \
      host_side<std::int32_t>, host_side<std::int64_t>, host_side<std::uint8_t>

/// Counts of each way that parts go: equal, nearly so, very uneven with empty ones, of one rank alone, none.
std::vector<std::vector<index_t>> all_counts(int ranks) {
  const index_t nearly[] = {9, 8, 9, 8, 8, 9, 8, 8};
  const index_t uneven[] = {5, 0, 7, 3, 0, 1, 2, 40};
  std::vector<std::vector<index_t>> all(5);
  for (int r = 0; r < ranks; ++r) {
    all[0].push_back(6);
    all[1].push_back(nearly[r]);
    all[2].push_back(uneven[r]);
    all[3].push_back(r == ranks - 1 ? 6 : 0);
    all[4].push_back(0);
  }
  return all;
}

/// Another rank of the same half of a server, or this one where it is alone.
int partner() { return world().size() == 1 ? 0 : world().rank() ^ 1; }

/// All ranks, and all in another order than the job's.
template <class Test>
void in_all_groups(Test test) {
  test(world());
  auto other = world().split(0, -world().rank());
  test(other);
}

}  // namespace

TEST_CASE_TEMPLATE("hccl: all_reduce", Side, ALL_SIDES) {
  using T = typename Side::element;
  in_all_groups([](tessera::hccl_comm& group) {
    auto& comm = Side::of(group);
    for (const reduction op : {reduction::sum, reduction::maximum})
      for (const index_t count : {0, 1, 4, 13}) {
        std::vector<T> expected;
        for (index_t i = 0; i < count; ++i) expected.push_back(reduced<T>(comm.size(), i, op));
        typename Side::values values(values_of<T>(comm.rank(), count));
        comm.all_reduce(values.data(), count, op);
        CHECK(values.read() == expected);
        typename Side::values others(values_of<T>(comm.rank(), count));
        auto request = comm.start_all_reduce(others.data(), count, op);
        request.wait();
        CHECK(request.test());
        CHECK(others.read() == expected);
      }
  });
}

TEST_CASE_TEMPLATE("hccl: the maximum is NaN whichever rank holds it", Side, device_side<float>, host_side<float>,
                   host_side<double>) {
  using T = typename Side::element;
  auto& comm = Side::of(world());
  T nans[] = {std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::quiet_NaN()};
  const T infinity = std::numeric_limits<T>::infinity();
  for (const T nan : nans)
    for (int holder = 0; holder < comm.size(); ++holder) {
      const bool holds = comm.rank() == holder;
      typename Side::values values(
          {holds ? nan : T(1), static_cast<T>(comm.rank()), T(-1), holds ? infinity : T(0), -infinity});
      comm.all_reduce(values.data(), 5, reduction::maximum);
      const auto found = values.read();
      CHECK(std::isnan(found[0]));
      CHECK(std::vector<T>(found.begin() + 1, found.end()) ==
            std::vector<T>{static_cast<T>(comm.size() - 1), T(-1), infinity, -infinity});

      typename Side::values value({holds ? nan : T(1)});
      comm.start_all_reduce(value.data(), 1, reduction::maximum).wait();
      CHECK(std::isnan(value.read()[0]));

      const std::vector<index_t> one_each(at(comm.size()), 1);
      typename Side::values send(std::vector<T>(at(comm.size()), holds ? nan : T(1)));
      typename Side::values part({T(0)});
      comm.reduce_scatter(static_cast<T const*>(send.data()), part.data(), one_each, reduction::maximum);
      CHECK(std::isnan(part.read()[0]));
    }
}

TEST_CASE_TEMPLATE("hccl: all_gather", Side, ALL_SIDES) {
  using T = typename Side::element;
  in_all_groups([](tessera::hccl_comm& group) {
    auto& comm = Side::of(group);
    for (auto const& counts : all_counts(comm.size())) {
      std::vector<T> expected;
      index_t own = 0;
      for (int r = 0; r < comm.size(); ++r) {
        if (r == comm.rank()) own = static_cast<index_t>(expected.size());
        for (T const v : values_of<T>(r, counts[at(r)])) expected.push_back(v);
      }
      const auto mine = values_of<T>(comm.rank(), counts[at(comm.rank())]);
      typename Side::values send(mine);
      typename Side::values receive(std::vector<T>(expected.size()));
      comm.all_gather(static_cast<T const*>(send.data()), receive.data(), counts);
      CHECK(receive.read() == expected);
      std::vector<T> placed(expected.size());
      std::copy(mine.begin(), mine.end(), placed.begin() + own);
      typename Side::values in_place(placed);
      comm.start_all_gather(static_cast<T const*>(in_place.data() + own), in_place.data(), counts).wait();
      CHECK(in_place.read() == expected);
    }
  });
}

TEST_CASE_TEMPLATE("hccl: reduce_scatter", Side, ALL_SIDES) {
  using T = typename Side::element;
  in_all_groups([](tessera::hccl_comm& group) {
    auto& comm = Side::of(group);
    for (auto const& counts : all_counts(comm.size())) {
      const auto begins = tessera::detail::begins_of(counts);
      typename Side::values send(values_of<T>(comm.rank(), tessera::detail::total_of(counts)));
      for (const reduction op : {reduction::sum, reduction::maximum}) {
        const index_t own = counts[at(comm.rank())];
        std::vector<T> expected;
        for (index_t i = 0; i < own; ++i) expected.push_back(reduced<T>(comm.size(), begins[at(comm.rank())] + i, op));
        typename Side::values receive(std::vector<T>(at(own)));
        comm.reduce_scatter(static_cast<T const*>(send.data()), receive.data(), counts, op);
        CHECK(receive.read() == expected);
        typename Side::values later(std::vector<T>(at(own)));
        comm.start_reduce_scatter(static_cast<T const*>(send.data()), later.data(), counts, op).wait();
        CHECK(later.read() == expected);
      }
    }
  });
}

TEST_CASE_TEMPLATE("hccl: all_to_all", Side, ALL_SIDES) {
  using T = typename Side::element;
  in_all_groups([](tessera::hccl_comm& group) {
    auto& comm = Side::of(group);
    // Rank s sends (s + 2 r) % 4 elements to rank r: every rank has zeros, and no two rows agree.
    const auto count = [](int from, int to) { return static_cast<index_t>((from + 2 * to) % 4); };
    std::vector<index_t> send_counts, receive_counts;
    std::vector<T> mine, expected;
    for (int r = 0; r < comm.size(); ++r) {
      send_counts.push_back(count(comm.rank(), r));
      receive_counts.push_back(count(r, comm.rank()));
      for (index_t i = 0; i < count(comm.rank(), r); ++i) mine.push_back(value_of<T>(comm.rank(), 5 * r + i));
      for (index_t i = 0; i < count(r, comm.rank()); ++i) expected.push_back(value_of<T>(r, 5 * comm.rank() + i));
    }
    typename Side::values send(mine);
    typename Side::values receive(std::vector<T>(expected.size()));
    comm.all_to_all(static_cast<T const*>(send.data()), send_counts, receive.data(), receive_counts);
    CHECK(receive.read() == expected);
    const std::vector<index_t> none(send_counts.size(), 0);
    comm.all_to_all(static_cast<T const*>(nullptr), none, static_cast<T*>(nullptr), none);
  });
}

TEST_CASE_TEMPLATE("hccl: broadcast", Side, ALL_SIDES) {
  using T = typename Side::element;
  in_all_groups([](tessera::hccl_comm& group) {
    auto& comm = Side::of(group);
    for (int root = 0; root < comm.size(); ++root) {
      typename Side::values values(values_of<T>(comm.rank(), 9));
      comm.broadcast(values.data(), 9, root);
      CHECK(values.read() == values_of<T>(root, 9));
    }
    comm.barrier();
  });
}

TEST_CASE_TEMPLATE("hccl: messages around a ring, several at once, in another order than they are sent", Side,
                   device_side<float>, device_side<std::int64_t>, host_side<double>, host_side<std::uint8_t>) {
  using T = typename Side::element;
  in_all_groups([](tessera::hccl_comm& group) {
    auto& comm = Side::of(group);
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    typename Side::values low(values_of<T>(comm.rank(), 10)), high(values_of<T>(comm.rank() + 1, 7));
    typename Side::values from_low(std::vector<T>(10)), from_high(std::vector<T>(7)), early(std::vector<T>(10));
    auto receive_high = comm.start_receive(from_high.data(), 7, previous, 32766);
    auto receive_low = comm.start_receive(from_low.data(), 10, previous, 0);
    auto send_low = comm.start_send(static_cast<T const*>(low.data()), 10, next, 0);
    auto send_high = comm.start_send(static_cast<T const*>(high.data()), 7, next, 32766);
    auto send_early = comm.start_send(static_cast<T const*>(low.data()), 10, next, 3);
    auto send_nothing = comm.start_send(static_cast<T const*>(nullptr), 0, next, 4);
    while (!receive_high.test()) {
    }
    receive_low.wait();
    send_low.wait();
    send_high.wait();
    CHECK(from_low.read() == values_of<T>(previous, 10));
    CHECK(from_high.read() == values_of<T>(previous + 1, 7));
    // The last one has come before it is asked for.
    comm.start_receive(static_cast<T*>(nullptr), 0, previous, 4).wait();
    auto late = comm.start_receive(early.data(), 10, previous, 3);
    while (!late.test()) {
    }
    CHECK(early.read() == values_of<T>(previous, 10));
  });
}

TEST_CASE("hccl: messages of one sender and tag arrive in order, however many") {
  auto& comm = world();
  const int other = partner();
  std::vector<device_values<float>> sent, received;
  std::vector<tessera::hccl_request> requests;
  for (int i = 0; i < 20; ++i) {
    sent.emplace_back(values_of<float>(comm.rank() + i, 5));
    received.emplace_back(std::vector<float>(5));
  }
  for (auto const& s : sent) requests.push_back(comm.start_send<float>(s.data(), 5, other, 9));
  for (auto const& r : received) requests.push_back(comm.start_receive(r.data(), 5, other, 9));
  std::reverse(requests.begin(), requests.end());
  for (auto& request : requests) request.wait();
  for (int i = 0; i < 20; ++i) CHECK(received[at(i)].read() == values_of<float>(other + i, 5));
}

TEST_CASE("hccl: what is sent may change at once, and a group's messages are its own") {
  auto& comm = world();
  auto twin = comm.split(0, comm.rank());
  const int other = partner();
  device_values<float> values({1, 2, 3}), zeros({0, 0, 0}), in_twin({0, 0, 0}), in_world({0, 0, 0});
  twin.start_send<float>(values.data(), 3, other, 1).wait();
  CHECK(aclrtMemcpyAsync(values.data(), 12, zeros.data(), 12, ACL_MEMCPY_DEVICE_TO_DEVICE,
                         job::here().device->stream()) == ACL_SUCCESS);
  comm.start_send<float>(values.data(), 3, other, 1).wait();
  std::int32_t host_value = comm.rank() + 5;
  comm.host().start_send(&host_value, 1, other, 1).wait();
  host_value = -1;
  std::int32_t host_received = 0;
  comm.host().start_receive(&host_received, 1, other, 1).wait();
  comm.start_receive(in_world.data(), 3, other, 1).wait();
  twin.start_receive(in_twin.data(), 3, other, 1).wait();
  CHECK(in_twin.read() == std::vector<float>{1, 2, 3});
  CHECK(in_world.read() == std::vector<float>{0, 0, 0});
  CHECK(host_received == other + 5);
}

TEST_CASE("hccl: collectives that are under way beside kernels and each other") {
  auto& comm = world();
  std::vector<device_values<float>> values;
  std::vector<tessera::hccl_request> requests;
  const std::vector<index_t> counts(at(comm.size()), 3);
  device_values<float> gathered(std::vector<float>(at(3 * comm.size())));
  for (int i = 0; i < 10; ++i) values.emplace_back(values_of<float>(comm.rank() + i, 50));
  for (int i = 0; i < 10; ++i) requests.push_back(comm.start_all_reduce(values[at(i)].data(), 50, reduction::sum));
  const device_values<float> mine(values_of<float>(comm.rank(), 3));
  requests.push_back(comm.start_all_gather<float>(mine.data(), gathered.data(), counts));
  device_values<float> beside(values_of<float>(comm.rank(), 50));
  comm.all_reduce(beside.data(), 50, reduction::sum);  // in order after those
  while (!requests.back().test()) {
  }
  for (auto& request : requests) request.wait();
  std::vector<float> all;
  for (int r = 0; r < comm.size(); ++r)
    for (const float v : values_of<float>(r, 3)) all.push_back(v);
  CHECK(gathered.read() == all);
  for (int i = 0; i <= 10; ++i) {
    std::vector<float> expected(50);
    for (int r = 0; r < comm.size(); ++r)
      for (index_t k = 0; k < 50; ++k) expected[at(k)] += value_of<float>(r + i % 10, k);
    CHECK((i < 10 ? values[at(i)] : beside).read() == expected);
  }
}

TEST_CASE("hccl: requests that go out of scope, are replaced, or are unwound") {
  auto& comm = world();
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  device_values<float> sums(std::vector<float>(1000, 1.0f)), received({0, 0});
  device_values<float> sent({static_cast<float>(comm.rank()), 1});
  {
    auto reduce = comm.start_all_reduce(sums.data(), 1000, reduction::sum);
    auto receive = comm.start_receive(received.data(), 2, previous, 1);
    auto send = comm.start_send<float>(sent.data(), 2, next, 1);
    auto moved = std::move(reduce);
    receive = std::move(moved);  // the receive completes when its request is replaced
  }
  CHECK(sums.read() == std::vector<float>(1000, static_cast<float>(comm.size())));
  CHECK(received.read() == std::vector<float>{static_cast<float>(previous), 1});

  device_values<float> never({-1});
  try {
    auto request = comm.start_receive(never.data(), 1, previous, 5);
    throw std::runtime_error("seen");
  } catch (std::runtime_error const&) {
  }
  device_values<float> later({0});
  auto send = comm.start_send<float>(sent.data(), 1, next, 5);
  comm.start_receive(later.data(), 1, previous, 5).wait();
  CHECK(never.read() == std::vector<float>{-1});
  CHECK(later.read() == std::vector<float>{static_cast<float>(previous)});
}

TEST_CASE("hccl: a message of another size than its receive is an error on the receiver, and later ones arrive") {
  auto& comm = world();
  const int other = partner();
  for (const bool early : {false, true}) {
    device_values<float> sent({1, 2, 3}), received({0, 0, 0, 0});
    std::optional<tessera::hccl_request> receive;
    if (!early) receive = comm.start_receive(received.data(), 4, other, 2);
    comm.start_send<float>(sent.data(), 3, other, 2).wait();
    comm.start_send<float>(sent.data(), 3, other, 3).wait();
    device_values<float> next({0, 0, 0});
    if (early) {
      comm.start_receive(next.data(), 3, other, 3).wait();
      receive = comm.start_receive(received.data(), 4, other, 2);
    }
    std::string text;
    try {
      receive->wait();
    } catch (tessera::error const& e) {
      text = e.what();
    }
    CHECK(text.find("a message of 12 bytes for a receive of 16 bytes (tag 2)") != std::string::npos);
    if (!early) comm.start_receive(next.data(), 3, other, 3).wait();
    CHECK(next.read() == std::vector<float>{1, 2, 3});
  }
}

TEST_CASE("hccl: split by color, ordered by key") {
  auto& comm = world();
  auto half = comm.split(comm.rank() * 2 / comm.size(), -comm.rank());
  const int size = std::max(comm.size() / 2, 1);
  CHECK(half.size() == size);
  CHECK(half.rank() == size - 1 - comm.rank() % size);
  device_values<float> ones({1});
  half.all_reduce(ones.data(), 1, reduction::sum);
  CHECK(ones.read() == std::vector<float>{static_cast<float>(size)});
  // A part of a part, which outlives it.
  std::optional<tessera::hccl_comm> parent(half.split(0, half.rank()));
  auto child = parent->split(0, 0);
  auto alone = parent->split(parent->rank(), 0);
  parent.reset();
  device_values<float> value({static_cast<float>(child.rank())});
  child.all_reduce(value.data(), 1, reduction::maximum);
  CHECK(value.read() == std::vector<float>{static_cast<float>(size - 1)});
  CHECK(alone.size() == 1);
  alone.all_reduce(value.data(), 1, reduction::sum);
  CHECK(value.read() == std::vector<float>{static_cast<float>(size - 1)});
}

TEST_CASE("hccl: groups that Ascend 910 does not connect are refused on all ranks") {
  auto& comm = world();
  char const* chip = std::getenv("ASCEND_DOUBLE_CHIP");
  if (comm.size() < 8 || (chip != nullptr && std::string(chip) != "910")) return;
  std::string text;
  try {
    auto apart = comm.split(comm.rank() % 4, 0);
  } catch (tessera::error const& e) {
    text = e.what();
  }
  CHECK(text.find("a group of ranks 0, 4, which are devices 0 and 4 of one server, without all 8") !=
        std::string::npos);
  CHECK_THROWS_AS(comm.split(comm.rank() < 3 ? 0 : 1, 0), tessera::error);
}

TEST_CASE("hccl: bad arguments are refused on the rank that gives them") {
  auto& comm = world();
  device_values<float> value({0});
  CHECK_THROWS_AS(comm.all_reduce(value.data(), -1, reduction::sum), tessera::error);
  CHECK_THROWS_AS(comm.broadcast(value.data(), 1, comm.size()), tessera::error);
  CHECK_THROWS_AS((void)comm.start_send<float>(value.data(), 1, comm.size(), 0), tessera::error);
  CHECK_THROWS_AS((void)comm.start_receive(value.data(), 1, 0, 32767), tessera::error);
  const std::vector<index_t> too_many(at(comm.size()) + 1, 0);
  CHECK_THROWS_AS(comm.all_gather<float>(value.data(), value.data(), too_many), tessera::error);
  CHECK_THROWS_AS(comm.split(-1, 0), tessera::error);
}

TEST_CASE("hccl: checked and recording see its calls") {
  tessera::checked compared{tessera::recording{world().split(0, world().rank())}};
  device_values<float> values({1, 2});
  compared.all_reduce(values.data(), 2, reduction::sum);
  const auto ranks = static_cast<float>(compared.size());
  CHECK(values.read() == std::vector<float>{ranks, 2 * ranks});
  CHECK(compared.inner().calls().back().kind == tessera::collective::all_reduce);
  if (compared.size() == 1) return;
  CHECK_THROWS_AS(compared.all_reduce(values.data(), compared.rank() == 0 ? 1 : 2, reduction::sum), tessera::error);
}
