#include "hccl.hpp"

#include <algorithm>
#include <cstring>

namespace ascend_double {

namespace {

HcclResult check(HcclComm handle, aclrtStream on, std::string const& user, std::shared_ptr<communicator>& comm,
                 std::shared_ptr<stream>& stream) {
  if (!handle || !on) return hccl_fail(HCCL_E_PTR, user + ": the communicator or the stream is null");
  comm = communicators().find(handle, user);
  int status = 0;
  stream = usable_stream(on, user, status);
  if (!stream) return HCCL_E_PARA;
  if (stream->owner().device != comm->device)
    return hccl_fail(HCCL_E_PARA, user + ": a stream of device " + std::to_string(stream->owner().device) +
                                      ", a communicator of device " + std::to_string(comm->device));
  return HCCL_SUCCESS;
}

HcclResult check_type(HcclDataType type, std::string const& user) {
  if (bytes_of(type) == 0) return hccl_fail(HCCL_E_NOT_SUPPORT, user + ": type " + std::to_string(type));
  if (type == HCCL_DATA_TYPE_BFP16 && configuration().chip == chip::ascend_910)
    return hccl_fail(HCCL_E_NOT_SUPPORT, user + ": no BFP16 on the 910");
  return HCCL_SUCCESS;
}

HcclResult check_reduction(HcclDataType type, HcclReduceOp op, std::string const& user) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_FP32: break;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_BFP16:
      if (configuration().chip == chip::ascend_910 || op == HCCL_REDUCE_PROD)
        return hccl_fail(HCCL_E_NOT_SUPPORT, user + ": no such reduction of int16 or bfp16");
      break;
    default: return hccl_fail(HCCL_E_NOT_SUPPORT, user + ": no reductions of type " + std::to_string(type));
  }
  return op >= HCCL_REDUCE_SUM && op <= HCCL_REDUCE_MIN ? HCCL_SUCCESS : hccl_fail(HCCL_E_PARA, user + ": op");
}

// Counts of elements that each buffer holds.
struct buffers {
  void const* send;
  std::uint64_t sent;
  void* receive;
  std::uint64_t received;
  bool same_allowed;
};

HcclResult launch(collective_call call, buffers const& b, HcclComm handle, aclrtStream on) {
  auto user = std::string(name_of(call.kind));
  std::shared_ptr<communicator> comm;
  std::shared_ptr<stream> stream;
  if (auto status = check(handle, on, user, comm, stream)) return status;
  if (call.kind != collective::barrier)
    if (auto status = check_type(call.type, user)) return status;
  if (reduces(call.kind))
    if (auto status = check_reduction(call.type, call.op, user)) return status;
  if (call.root >= comm->ranks) return hccl_fail(HCCL_E_PARA, user + ": root");
  auto size = bytes_of(call.type);
  if ((b.sent > 0 && !b.send) || (b.received > 0 && !b.receive)) return hccl_fail(HCCL_E_PTR, user + ": null");
  std::vector<use> uses;
  auto& memory = device_memory::instance();
  for (auto const& u : {reads(b.send, b.sent * size), writes(b.receive, b.received * size)}) {
    if (u.bytes == 0) continue;
    if (reduces(call.kind) && u.begin % size != 0)
      return hccl_fail(HCCL_E_PARA, user + ": a buffer is not aligned to its elements");
    memory.require_live(u, comm->device, user);
    uses.push_back(u);
  }
  if (uses.size() == 2 && uses[0].overlaps(uses[1]) && !(b.same_allowed && b.send == b.receive))
    return hccl_fail(HCCL_E_PARA, user + ": the buffers overlap");
  if (b.sent > 0) call.send = memory.offset(b.send);
  if (b.received > 0) call.receive = memory.offset(b.receive);
  stream->enqueue(user, uses, [in_use = comm->users, comm, call] { run_collective(*comm, call); });
  return HCCL_SUCCESS;
}

collective_call make(collective kind, HcclDataType type, std::uint64_t count) {
  collective_call call{};
  call.kind = kind;
  call.type = type;
  call.count = count;
  return call;
}

