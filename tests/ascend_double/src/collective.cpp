#include <Eigen/Core>
#include <algorithm>
#include <cstring>

#include "hccl.hpp"

namespace ascend_double {

std::size_t bytes_of(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8: return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16: return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32: return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64: return 8;
    default: return 0;
  }
}

char const* name_of(collective kind) {
  switch (kind) {
    case collective::all_reduce: return "HcclAllReduce";
    case collective::broadcast: return "HcclBroadcast";
    case collective::reduce_scatter: return "HcclReduceScatter";
    case collective::reduce_scatter_v: return "HcclReduceScatterV";
    case collective::scatter: return "HcclScatter";
    case collective::all_gather: return "HcclAllGather";
    case collective::all_gather_v: return "HcclAllGatherV";
    case collective::barrier: return "HcclBarrier";
    case collective::all_to_all: return "HcclAlltoAll";
    case collective::reduce: return "HcclReduce";
  }
  return "";
}

bool reduces(collective kind) {
  return kind == collective::all_reduce || kind == collective::reduce_scatter || kind == collective::reduce_scatter_v ||
         kind == collective::reduce;
}

namespace {

std::string text(std::uint64_t number) { return std::to_string(number); }

// What keeps two ranks' calls from being one collective.
std::string mismatch(collective_call const& a, std::uint32_t rank_a, collective_call const& b, std::uint32_t rank_b,
                     std::uint32_t ranks) {
  auto between = " on rank " + text(rank_a) + " and on rank " + text(rank_b);
  if (a.kind != b.kind) return std::string(name_of(a.kind)) + " and " + name_of(b.kind) + between;
  auto name = std::string(name_of(a.kind)) + ": ";
  if (a.type != b.type) return name + "types " + text(a.type) + " and " + text(b.type) + between;
  if (a.op != b.op) return name + "reductions " + text(a.op) + " and " + text(b.op) + between;
  if (a.root != b.root) return name + "roots " + text(a.root) + " and " + text(b.root) + between;
  if (a.count != b.count) return name + "counts " + text(a.count) + " and " + text(b.count) + between;
  if (a.kind == collective::all_gather_v && !std::equal(a.receive_counts, a.receive_counts + ranks, b.receive_counts))
    return name + "recvCounts differ" + between;
  if (a.kind == collective::reduce_scatter_v && !std::equal(a.send_counts, a.send_counts + ranks, b.send_counts))
    return name + "sendCounts differ" + between;
  if (a.kind == collective::all_to_all &&
      (a.send_counts[rank_b] != b.receive_counts[rank_a] || b.send_counts[rank_a] != a.receive_counts[rank_b]))
    return name + "what one sends is not what the other receives" + between;
  return "";
}

// Ranks that wait for one another for ever: one in a message with another that waits for it in a collective.
void find_deadlock(communicator const& comm, block_lock& lock) {
  auto const& members = comm.block->members;
  for (std::uint32_t a = 0; a < comm.ranks; ++a)
    for (std::uint32_t i = 0; i < members[a].messages; ++i) {
      auto const& m = members[a].message_list[i];
      if (!m.done && members[m.peer].entered > members[a].entered)
        lock.fail(HCCL_E_PARA, "rank " + text(a) + " exchanges messages with rank " + text(m.peer) +
                                   ", which waits for it in " + name_of(members[m.peer].call.kind));
      if (!m.done && members[m.peer].left)
        lock.fail(HCCL_E_REMOTE, "rank " + text(m.peer) + " destroyed the communicator");
    }
}

[[noreturn]] void fail_task(communicator& comm) {
  comm.failure = comm.block->failure;
  throw task_failure{ACL_ERROR_RT_INTERNAL_ERROR, "HCCL: " + std::string(comm.block->reason)};
}

template <class T>
T combine(HcclReduceOp op, T a, T b) {
  switch (op) {
    case HCCL_REDUCE_PROD: return static_cast<T>(a * b);
    case HCCL_REDUCE_MAX: return a < b ? b : a;
    case HCCL_REDUCE_MIN: return b < a ? b : a;
    default: return static_cast<T>(a + b);
  }
}

template <class T>
void combine_all(HcclReduceOp op, std::byte* sum, std::byte const* more, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, sum + i * sizeof(T), sizeof(T));
    std::memcpy(&b, more + i * sizeof(T), sizeof(T));
    a = combine(op, a, b);
    std::memcpy(sum + i * sizeof(T), &a, sizeof(T));
  }
}

