#include "meeting.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace ascend_double {

registry<communicator>& communicators() {
  static auto& all = []() -> registry<communicator>& {
    auto* made = new registry<communicator>("a communicator", 0x54);
    report_at_exit([made] { return std::vector<std::string>(made->all().size(), made->kind()); });
    return *made;
  }();
  return all;
}

namespace {

constexpr std::uint32_t ticket_magic = 0x7e55e4a;

// The files of blocks that this process made and that others may still have to open, by inode.
struct offered_files {
  std::mutex mutex;
  std::map<std::uint64_t, int> files;
};
offered_files& offered() {
  static auto* all = new offered_files;
  return *all;
}

std::uint64_t inode_of(int file) {
  struct stat status;
  return fstat(file, &status) == 0 ? status.st_ino : 0;
}

meeting_block* map_block(int file) {
  auto* address = mmap(nullptr, sizeof(meeting_block), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return address == MAP_FAILED ? nullptr : static_cast<meeting_block*>(address);
}

int open_file_of(pid_t process, int file) {
  return open(("/proc/" + std::to_string(process) + "/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC);
}

// Another process's device memory; mapped once and kept.
std::byte* memory_of(member const& peer) {
  if (peer.process == getpid()) return device_memory::instance().base();
  static std::mutex mutex;
  static auto* mapped = new std::map<std::uint64_t, std::byte*>;
  auto file = open_file_of(peer.process, peer.file);
  if (file < 0) return nullptr;
  std::lock_guard lock(mutex);
  auto& address = (*mapped)[inode_of(file)];
  if (!address) {
    auto* made = mmap(nullptr, peer.file_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (made != MAP_FAILED) address = static_cast<std::byte*>(made);
  }
  close(file);
  return address;
}

// What is wrong with the devices of a communicator.
std::string topology_fault(meeting_block const& block, bool sub) {
  std::map<std::string, std::vector<std::int32_t>> servers;
  for (std::uint32_t r = 0; r < block.ranks; ++r) servers[block.members[r].server].push_back(block.members[r].device);
  for (auto& [server, devices] : servers) {
    std::sort(devices.begin(), devices.end());
    if (std::adjacent_find(devices.begin(), devices.end()) != devices.end())
      return "two ranks on one device of " + server;
    if (configuration().chip != chip::ascend_910) continue;
    auto count = devices.size();
    if (count != 1 && count != 2 && count != 4 && count != 8)
      return std::to_string(count) + " devices of a server: the 910 takes 1, 2, 4 or 8";
    if (count != servers.begin()->second.size()) return "servers with different numbers of devices";
    bool across = devices.front() / 4 != devices.back() / 4;
    if ((count == 2 || count == 4) && across && !(sub && configuration().cross_groups))
      return std::to_string(count) + " devices in both halves, 0 to 3 and 4 to 7, of a 910 server";
  }
  return "";
}

}  // namespace

std::optional<ticket> offer_block() {
  auto file = memfd_create("ascend_double_communicator", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(meeting_block)) != 0) return std::nullopt;
  auto* block = map_block(file);
  if (!block) return std::nullopt;
  pthread_mutexattr_t shared_mutex;
  pthread_mutexattr_init(&shared_mutex);
  pthread_mutexattr_setpshared(&shared_mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared_mutex, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&block->mutex, &shared_mutex);
  pthread_condattr_t shared_condition;
  pthread_condattr_init(&shared_condition);
  pthread_condattr_setpshared(&shared_condition, PTHREAD_PROCESS_SHARED);
  pthread_condattr_setclock(&shared_condition, CLOCK_MONOTONIC);
  pthread_cond_init(&block->changed, &shared_condition);
  munmap(block, sizeof(meeting_block));
  auto& all = offered();
  std::lock_guard lock(all.mutex);
  all.files.emplace(inode_of(file), file);
  return ticket{ticket_magic, getpid(), file, inode_of(file)};
}

void withdraw(ticket const& where) {
  auto& all = offered();
  std::lock_guard lock(all.mutex);
  auto found = all.files.find(where.inode);
  if (where.process != getpid() || found == all.files.end()) return;
  close(found->second);
  all.files.erase(found);
}

std::shared_ptr<meeting_block> open_block(ticket const& where) {
  if (where.magic != ticket_magic) return nullptr;
  // Ranks of one process share one mapping.
  static std::mutex mutex;
  static auto* mapped = new std::map<std::uint64_t, std::weak_ptr<meeting_block>>;
  auto file = open_file_of(where.process, where.file);
  if (file < 0) return nullptr;
  std::lock_guard lock(mutex);
  std::shared_ptr<meeting_block> block;
  if (inode_of(file) == where.inode) {
    block = (*mapped)[where.inode].lock();
    if (!block)
      if (auto* made = map_block(file)) block.reset(made, [](meeting_block* last) { munmap(last, sizeof *last); });
    (*mapped)[where.inode] = block;
  }
  close(file);
  return block;
}

HcclResult enter(meeting_block& block, block_lock& lock, membership const& m) {
  auto& self = block.members[m.rank];
  if (block.ranks == 0) {
    block.ranks = m.ranks;
    std::copy(m.parent_ranks.begin(), m.parent_ranks.end(), block.parent_ranks);
  }
  if (block.ranks != m.ranks || !std::equal(m.parent_ranks.begin(), m.parent_ranks.end(), block.parent_ranks))
    lock.fail(HCCL_E_PARA, "ranks name different members of a communicator");
  if (self.joined) lock.fail(HCCL_E_PARA, "rank " + std::to_string(m.rank) + " joins twice");
  if (block.failure != HCCL_SUCCESS) return hccl_fail(block.failure, block.reason);
  auto& memory = device_memory::instance();
  self.joined = true;
  self.process = getpid();
  self.file = memory.file();
  self.file_bytes = memory.file_bytes();
  self.device = m.device;
  auto length = std::min(m.server.size(), sizeof self.server - 1);
  std::memcpy(self.server, m.server.data(), length);
  ++block.joined;
  lock.notify();
  return HCCL_SUCCESS;
}

HcclResult complete(std::shared_ptr<meeting_block> const& block, membership const& m, HcclComm* result) {
  if (auto fault = topology_fault(*block, !m.parent_ranks.empty()); !fault.empty())
    return hccl_fail(HCCL_E_PARA, fault);
  auto comm = std::make_shared<communicator>();
  comm->rank = m.rank;
  comm->ranks = m.ranks;
  comm->device = m.device;
  comm->name = m.name;
  for (std::uint32_t r = 0; r < m.ranks; ++r) {
    comm->memory.push_back(memory_of(block->members[r]));
    if (!comm->memory.back()) return hccl_fail(HCCL_E_DRV, "the device memory of a rank cannot be mapped");
  }
  comm->block = block;
  *result = communicators().add(comm);
  return HCCL_SUCCESS;
}

HcclResult join(ticket const& where, membership const& m, HcclComm* result) {
  auto block = open_block(where);
  if (!block) return hccl_fail(HCCL_E_PARA, "there is nobody behind this root information");
  auto meet = [&] {
    block_lock lock(*block);
    if (auto status = enter(*block, lock, m)) return status;
    if (!lock.wait([&] { return block->joined == m.ranks; }, "a communicator's ranks"))
      return hccl_fail(block->failure, block->reason);
    return HCCL_SUCCESS;
  };
  // Nobody may leave, and with it its files, before all have opened them.
  auto open_all = [&] {
    block_lock lock(*block);
    ++block->mapped;
    lock.notify();
    if (!lock.wait([&] { return block->mapped == m.ranks; }, "a communicator's ranks"))
      return hccl_fail(block->failure, block->reason);
    return HCCL_SUCCESS;
  };
  auto status = meet();
  if (status == HCCL_SUCCESS) {
    HcclComm made = nullptr;
    status = complete(block, m, &made);
    auto together = open_all();
    if (status == HCCL_SUCCESS && together != HCCL_SUCCESS) {
      communicators().take(made, "HcclCommInit");
      status = together;
    }
    if (status == HCCL_SUCCESS) *result = made;
  }
  withdraw(where);
  return status;
}

}  // namespace ascend_double
