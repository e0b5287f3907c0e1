#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "operators.hpp"

namespace {

struct meeting {
  HcclRootInfo root;
  std::atomic<bool> ready;
};

HcclResult join(meeting& place, int ranks, int rank, HcclComm* comm) {
  if (rank == 0) {
    EXPECT(HcclGetRootInfo(&place.root) == HCCL_SUCCESS);
    place.ready = true;
  }
  while (!place.ready) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return HcclCommInitRootInfo(static_cast<std::uint32_t>(ranks), &place.root, static_cast<std::uint32_t>(rank), comm);
}

using member = std::function<void(session&, HcclComm, int)>;

// Each rank a process, with the device of its number.
std::vector<outcome> with_processes(int ranks, environment const& variables, member const& run) {
  auto& place = shared_by_children<meeting>();
  return in_processes(ranks, variables, [&](int rank) {
    {
      session s(rank);
      HcclComm comm = nullptr;
      EXPECT(join(place, ranks, rank, &comm) == HCCL_SUCCESS);
      run(s, comm, rank);
      EXPECT(HcclCommDestroy(comm) == HCCL_SUCCESS);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

// Each rank a thread, with the device of its number.
outcome with_threads(int ranks, environment const& variables, member const& run) {
  return in_child(variables, [&] {
    EXPECT(aclInit(nullptr) == ACL_SUCCESS);
    std::vector<std::int32_t> devices(static_cast<std::size_t>(ranks));
    std::iota(devices.begin(), devices.end(), 0);
    std::vector<HcclComm> comms(devices.size());
    EXPECT(HcclCommInitAll(static_cast<std::uint32_t>(ranks), devices.data(), comms.data()) == HCCL_SUCCESS);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        session s(rank);
        auto comm = comms[static_cast<std::size_t>(rank)];
        run(s, comm, rank);
        EXPECT(HcclCommDestroy(comm) == HCCL_SUCCESS);
      });
    for (auto& thread : threads) thread.join();
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

void all_well(std::vector<outcome> const& results) {
  for (auto const& result : results) CHECK_MESSAGE(result.code == 0, result.errors);
}

void done(session& s) { EXPECT(aclrtSynchronizeStream(s.stream) == ACL_SUCCESS); }

// Element i of rank r's input.
float element(int rank, int i) { return static_cast<float>(10 * rank + i); }

std::vector<float> input(int rank, int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(element(rank, i));
  return values;
}

void all_collectives(session& s, HcclComm comm, int rank) {
  std::uint32_t size = 0, id = 0;
  EXPECT(HcclGetRankSize(comm, &size) == HCCL_SUCCESS && HcclGetRankId(comm, &id) == HCCL_SUCCESS);
  EXPECT(static_cast<int>(id) == rank);
  auto ranks = static_cast<int>(size);
  auto total = [&](int i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += element(r, i);
    return sum;
  };
  auto last = static_cast<std::uint32_t>(ranks - 1);

  {
    device_values<float> in(input(rank, 3)), out({-1, -1, -1});
    EXPECT(HcclAllReduce(in.get(), out.get(), 3, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s.stream) == HCCL_SUCCESS);
    EXPECT(HcclAllReduce(in.get(), in.get(), 3, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, comm, s.stream) == HCCL_SUCCESS);
    done(s);
    EXPECT((out.read() == std::vector<float>{total(0), total(1), total(2)}));
    EXPECT(in.read() == input(ranks - 1, 3));
  }
  {
    device_values<std::int32_t> in({rank + 2, -rank}), out({0, 0});
    EXPECT(HcclAllReduce(in.get(), out.get(), 2, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_PROD, comm, s.stream) ==
           HCCL_SUCCESS);
    EXPECT(HcclReduce(in.get(), in.get(), 2, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MIN, last, comm, s.stream) ==
           HCCL_SUCCESS);
    done(s);
    std::int32_t product = 1;
    for (int r = 0; r < ranks; ++r) product *= r + 2;
    EXPECT(out.read()[0] == product);
    EXPECT(in.read()[0] == (rank == ranks - 1 ? 2 : rank + 2));
  }
  {
    std::vector<std::uint16_t> halves{aclFloatToFloat16(static_cast<float>(rank) + 0.5f)};
    device_values<std::uint16_t> value(halves);
    EXPECT(HcclAllReduce(value.get(), value.get(), 1, HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM, comm, s.stream) ==
           HCCL_SUCCESS);
    done(s);
    EXPECT(aclFloat16ToFloat(value.read()[0]) == static_cast<float>(ranks * ranks) / 2);
  }
  {
    device_values<float> value(input(rank, 2));
    EXPECT(HcclBroadcast(value.get(), 2, HCCL_DATA_TYPE_FP32, last, comm, s.stream) == HCCL_SUCCESS);
    EXPECT(HcclBarrier(comm, s.stream) == HCCL_SUCCESS);
    done(s);
    EXPECT(value.read() == input(ranks - 1, 2));
  }
  {
    device_values<float> in(input(rank, 2 * ranks)), out({0, 0});
    EXPECT(HcclReduceScatter(in.get(), out.get(), 2, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s.stream) ==
           HCCL_SUCCESS);
    done(s);
    EXPECT((out.read() == std::vector<float>{total(2 * rank), total(2 * rank + 1)}));
    EXPECT(HcclScatter(in.get(), out.get(), 2, HCCL_DATA_TYPE_FP32, last, comm, s.stream) == HCCL_SUCCESS);
    done(s);
    EXPECT((out.read() == std::vector<float>{element(ranks - 1, 2 * rank), element(ranks - 1, 2 * rank + 1)}));
  }
  {
    device_values<float> in(input(rank, 2)), out(input(0, 2 * ranks));
    EXPECT(HcclAllGather(in.get(), out.get(), 2, HCCL_DATA_TYPE_FP32, comm, s.stream) == HCCL_SUCCESS);
    done(s);
    for (int r = 0; r < ranks; ++r) EXPECT(out.read()[static_cast<std::size_t>(2 * r + 1)] == element(r, 1));
  }
  {
    device_values<float> in(input(rank, ranks)), out(input(0, ranks));
    EXPECT(HcclAlltoAll(in.get(), 1, HCCL_DATA_TYPE_FP32, out.get(), 1, HCCL_DATA_TYPE_FP32, comm, s.stream) ==
           HCCL_SUCCESS);
    done(s);
    for (int r = 0; r < ranks; ++r) EXPECT(out.read()[static_cast<std::size_t>(r)] == element(r, rank));
  }
  {
    // Rank r sends q + 1 elements to rank q, and so receives r + 1 from each.
    std::vector<std::uint64_t> sends, send_at, receives, receive_at;
    std::uint64_t sent = 0, received = 0;
    for (int q = 0; q < ranks; ++q) {
      sends.push_back(static_cast<std::uint64_t>(q + 1));
      send_at.push_back(sent);
      sent += sends.back();
      receives.push_back(static_cast<std::uint64_t>(rank + 1));
      receive_at.push_back(received + 1);  // one element stays between
      received += receives.back() + 1;
    }
    device_values<float> in(input(rank, static_cast<int>(sent)));
    device_values<float> out(std::vector<float>(received + 1, -1));
    EXPECT(HcclAlltoAllV(in.get(), sends.data(), send_at.data(), HCCL_DATA_TYPE_FP32, out.get(), receives.data(),
                         receive_at.data(), HCCL_DATA_TYPE_FP32, comm, s.stream) == HCCL_SUCCESS);
    done(s);
    auto values = out.read();
    for (int r = 0; r < ranks; ++r) {
      auto first = receive_at[static_cast<std::size_t>(r)];
      EXPECT(values[first - 1] == -1);
      for (int i = 0; i <= rank; ++i)
        EXPECT(values[first + static_cast<std::size_t>(i)] ==
               element(r, static_cast<int>(send_at[static_cast<std::size_t>(rank)]) + i));
    }
  }
  if (ranks > 1) {
    // Around the ring, first in turn, then all at once.
    auto next = static_cast<std::uint32_t>((rank + 1) % ranks),
         before = static_cast<std::uint32_t>((rank + ranks - 1) % ranks);
    device_values<float> in(input(rank, 2)), out({0, 0});
    auto send = [&] { EXPECT(HcclSend(in.get(), 2, HCCL_DATA_TYPE_FP32, next, comm, s.stream) == HCCL_SUCCESS); };
    auto receive = [&] { EXPECT(HcclRecv(out.get(), 2, HCCL_DATA_TYPE_FP32, before, comm, s.stream) == HCCL_SUCCESS); };
    if (rank == 0) send();
    receive();
    if (rank != 0) send();
    done(s);
    EXPECT(out.read() == input(static_cast<int>(before), 2));
    HcclSendRecvItem both[] = {{HCCL_SEND, out.get(), 2, HCCL_DATA_TYPE_FP32, next},
                               {HCCL_RECV, in.get(), 2, HCCL_DATA_TYPE_FP32, before}};
    EXPECT(HcclBatchSendRecv(both, 2, comm, s.stream) == HCCL_SUCCESS);
    done(s);
    EXPECT(in.read() == input((rank + 2 * ranks - 2) % ranks, 2));
  }
  HcclResult error = HCCL_E_INTERNAL;
  EXPECT(HcclGetCommAsyncError(comm, &error) == HCCL_SUCCESS && error == HCCL_SUCCESS);
}

// Collectives of ranks that do not agree: each learns of it, not because the time is up.
void disagree(std::string const& words, std::function<HcclResult(HcclComm, void*, int, aclrtStream)> const& call,
              environment variables = {}) {
  variables["TIMEOUT"] = "30";
  auto results = with_processes(2, variables, [&](session& s, HcclComm comm, int rank) {
    device_values<float> values({1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT(call(comm, values.get(), rank, s.stream) == HCCL_SUCCESS);
    EXPECT(aclrtSynchronizeStream(s.stream) != ACL_SUCCESS);
    auto const* message = aclGetRecentErrMsg();
    EXPECT(message && std::string(message).find(words) != std::string::npos);
    HcclResult error = HCCL_SUCCESS;
    EXPECT(HcclGetCommAsyncError(comm, &error) == HCCL_SUCCESS && error == HCCL_E_PARA);
    // The stream stays failed, and so does the communicator.
    EXPECT(HcclBarrier(comm, s.stream) == HCCL_SUCCESS);
    EXPECT(aclrtSynchronizeStream(s.stream) != ACL_SUCCESS);
  });
  all_well(results);
}

}  // namespace

TEST_CASE("collectives of processes") {
  for (int ranks : {1, 2, 4, 8}) {
    CAPTURE(ranks);
    all_well(with_processes(ranks, {{"DELAY", "500"}}, all_collectives));
  }
}

TEST_CASE("collectives of threads") {
  for (int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    all_well({with_threads(ranks, {{"DELAY", "500"}}, all_collectives)});
  }
}

TEST_CASE("collectives come in a stream's order and the host goes on") {
  all_well(with_processes(2, {{"DELAY", "5000"}}, [](session& s, HcclComm comm, int rank) {
    device_values<float> values({static_cast<float>(rank + 1)});
    auto* x = vector_tensor(values.get(), 1);
    for (int i = 0; i < 4; ++i) {
      EXPECT(HcclAllReduce(values.get(), values.get(), 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s.stream) ==
             HCCL_SUCCESS);
      add_in_place(x, x, static_cast<float>(rank), s.stream);
    }
    done(s);
    // Values v and v on the ranks: both get the sum, the second rank doubles it.
    float first = 1, second = 2;
    for (int i = 0; i < 4; ++i) {
      first = first + second;
      second = 2 * first;
    }
    EXPECT(values.read()[0] == (rank == 0 ? first : second));
    EXPECT(aclDestroyTensor(x) == 0);
  }));
}

TEST_CASE("collectives of different counts, of the 910B") {
  for (bool threads : {false, true}) {
    auto run = [](session& s, HcclComm comm, int rank) {
      std::uint64_t counts[] = {1, 2}, places[] = {0, 1};
      device_values<float> in(input(rank, 3)), out({0, 0, 0});
      auto mine = counts[rank];
      EXPECT(HcclAllGatherV(in.get(), mine, out.get(), counts, places, HCCL_DATA_TYPE_FP32, comm, s.stream) ==
             HCCL_SUCCESS);
      done(s);
      EXPECT((out.read() == std::vector<float>{element(0, 0), element(1, 0), element(1, 1)}));
      EXPECT(HcclReduceScatterV(in.get(), counts, places, out.get(), mine, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm,
                                s.stream) == HCCL_SUCCESS);
      done(s);
      EXPECT(out.read()[0] == element(0, rank) + element(1, rank));
    };
    if (threads)
      all_well({with_threads(2, {{"CHIP", "910b"}}, run)});
    else
      all_well(with_processes(2, {{"CHIP", "910b"}}, run));
  }
}

TEST_CASE("subcommunicators") {
  auto run = [](session& s, HcclComm comm, int rank) {
    // {0, 1} and {3, 2}, then all collectives within each.
    std::uint32_t pairs[2][2] = {{0, 1}, {3, 2}};
    auto* mine = pairs[rank / 2];
    auto place = mine[0] == static_cast<std::uint32_t>(rank) ? 0u : 1u;
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    std::strcpy(config.hcclCommName, rank < 2 ? "low" : "high");
    HcclComm sub = nullptr;
    EXPECT(HcclCreateSubCommConfig(&comm, 2, mine, static_cast<std::uint64_t>(rank / 2), place, &config, &sub) ==
           HCCL_SUCCESS);
    char name[COMM_NAME_MAX_LENGTH];
    EXPECT(HcclGetCommName(sub, name) == HCCL_SUCCESS && name == std::string(rank < 2 ? "low" : "high"));
    all_collectives(s, sub, static_cast<int>(place));
    all_collectives(s, comm, rank);
    EXPECT(HcclCommDestroy(sub) == HCCL_SUCCESS);
  };
  all_well(with_processes(4, {}, run));
  all_well({with_threads(4, {}, run)});
}

TEST_CASE("ranks that disagree all learn of it") {
  disagree("counts 4 and 3", [](HcclComm comm, void* values, int rank, aclrtStream stream) {
    auto count = static_cast<std::uint64_t>(4 - rank);
    return HcclAllReduce(values, values, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream);
  });
  disagree("HcclAllReduce and HcclBroadcast", [](HcclComm comm, void* values, int rank, aclrtStream stream) {
    return rank == 0 ? HcclAllReduce(values, values, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream)
                     : HcclBroadcast(values, 4, HCCL_DATA_TYPE_FP32, 0, comm, stream);
  });
  disagree("types 4 and 2", [](HcclComm comm, void* values, int rank, aclrtStream stream) {
    auto type = rank == 0 ? HCCL_DATA_TYPE_FP32 : HCCL_DATA_TYPE_INT32;
    return HcclAllReduce(values, values, 4, type, HCCL_REDUCE_SUM, comm, stream);
  });
  disagree("reductions 0 and 2", [](HcclComm comm, void* values, int rank, aclrtStream stream) {
    auto op = rank == 0 ? HCCL_REDUCE_SUM : HCCL_REDUCE_MAX;
    return HcclAllReduce(values, values, 4, HCCL_DATA_TYPE_FP32, op, comm, stream);
  });
  disagree("roots 0 and 1", [](HcclComm comm, void* values, int rank, aclrtStream stream) {
    return HcclBroadcast(values, 4, HCCL_DATA_TYPE_FP32, static_cast<std::uint32_t>(rank), comm, stream);
  });
  disagree("sends 4 of type 4", [](HcclComm comm, void* values, int rank, aclrtStream stream) {
    return rank == 0 ? HcclSend(values, 4, HCCL_DATA_TYPE_FP32, 1, comm, stream)
                     : HcclRecv(values, 5, HCCL_DATA_TYPE_FP32, 0, comm, stream);
  });
  for (char const* delay : {"0", "20000"})
    disagree("exchanges messages with rank 1, which waits for it in HcclBarrier",
             [](HcclComm comm, void* values, int rank, aclrtStream stream) {
               return rank == 0 ? HcclSend(values, 4, HCCL_DATA_TYPE_FP32, 1, comm, stream) : HcclBarrier(comm, stream);
             },
             {{"DELAY", delay}});
  disagree("what one sends is not what the other receives",
           [](HcclComm comm, void* values, int rank, aclrtStream stream) {
             std::uint64_t sends[] = {1, 1}, receives[] = {1, rank == 0 ? 2u : 1u}, places[] = {0, 1};
             auto* behind = static_cast<float*>(values) + 4;
             return HcclAlltoAllV(values, sends, places, HCCL_DATA_TYPE_FP32, behind, receives, places,
                                  HCCL_DATA_TYPE_FP32, comm, stream);
           });
}

TEST_CASE("a rank that does not come is an error of the others") {
  auto results = with_processes(2, {{"TIMEOUT", "1"}}, [](session& s, HcclComm comm, int rank) {
    if (rank == 0) EXPECT(HcclBarrier(comm, s.stream) == HCCL_SUCCESS);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
    EXPECT((aclrtSynchronizeStream(s.stream) == ACL_SUCCESS) == (rank == 1));
    HcclResult error = HCCL_SUCCESS;
    EXPECT(HcclGetCommAsyncError(comm, &error) == HCCL_SUCCESS);
    EXPECT(error == (rank == 0 ? HCCL_E_TIMEOUT : HCCL_SUCCESS));
  });
  all_well(results);
}

TEST_CASE("parameters of HCCL calls") {
  for (std::string chip : {"910", "910b"}) {
    auto result = with_threads(1, {{"CHIP", chip}}, [&](session& s, HcclComm comm, int) {
      bool on_910 = chip == "910";
      device_values<float> values({1, 2, 3, 4});
      auto* address = values.get();
      auto reduce = [&](HcclDataType type, HcclReduceOp op) {
        return HcclAllReduce(address, address, 1, type, op, comm, s.stream);
      };
      EXPECT(reduce(HCCL_DATA_TYPE_FP64, HCCL_REDUCE_SUM) == HCCL_E_NOT_SUPPORT);
      EXPECT(reduce(HCCL_DATA_TYPE_UINT8, HCCL_REDUCE_SUM) == HCCL_E_NOT_SUPPORT);
      EXPECT(reduce(HCCL_DATA_TYPE_INT16, HCCL_REDUCE_SUM) == (on_910 ? HCCL_E_NOT_SUPPORT : HCCL_SUCCESS));
      EXPECT(reduce(HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_SUM) == (on_910 ? HCCL_E_NOT_SUPPORT : HCCL_SUCCESS));
      EXPECT(reduce(HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_PROD) == HCCL_E_NOT_SUPPORT);
      EXPECT(reduce(HCCL_DATA_TYPE_FP32, HCCL_REDUCE_RESERVED) == HCCL_E_PARA);
      EXPECT(HcclBroadcast(address, 1, HCCL_DATA_TYPE_FP64, 0, comm, s.stream) == HCCL_SUCCESS);
      EXPECT(HcclBroadcast(address, 1, HCCL_DATA_TYPE_FP32, 1, comm, s.stream) == HCCL_E_PARA);
      EXPECT(HcclBroadcast(nullptr, 1, HCCL_DATA_TYPE_FP32, 0, comm, s.stream) == HCCL_E_PTR);
      EXPECT(HcclBarrier(comm, nullptr) == HCCL_E_PTR && HcclBarrier(nullptr, s.stream) == HCCL_E_PTR);
      auto* odd = static_cast<char*>(address) + 2;
      EXPECT(HcclAllReduce(odd, odd, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s.stream) == HCCL_E_PARA);
      EXPECT(HcclAlltoAll(address, 1, HCCL_DATA_TYPE_FP32, address, 1, HCCL_DATA_TYPE_FP32, comm, s.stream) ==
             HCCL_E_PARA);
      EXPECT(HcclAllGather(address, address, 1, HCCL_DATA_TYPE_FP32, comm, s.stream) == HCCL_E_PARA);
      EXPECT(HcclSend(address, 1, HCCL_DATA_TYPE_FP32, 0, comm, s.stream) == HCCL_E_PARA);
      std::uint64_t one = 1, zero = 0;
      auto* other = static_cast<float*>(address) + 1;
      EXPECT(HcclAllGatherV(address, 1, other, &one, &zero, HCCL_DATA_TYPE_FP32, comm, s.stream) ==
             (on_910 ? HCCL_E_NOT_SUPPORT : HCCL_SUCCESS));
      done(s);
      HcclCommConfig config{};
      HcclRootInfo root{};
      HcclComm none = nullptr;
      EXPECT(HcclCommInitRootInfoConfig(1, &root, 0, &config, &none) == HCCL_E_PARA);
      HcclCommConfigInit(&config);
      EXPECT(HcclCommInitRootInfoConfig(1, &root, 0, &config, &none) == HCCL_E_PARA);  // nobody's root information
    });
    CHECK_MESSAGE(result.code == 0, result.errors);
  }
}

TEST_CASE("which devices make a communicator") {
  struct rule {
    char const* chip;
    std::vector<std::int32_t> devices;
    HcclResult result;
  };
  for (auto const& r : std::initializer_list<rule>{{"910", {0, 1}, HCCL_SUCCESS},
                                                   {"910", {4, 7}, HCCL_SUCCESS},
                                                   {"910", {3, 4}, HCCL_E_PARA},
                                                   {"910", {0, 1, 2}, HCCL_E_PARA},
                                                   {"910", {2, 3, 4, 5}, HCCL_E_PARA},
                                                   {"910", {4, 5, 6, 7}, HCCL_SUCCESS},
                                                   {"910", {0, 1, 2, 3, 4, 5, 6, 7}, HCCL_SUCCESS},
                                                   {"910", {0, 0}, HCCL_E_PARA},
                                                   {"910", {8}, HCCL_E_PARA},
                                                   {"910b", {3, 4}, HCCL_SUCCESS},
                                                   {"910b", {0, 1, 2}, HCCL_SUCCESS},
                                                   {"910b", {0, 0}, HCCL_E_PARA}}) {
    auto result = in_child({{"CHIP", r.chip}}, [&] {
      EXPECT(aclInit(nullptr) == ACL_SUCCESS);
      auto devices = r.devices;
      std::vector<HcclComm> comms(devices.size());
      EXPECT(HcclCommInitAll(static_cast<std::uint32_t>(devices.size()), devices.data(), comms.data()) == r.result);
      if (r.result == HCCL_SUCCESS)
        for (auto comm : comms) EXPECT(HcclCommDestroy(comm) == HCCL_SUCCESS);
      EXPECT(aclFinalize() == ACL_SUCCESS);
    });
    CHECK_MESSAGE(result.code == 0, result.errors);
  }
}

TEST_CASE("a subcommunicator of both halves of a 910 server") {
  for (bool relaxed : {false, true})
    all_well({with_threads(8, {{"CROSS_GROUPS", relaxed ? "1" : "0"}}, [=](session&, HcclComm comm, int rank) {
      std::uint32_t members[] = {static_cast<std::uint32_t>(rank % 4), static_cast<std::uint32_t>(rank % 4 + 4)};
      HcclCommConfig config;
      HcclCommConfigInit(&config);
      HcclComm sub = nullptr;
      EXPECT(HcclCreateSubCommConfig(&comm, 2, members, members[0], static_cast<std::uint32_t>(rank / 4), &config,
                                     &sub) == (relaxed ? HCCL_SUCCESS : HCCL_E_PARA));
      if (relaxed) EXPECT(HcclCommDestroy(sub) == HCCL_SUCCESS);
    })});
}

TEST_CASE("several servers") {
  auto& place = shared_by_children<meeting>();
  all_well(in_processes(4, {}, [&](int rank) {
    setenv("ASCEND_DOUBLE_SERVER", rank < 2 ? "a" : "b", 1);
    {
      session s(rank % 2);
      HcclComm comm = nullptr;
      EXPECT(join(place, 4, rank, &comm) == HCCL_SUCCESS);
      all_collectives(s, comm, rank);
      EXPECT(HcclCommDestroy(comm) == HCCL_SUCCESS);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  }));
}

namespace {

std::string table_file(std::string const& text) {
  auto path = "/tmp/ascend_double_table_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << text;
  return path;
}

std::string table_of(int ranks, std::string const& status = "completed") {
  std::string devices;
  for (int r = 0; r < ranks; ++r)
    devices += (r > 0 ? "," : "") + std::string("{\"device_id\":\"") + std::to_string(r) +
               "\",\"device_ip\":\"192.168.100.10" + std::to_string(r) + "\",\"rank_id\":\"" + std::to_string(r) +
               "\"}";
  return "{\"version\":\"1.0\",\"server_count\":\"1\",\"server_list\":[{\"server_id\":\"10.0.0.1\",\"device\":[" +
         devices + "]}],\"status\":\"" + status + "\"}";
}

}  // namespace

TEST_CASE("ranks meet by a rank table") {
  auto old_template = R"({"status":"completed","group_count":"1","group_list":[{"group_name":"hccl_world_group",
    "instance_count":"2","device_count":"2","instance_list":[
    {"server_id":"10.0.0.1","devices":[{"device_id":"0","device_ip":"192.168.1.1"}]},
    {"server_id":"10.0.0.1","devices":[{"device_id":"1","device_ip":"192.168.1.2"}]}]}]})";
  for (auto const& text : {table_of(2), std::string(old_template)}) {
    auto path = table_file(text);
    all_well(in_processes(2, {}, [&](int rank) {
      {
        session s(rank);
        HcclComm comm = nullptr;
        auto id = static_cast<std::uint32_t>(rank);
        EXPECT(HcclCommInitClusterInfo(path.c_str(), id, &comm) == HCCL_SUCCESS);
        all_collectives(s, comm, rank);
        EXPECT(HcclCommInitClusterInfo(path.c_str(), id, &comm) == HCCL_E_PARA);
        EXPECT(HcclCommDestroy(comm) == HCCL_SUCCESS);
      }
      EXPECT(aclFinalize() == ACL_SUCCESS);
    }));
    std::remove(path.c_str());
  }
}

TEST_CASE("rank tables that are refused") {
  auto replaced = [](std::string text, std::string const& from, std::string const& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  std::vector<std::string> bad{"",
                               "{}",
                               table_of(1, "initializing"),
                               replaced(table_of(1), "\"1.0\"", "1.0"),
                               replaced(table_of(1), "\"rank_id\":\"0\"", "\"rank_id\":\"1\""),
                               replaced(table_of(1), "\"device_id\":\"0\"", "\"device_id\":\"3\""),
                               replaced(table_of(1), "\"192.168.100.100\"", "\"\""),
                               replaced(table_of(1), "\"server_count\":\"1\"", "\"server_count\":\"2\"")};
  for (auto const& text : bad) {
    auto path = table_file(text);
    auto result = in_child({}, [&] {
      {
        session s;
        HcclComm comm = nullptr;
        EXPECT(HcclCommInitClusterInfo(path.c_str(), 0, &comm) == HCCL_E_PARA);
      }
      EXPECT(aclFinalize() == ACL_SUCCESS);
    });
    std::remove(path.c_str());
    CHECK_MESSAGE(result.code == 0, text, "\n", result.errors);
  }
}