HcclResult rank_count(HcclComm handle, std::string const& user, std::uint64_t& ranks, std::uint64_t& rank) {
  if (!handle) return hccl_fail(HCCL_E_PTR, user + ": the communicator is null");
  auto comm = communicators().find(handle, user);
  ranks = comm->ranks;
  rank = comm->rank;
  return HCCL_SUCCESS;
}

// Copies counts and displacements; the elements that they span, or nothing after `fail`.
HcclResult read_counts(void const* counts, void const* displacements, std::uint64_t ranks, std::string const& user,
                       std::uint64_t* to_counts, std::uint64_t* to_displacements, std::uint64_t& span) {
  if (!counts || !displacements) return hccl_fail(HCCL_E_PTR, user + ": counts or displacements are null");
  std::memcpy(to_counts, counts, ranks * sizeof *to_counts);
  std::memcpy(to_displacements, displacements, ranks * sizeof *to_displacements);
  span = 0;
  for (std::uint64_t r = 0; r < ranks; ++r)
    if (to_counts[r] > 0) span = std::max(span, to_displacements[r] + to_counts[r]);
  return HCCL_SUCCESS;
}

HcclResult exchange(std::vector<message> messages, std::vector<void*> const& places, HcclComm handle, aclrtStream on,
                    std::string const& user) {
  std::shared_ptr<communicator> comm;
  std::shared_ptr<stream> stream;
  if (auto status = check(handle, on, user, comm, stream)) return status;
  if (messages.empty() || messages.size() > most_items) return hccl_fail(HCCL_E_PARA, user + ": number of messages");
  auto& memory = device_memory::instance();
  std::vector<use> uses;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto& m = messages[i];
    if (auto status = check_type(m.type, user)) return status;
    if (m.peer >= comm->ranks || m.peer == comm->rank) return hccl_fail(HCCL_E_PARA, user + ": rank");
    if (!places[i]) return hccl_fail(HCCL_E_PTR, user + ": null");
    auto bytes = m.count * bytes_of(m.type);
    uses.push_back(m.sent ? reads(places[i], bytes) : writes(places[i], bytes));
    memory.require_live(uses.back(), comm->device, user);
    m.buffer = memory.offset(places[i]);
  }
  stream->enqueue(user, uses, [in_use = comm->users, comm, messages] { run_exchange(*comm, messages); });
  return HCCL_SUCCESS;
}

}  // namespace

}  // namespace ascend_double

using namespace ascend_double;

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
  auto call = make(collective::all_reduce, dataType, count);
  call.op = op;
  return launch(call, {sendBuf, count, recvBuf, count, true}, comm, stream);
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
  std::uint64_t ranks = 0, rank = 0;
  if (auto status = rank_count(comm, "HcclReduce", ranks, rank)) return status;
  auto call = make(collective::reduce, dataType, count);
  call.op = op;
  call.root = root;
  return launch(call, {sendBuf, count, recvBuf, rank == root ? count : 0, true}, comm, stream);
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
  std::uint64_t ranks = 0, rank = 0;
  if (auto status = rank_count(comm, "HcclBroadcast", ranks, rank)) return status;
  auto call = make(collective::broadcast, dataType, count);
  call.root = root;
  bool sends = rank == root;
  return launch(call, {buf, sends ? count : 0, buf, sends ? 0 : count, true}, comm, stream);
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
  std::uint64_t ranks = 0, rank = 0;
  if (auto status = rank_count(comm, "HcclReduceScatter", ranks, rank)) return status;
  auto call = make(collective::reduce_scatter, dataType, recvCount);
  call.op = op;
  return launch(call, {sendBuf, recvCount * ranks, recvBuf, recvCount, false}, comm, stream);
}

HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
  std::string const user = "HcclReduceScatterV";
  std::uint64_t ranks = 0, rank = 0, sent = 0;
  if (auto status = rank_count(comm, user, ranks, rank)) return status;
  if (configuration().chip == chip::ascend_910) return hccl_fail(HCCL_E_NOT_SUPPORT, user + ": not on the 910");
  auto call = make(collective::reduce_scatter_v, dataType, 0);
  call.op = op;
  if (auto status = read_counts(sendCounts, sendDispls, ranks, user, call.send_counts, call.send_displacements, sent))
    return status;
  if (call.send_counts[rank] != recvCount) return hccl_fail(HCCL_E_PARA, user + ": recvCount is not in sendCounts");
  return launch(call, {sendBuf, sent, recvBuf, recvCount, false}, comm, stream);
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
  std::uint64_t ranks = 0, rank = 0;
  if (auto status = rank_count(comm, "HcclScatter", ranks, rank)) return status;
  auto call = make(collective::scatter, dataType, recvCount);
  call.root = root;
  return launch(call, {sendBuf, rank == root ? recvCount * ranks : 0, recvBuf, recvCount, false}, comm, stream);
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream) {
  std::uint64_t ranks = 0, rank = 0;
  if (auto status = rank_count(comm, "HcclAllGather", ranks, rank)) return status;
  return launch(make(collective::all_gather, dataType, sendCount),
                {sendBuf, sendCount, recvBuf, sendCount * ranks, false}, comm, stream);
}

HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                          const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  std::string const user = "HcclAllGatherV";
  std::uint64_t ranks = 0, rank = 0, received = 0;
  if (auto status = rank_count(comm, user, ranks, rank)) return status;
  if (configuration().chip == chip::ascend_910) return hccl_fail(HCCL_E_NOT_SUPPORT, user + ": not on the 910");
  auto call = make(collective::all_gather_v, dataType, 0);
  if (auto status =
          read_counts(recvCounts, recvDispls, ranks, user, call.receive_counts, call.receive_displacements, received))
    return status;
  if (call.receive_counts[rank] != sendCount) return hccl_fail(HCCL_E_PARA, user + ": sendCount is not in recvCounts");
  return launch(call, {sendBuf, sendCount, recvBuf, received, false}, comm, stream);
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return launch(make(collective::barrier, HCCL_DATA_TYPE_INT8, 0), {nullptr, 0, nullptr, 0, true}, comm, stream);
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
                         const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream) {
  std::string const user = "HcclAlltoAllV";
  std::uint64_t ranks = 0, rank = 0, sent = 0, received = 0;
  if (auto status = rank_count(comm, user, ranks, rank)) return status;
  if (sendType != recvType) return hccl_fail(HCCL_E_PARA, user + ": two types");
  auto call = make(collective::all_to_all, sendType, 0);
  if (auto status = read_counts(sendCounts, sdispls, ranks, user, call.send_counts, call.send_displacements, sent))
    return status;
  if (auto status =
          read_counts(recvCounts, rdispls, ranks, user, call.receive_counts, call.receive_displacements, received))
    return status;
  return launch(call, {sendBuf, sent, const_cast<void*>(recvBuf), received, false}, comm, stream);
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  std::uint64_t ranks = 0, rank = 0;
  if (auto status = rank_count(comm, "HcclAlltoAll", ranks, rank)) return status;
  if (sendType != recvType || sendCount != recvCount)
    return hccl_fail(HCCL_E_PARA, "HcclAlltoAll: two types or two counts");
  auto call = make(collective::all_to_all, sendType, sendCount);
  for (std::uint64_t r = 0; r < ranks; ++r) {
    call.send_counts[r] = call.receive_counts[r] = sendCount;
    call.send_displacements[r] = call.receive_displacements[r] = r * sendCount;
  }
  return launch(call, {sendBuf, sendCount * ranks, const_cast<void*>(recvBuf), recvCount * ranks, false}, comm, stream);
}

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
  return exchange({{true, false, destRank, dataType, count, 0}}, {sendBuf}, comm, stream, "HcclSend");
}

HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
  return exchange({{false, false, srcRank, dataType, count, 0}}, {recvBuf}, comm, stream, "HcclRecv");
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem* items, uint32_t count, HcclComm comm, aclrtStream stream) {
  if (!items) return hccl_fail(HCCL_E_PTR, "HcclBatchSendRecv: null");
  std::vector<message> messages;
  std::vector<void*> places;
  for (std::uint32_t i = 0; i < count; ++i) {
    messages.push_back(
        {items[i].sendRecvType == HCCL_SEND, false, items[i].remoteRank, items[i].dataType, items[i].count, 0});
    places.push_back(items[i].buf);
  }
  return exchange(std::move(messages), places, comm, stream, "HcclBatchSendRecv");
}
