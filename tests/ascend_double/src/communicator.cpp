#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "meeting.hpp"

namespace ascend_double {

namespace {

struct config_head {
  std::size_t size;
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t unused;
};
static_assert(sizeof(config_head) == HCCL_COMM_CONFIG_INFO_BYTES);

HcclResult check_config(HcclCommConfig const* config) {
  if (!config) return hccl_fail(HCCL_E_PTR, "the HcclCommConfig is null");
  config_head head;
  std::memcpy(&head, config->reserved, sizeof head);
  if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD || head.size != sizeof *config ||
      head.version != HCCL_COMM_CONFIG_VERSION)
    return hccl_fail(HCCL_E_PARA, "an HcclCommConfig without HcclCommConfigInit");
  if (config->hcclBufferSize == 0) return hccl_fail(HCCL_E_PARA, "hcclBufferSize is 0");
  if (config->hcclDeterministic > 1 && config->hcclDeterministic != HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET)
    return hccl_fail(HCCL_E_PARA, "hcclDeterministic");
  return HCCL_SUCCESS;
}

std::string name_in(HcclCommConfig const& config) {
  return {config.hcclCommName, strnlen(config.hcclCommName, sizeof config.hcclCommName - 1)};
}

HcclResult init_root_info(std::uint32_t ranks, HcclRootInfo const* root, std::uint32_t rank, std::string name,
                          HcclComm* comm) {
  if (!root || !comm) return hccl_fail(HCCL_E_PTR, "HcclCommInitRootInfo: null");
  if (ranks == 0 || ranks > most_ranks || rank >= ranks) return hccl_fail(HCCL_E_PARA, "HcclCommInitRootInfo: rank");
  auto context = current_context();
  if (!context) return hccl_fail(HCCL_E_RUNTIME, "HcclCommInitRootInfo: no device is set on this thread");
  ticket where;
  std::memcpy(&where, root->internal, sizeof where);
  if (name.empty()) name = "hccl_world_" + std::to_string(where.inode);
  return join(where, {rank, ranks, context->device, configuration().server, name, {}}, comm);
}

// Rank 0 tells the others of its block through a socket that is named after the table and dies with the process.
class table_meeting {
 public:
  explicit table_meeting(std::string const& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    auto name = "ascend_double." + std::to_string(getuid()) + "." +
                std::to_string(std::hash<std::string>()(std::filesystem::canonical(path).string() + text.str()));
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path + 1, name.data(), name.size());
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval limit{static_cast<time_t>(configuration().timeout), 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~table_meeting() { close(socket_); }
  table_meeting(table_meeting const&) = delete;
  table_meeting& operator=(table_meeting const&) = delete;

  HcclResult tell(ticket const& where, std::uint32_t others) {
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address_), length_) != 0 || listen(socket_, 64) != 0)
      return hccl_fail(HCCL_E_PARA, "another rank 0 uses this rank table");
    for (std::uint32_t i = 0; i < others; ++i) {
      auto other = accept(socket_, nullptr, nullptr);
      if (other < 0) return hccl_fail(HCCL_E_TIMEOUT, "not all ranks of the rank table came in time");
      auto sent = write(other, &where, sizeof where);
      close(other);
      if (sent != static_cast<ssize_t>(sizeof where)) return hccl_fail(HCCL_E_NETWORK, "a rank cannot be told");
    }
    return HCCL_SUCCESS;
  }

  HcclResult ask(ticket& where) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(configuration().timeout);
    while (connect(socket_, reinterpret_cast<sockaddr*>(&address_), length_) != 0) {
      if (std::chrono::steady_clock::now() > end)
        return hccl_fail(HCCL_E_TIMEOUT, "rank 0 of the rank table did not come in time");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    auto got = recv(socket_, &where, sizeof where, MSG_WAITALL);
    return got == static_cast<ssize_t>(sizeof where) ? HCCL_SUCCESS
                                                     : hccl_fail(HCCL_E_NETWORK, "rank 0 of the rank table is silent");
  }

 private:
  sockaddr_un address_{};
  socklen_t length_;
  int socket_;
};