void combine_all(HcclDataType type, HcclReduceOp op, std::byte* sum, std::byte const* more, std::size_t count) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8: return combine_all<std::int8_t>(op, sum, more, count);
    case HCCL_DATA_TYPE_INT16: return combine_all<std::int16_t>(op, sum, more, count);
    case HCCL_DATA_TYPE_INT32: return combine_all<std::int32_t>(op, sum, more, count);
    case HCCL_DATA_TYPE_INT64: return combine_all<std::int64_t>(op, sum, more, count);
    case HCCL_DATA_TYPE_FP16: return combine_all<Eigen::half>(op, sum, more, count);
    case HCCL_DATA_TYPE_BFP16: return combine_all<Eigen::bfloat16>(op, sum, more, count);
    default: return combine_all<float>(op, sum, more, count);
  }
}

// What this rank receives, at which bytes of its buffer.
struct piece {
  std::uint64_t at;
  std::vector<std::byte> bytes;
};

class loader {
 public:
  loader(communicator const& comm, collective_call const& mine)
      : comm_(comm), mine_(mine), size_(bytes_of(mine.type)) {}

  std::vector<piece> pieces() const {
    auto n = mine_.count;
    auto me = comm_.rank;
    std::vector<piece> result;
    switch (mine_.kind) {
      case collective::barrier: break;
      case collective::all_reduce: result.push_back({0, reduced(0, n)}); break;
      case collective::reduce:
        if (me == mine_.root) result.push_back({0, reduced(0, n)});
        break;
      case collective::reduce_scatter: result.push_back({0, reduced(me * n, n)}); break;
      case collective::reduce_scatter_v: result.push_back({0, reduced_v(me)}); break;
      case collective::broadcast:
        if (me != mine_.root) result.push_back({0, copied(mine_.root, 0, n)});
        break;
      case collective::scatter: result.push_back({0, copied(mine_.root, me * n, n)}); break;
      case collective::all_gather:
        for (std::uint32_t r = 0; r < comm_.ranks; ++r) result.push_back({r * n * size_, copied(r, 0, n)});
        break;
      case collective::all_gather_v:
        for (std::uint32_t r = 0; r < comm_.ranks; ++r)
          result.push_back({mine_.receive_displacements[r] * size_, copied(r, 0, mine_.receive_counts[r])});
        break;
      case collective::all_to_all:
        for (std::uint32_t r = 0; r < comm_.ranks; ++r)
          result.push_back({mine_.receive_displacements[r] * size_,
                            copied(r, call(r).send_displacements[me], mine_.receive_counts[r])});
        break;
    }
    return result;
  }

 private:
  collective_call const& call(std::uint32_t rank) const { return comm_.block->members[rank].call; }

  std::vector<std::byte> copied(std::uint32_t from, std::uint64_t first, std::uint64_t count) const {
    auto const* begin = comm_.memory[from] + call(from).send + first * size_;
    return {begin, begin + count * size_};
  }

  // In the order of the ranks, the same on each.
  std::vector<std::byte> reduced(std::uint64_t first, std::uint64_t count) const {
    auto sum = copied(0, first, count);
    for (std::uint32_t r = 1; r < comm_.ranks; ++r)
      combine_all(mine_.type, mine_.op, sum.data(), copied(r, first, count).data(), count);
    return sum;
  }

