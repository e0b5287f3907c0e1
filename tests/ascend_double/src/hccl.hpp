#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>

#include "hccl/hccl.h"
#include "runtime.hpp"

// Communicators of the double. The ranks, threads or processes of one machine, meet in a block of shared memory, where
// each says what it does; each reads the others' device memory through the files that it lies in.
namespace ascend_double {

inline constexpr std::size_t most_ranks = 64;
inline constexpr std::size_t most_items = 256;

enum class collective {
  all_reduce,
  broadcast,
  reduce_scatter,
  reduce_scatter_v,
  scatter,
  all_gather,
  all_gather_v,
  barrier,
  all_to_all,
  reduce
};

/// A place in a rank's file of device memory.
using place = std::uint64_t;

/// What a rank says that it does. Counts of elements.
struct collective_call {
  collective kind;
  HcclDataType type;
  HcclReduceOp op;
  std::uint32_t root;
  std::uint64_t count;
  place send;
  place receive;
  std::uint64_t send_counts[most_ranks];
  std::uint64_t send_displacements[most_ranks];
  std::uint64_t receive_counts[most_ranks];
  std::uint64_t receive_displacements[most_ranks];
};

/// One message that a rank sends or receives.
struct message {
  bool sent;
  bool done;
  std::uint32_t peer;
  HcclDataType type;
  std::uint64_t count;
  place buffer;
};

/// One rank.
struct member {
  bool joined;
  bool left;
  pid_t process;
  int file;  // of its device memory, in that process
  std::uint64_t file_bytes;
  std::int32_t device;
  char server[65];
  std::uint64_t entered;  // collectives that it has begun
  std::uint64_t loaded;   // collectives whose inputs it has read
  collective_call call;
  std::uint32_t messages;  // 0: not in an exchange
  message message_list[most_items];
};

/// How a process finds another's block.
struct ticket {
  std::uint32_t magic;
  pid_t process;
  int file;
  std::uint64_t inode;
};

/// The shared memory of a communicator. Zero when made.
struct meeting_block {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  std::uint32_t ranks;
  std::uint32_t joined;
  std::uint32_t mapped;
  HcclResult failure;
  char reason[512];
  std::uint32_t parent_ranks[most_ranks];  // of a subcommunicator
  struct {
    bool used;
    std::uint64_t id;
    ticket where;
  } children[32];
  member members[most_ranks];
};

/// The lock of a block; a holder that died counts as a failure of the communicator.
class block_lock {
 public:
  explicit block_lock(meeting_block& block);
  ~block_lock();
  block_lock(block_lock const&) = delete;
  block_lock& operator=(block_lock const&) = delete;

  /// Waits until `ready()`. False when the communicator failed or the time is up, which fails it.
  template <class Ready>
  bool wait(Ready ready, char const* what) {
    for (;;) {
      if (block_.failure != HCCL_SUCCESS) return false;
      if (ready()) return true;
      if (!wait_for_change()) {
        fail(HCCL_E_TIMEOUT, std::string(what) + ": not all ranks came in time");
        return false;
      }
    }
  }
  void notify();
  /// All ranks, now or when they come, end with this; the first counts.
  void fail(HcclResult result, std::string const& reason);

 private:
  bool wait_for_change();
  meeting_block& block_;
  std::int64_t deadline_;  // nanoseconds
};

struct communicator {
  std::shared_ptr<meeting_block> block;
  std::uint32_t rank;
  std::uint32_t ranks;
  std::int32_t device;
  std::string name;
  std::vector<std::byte*> memory;  // of each rank
  std::mutex one_at_a_time;
  std::shared_ptr<void> users = std::make_shared<int>();  // held by each task in flight too
  std::atomic<HcclResult> failure{HCCL_SUCCESS};
};

registry<communicator>& communicators();

/// What a stream's task calls. Throws task_failure.
void run_collective(communicator& comm, collective_call const& call);
void run_exchange(communicator& comm, std::vector<message> messages);

std::size_t bytes_of(HcclDataType type);
char const* name_of(collective kind);
bool reduces(collective kind);
inline HcclResult hccl_fail(HcclResult code, std::string message) {
  return static_cast<HcclResult>(fail(code, std::move(message)));
}

/// A rank table: for each rank its server and device.
struct table_entry {
  std::string server;
  std::int32_t device;
};
/// Throws std::runtime_error with what is wrong with it.
std::vector<table_entry> read_rank_table(std::string const& path);

}  // namespace ascend_double