HcclResult init_cluster_info(char const* path, std::uint32_t rank, std::string name, HcclComm* comm) {
  if (!path || !comm) return hccl_fail(HCCL_E_PTR, "HcclCommInitClusterInfo: null");
  auto context = current_context();
  if (!context) return hccl_fail(HCCL_E_RUNTIME, "HcclCommInitClusterInfo: no device is set on this thread");
  if (std::strlen(path) > 4096) return hccl_fail(HCCL_E_PARA, "HcclCommInitClusterInfo: a path of over 4096 bytes");
  std::vector<table_entry> table;
  try {
    table = read_rank_table(path);
  } catch (std::runtime_error const& e) {
    return hccl_fail(HCCL_E_PARA, "HcclCommInitClusterInfo: " + std::string(path) + ": " + e.what());
  }
  if (table.size() > most_ranks || rank >= table.size())
    return hccl_fail(HCCL_E_PARA, "HcclCommInitClusterInfo: rank " + std::to_string(rank) + " is not in the table");
  if (table[rank].device != context->device)
    return hccl_fail(HCCL_E_PARA, "HcclCommInitClusterInfo: device " + std::to_string(context->device) +
                                      " is set, the table says " + std::to_string(table[rank].device));
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::uint32_t>> begun;
  {
    std::lock_guard lock(mutex);
    if (!begun.insert({path, rank}).second)
      return hccl_fail(HCCL_E_PARA, "HcclCommInitClusterInfo for the second time");
  }
  auto ranks = static_cast<std::uint32_t>(table.size());
  table_meeting meeting(path);
  ticket where;
  if (rank == 0) {
    auto made = offer_block();
    if (!made) return hccl_fail(HCCL_E_SYSCALL, "HcclCommInitClusterInfo: no shared memory");
    where = *made;
    if (auto status = meeting.tell(where, ranks - 1)) return status;
  } else if (auto status = meeting.ask(where)) {
    return status;
  }
  if (name.empty()) name = "hccl_world_group";
  return join(where, {rank, ranks, context->device, table[rank].server, name, {}}, comm);
}

}  // namespace

}  // namespace ascend_double

using namespace ascend_double;

HcclResult HcclGetRootInfo(HcclRootInfo* root) {
  if (!root) return hccl_fail(HCCL_E_PTR, "HcclGetRootInfo: null");
  if (!current_context()) return hccl_fail(HCCL_E_RUNTIME, "HcclGetRootInfo: no device is set on this thread");
  auto made = offer_block();
  if (!made) return hccl_fail(HCCL_E_SYSCALL, "HcclGetRootInfo: no shared memory");
  std::memset(root, 0, sizeof *root);
  std::memcpy(root->internal, &*made, sizeof *made);
  return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo* root, uint32_t rank, HcclComm* comm) {
  return init_root_info(ranks, root, rank, "", comm);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo* root, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* comm) {
  if (auto status = check_config(config)) return status;
  return init_root_info(ranks, root, rank, name_in(*config), comm);
}

HcclResult HcclCommInitClusterInfo(const char* path, uint32_t rank, HcclComm* comm) {
  return init_cluster_info(path, rank, "", comm);
}

HcclResult HcclCommInitClusterInfoConfig(const char* path, uint32_t rank, HcclCommConfig* config, HcclComm* comm) {
  if (auto status = check_config(config)) return status;
  return init_cluster_info(path, rank, name_in(*config), comm);
}

HcclResult HcclCommInitAll(uint32_t count, int32_t* devices, HcclComm* comms) {
  if (!devices || !comms) return hccl_fail(HCCL_E_PTR, "HcclCommInitAll: null");
  if (!initialized()) return hccl_fail(HCCL_E_RUNTIME, "HcclCommInitAll before aclInit");
  for (std::uint32_t r = 0; r < count; ++r)
    if (devices[r] < 0 || devices[r] >= configuration().devices)
      return hccl_fail(HCCL_E_PARA, "HcclCommInitAll: no device " + std::to_string(devices[r]));
  auto where = count == 0 || count > most_ranks ? std::nullopt : offer_block();
  if (!where) return hccl_fail(HCCL_E_PARA, "HcclCommInitAll: count");
  std::vector<membership> all;
  auto block = open_block(*where);
  if (!block) return hccl_fail(HCCL_E_SYSCALL, "HcclCommInitAll: no shared memory");
  for (std::uint32_t r = 0; r < count; ++r) {
    all.push_back({r, count, devices[r], configuration().server, "hccl_all_" + std::to_string(where->inode), {}});
    block_lock lock(*block);
    enter(*block, lock, all[r]);
  }
  block->mapped = count;
  withdraw(*where);
  for (std::uint32_t r = 0; r < count; ++r)
    if (auto status = complete(block, all[r], &comms[r])) return status;
  return HCCL_SUCCESS;
}

HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t ranks, uint32_t* rankIds, uint64_t id, uint32_t rank,
                                   HcclCommConfig* config, HcclComm* sub) {
  if (!comm || !*comm || !rankIds || !sub) return hccl_fail(HCCL_E_PTR, "HcclCreateSubCommConfig: null");
  if (auto status = check_config(config)) return status;
  auto parent = communicators().find(*comm, "HcclCreateSubCommConfig");
  if (ranks == 0 || ranks > parent->ranks || rank >= ranks || rankIds[rank] != parent->rank)
    return hccl_fail(HCCL_E_PARA, "HcclCreateSubCommConfig: this rank is not where rankIds says");
  membership m{rank, ranks, parent->device, parent->block->members[parent->rank].server, name_in(*config), {}};
  m.parent_ranks.assign(rankIds, rankIds + ranks);
  if (m.name.empty()) m.name = parent->name + "_sub_" + std::to_string(id);
  auto& block = *parent->block;
  auto child = [&] {
    return std::find_if(std::begin(block.children), std::end(block.children),
                        [&](auto const& c) { return c.used && c.id == id; });
  };
  ticket where;
  {
    block_lock lock(block);
    if (rank == 0) {
      auto unused =
          std::find_if(std::begin(block.children), std::end(block.children), [](auto const& c) { return !c.used; });
      auto made =
          child() == std::end(block.children) && unused != std::end(block.children) ? offer_block() : std::nullopt;
      if (!made) return hccl_fail(HCCL_E_PARA, "HcclCreateSubCommConfig: subCommId is in use");
      where = *made;
      unused->used = true;
      unused->id = id;
      unused->where = where;
      lock.notify();
    } else {
      if (!lock.wait([&] { return child() != std::end(block.children); }, "HcclCreateSubCommConfig"))
        return hccl_fail(block.failure, block.reason);
      where = child()->where;
    }
  }
  auto status = join(where, m, sub);
  if (rank == 0) {
    block_lock lock(block);
    child()->used = false;
  }
  return status;
}

HcclResult HcclCommDestroy(HcclComm handle) {
  if (!handle) return hccl_fail(HCCL_E_PTR, "HcclCommDestroy: null");
  auto comm = communicators().take(handle, "HcclCommDestroy");
  if (comm->users.use_count() > 1) violation("HcclCommDestroy: a task of the communicator is in flight");
  block_lock lock(*comm->block);
  comm->block->members[comm->rank].left = true;
  lock.notify();
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(HcclComm handle, char* name) {
  if (!handle || !name) return hccl_fail(HCCL_E_PTR, "HcclGetCommName: null");
  auto comm = communicators().find(handle, "HcclGetCommName");
  std::memset(name, 0, COMM_NAME_MAX_LENGTH);
  comm->name.copy(name, COMM_NAME_MAX_LENGTH - 1);
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm handle, uint32_t* size) {
  if (!handle || !size) return hccl_fail(HCCL_E_PTR, "HcclGetRankSize: null");
  *size = communicators().find(handle, "HcclGetRankSize")->ranks;
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm handle, uint32_t* rank) {
  if (!handle || !rank) return hccl_fail(HCCL_E_PTR, "HcclGetRankId: null");
  *rank = communicators().find(handle, "HcclGetRankId")->rank;
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommAsyncError(HcclComm handle, HcclResult* error) {
  if (!handle || !error) return hccl_fail(HCCL_E_PTR, "HcclGetCommAsyncError: null");
  *error = communicators().find(handle, "HcclGetCommAsyncError")->failure;
  return HCCL_SUCCESS;
}

uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

void HcclCommConfigInit(HcclCommConfig* config) {
  if (!config) return;
  std::memset(config, 0, sizeof *config);
  config_head head{sizeof *config, HCCL_COMM_CONFIG_MAGIC_WORD, HCCL_COMM_CONFIG_VERSION, 0};
  std::memcpy(config->reserved, &head, sizeof head);
  config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
  config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
  config->hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
  config->hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
  config->hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
}

const char* HcclGetErrorString(HcclResult code) {
  switch (code) {
    case HCCL_SUCCESS: return "no error";
    case HCCL_E_PARA: return "parameter error";
    case HCCL_E_PTR: return "empty pointer";
    case HCCL_E_MEMORY: return "memory error";
    case HCCL_E_INTERNAL: return "internal error";
    case HCCL_E_NOT_SUPPORT: return "not supported";
    case HCCL_E_NOT_FOUND: return "not found";
    case HCCL_E_UNAVAIL: return "unavailable";
    case HCCL_E_SYSCALL: return "system call error";
    case HCCL_E_TIMEOUT: return "timeout";
    case HCCL_E_RUNTIME: return "runtime error";
    case HCCL_E_DRV: return "driver error";
    case HCCL_E_NETWORK: return "network error";
    case HCCL_E_REMOTE: return "remote error";
    default: return "another error";
  }
}