  std::vector<std::byte> reduced_v(std::uint32_t part) const {
    auto count = mine_.send_counts[part];
    auto sum = copied(0, call(0).send_displacements[part], count);
    for (std::uint32_t r = 1; r < comm_.ranks; ++r)
      combine_all(mine_.type, mine_.op, sum.data(), copied(r, call(r).send_displacements[part], count).data(), count);
    return sum;
  }

  communicator const& comm_;
  collective_call const& mine_;
  std::size_t size_;
};

}  // namespace

void run_collective(communicator& comm, collective_call const& call) {
  std::lock_guard alone(comm.one_at_a_time);
  auto& block = *comm.block;
  auto& self = block.members[comm.rank];
  auto all = [&](auto reached) { return std::all_of(block.members, block.members + comm.ranks, reached); };
  std::uint64_t number;
  {
    block_lock lock(block);
    self.call = call;
    number = ++self.entered;
    lock.notify();
    find_deadlock(comm, lock);
    auto arrived = [&] {
      for (std::uint32_t r = 0; r < comm.ranks; ++r)
        if (block.members[r].left && block.members[r].entered < number) {
          lock.fail(HCCL_E_REMOTE, "rank " + text(r) + " destroyed the communicator");
          return false;
        }
      return all([&](member const& m) { return m.entered >= number; });
    };
    if (!lock.wait(arrived, name_of(call.kind))) fail_task(comm);
    for (std::uint32_t r = 0; r < comm.ranks; ++r)
      if (auto fault = mismatch(block.members[0].call, 0, block.members[r].call, r, comm.ranks); !fault.empty())
        lock.fail(HCCL_E_PARA, fault);
    if (block.failure != HCCL_SUCCESS) fail_task(comm);
  }
  auto pieces = loader(comm, call).pieces();
  {
    block_lock lock(block);
    self.loaded = number;
    lock.notify();
    if (!lock.wait([&] { return all([&](member const& m) { return m.loaded >= number; }); }, name_of(call.kind)))
      fail_task(comm);
  }
  for (auto const& piece : pieces)
    std::copy(piece.bytes.begin(), piece.bytes.end(), device_memory::instance().base() + call.receive + piece.at);
}

void run_exchange(communicator& comm, std::vector<message> messages) {
  std::lock_guard alone(comm.one_at_a_time);
  auto& block = *comm.block;
  auto& self = block.members[comm.rank];
  block_lock lock(block);
  std::copy(messages.begin(), messages.end(), self.message_list);
  self.messages = static_cast<std::uint32_t>(messages.size());
  auto* mine_end = self.message_list + self.messages;
  lock.notify();
  // Receives whatever has been sent; messages between two ranks come in order.
  auto progress = [&] {
    for (auto* m = self.message_list; m != mine_end; ++m) {
      if (m->sent || m->done) continue;
      auto& peer = block.members[m->peer];
      auto* peer_end = peer.message_list + peer.messages;
      auto* from = std::find_if(peer.message_list, peer_end, [&](message const& other) {
        return other.sent && !other.done && other.peer == comm.rank;
      });
      if (from == peer_end) continue;
      if (from->count != m->count || from->type != m->type) {
        lock.fail(HCCL_E_PARA, "rank " + text(m->peer) + " sends " + text(from->count) + " of type " +
                                   text(from->type) + ", rank " + text(comm.rank) + " receives " + text(m->count) +
                                   " of type " + text(m->type));
        return false;
      }
      std::memcpy(device_memory::instance().base() + m->buffer, comm.memory[m->peer] + from->buffer,
                  m->count * bytes_of(m->type));
      m->done = from->done = true;
      lock.notify();
    }
    find_deadlock(comm, lock);
    return std::all_of(self.message_list, mine_end, [](message const& m) { return m.done; });
  };
  bool done = lock.wait(progress, "HcclSend or HcclRecv");
  self.messages = 0;
  if (!done) fail_task(comm);
}

}  // namespace ascend_double
