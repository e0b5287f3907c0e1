#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl.h"

// What the parts of the double share: settings, errors, handles, device memory, streams.
namespace ascend_double {

enum class chip { ascend_910, ascend_910b };

/// From the environment, read once: ASCEND_DOUBLE_...
struct settings {
  ascend_double::chip chip;  ///< CHIP: 910 or 910b
  std::int32_t devices;      ///< DEVICES: 8
  std::size_t memory;        ///< MEMORY: bytes a device
  std::uint32_t delay;       ///< DELAY: each task first sleeps up to so many microseconds: 0
  std::uint32_t timeout;     ///< TIMEOUT: seconds that anything waits for others: 60
  bool exact_products;       ///< EXACT_PRODUCTS: the 910 multiplies FP32 in FP32: 0
  bool cross_groups;         ///< CROSS_GROUPS: 2 or 4 devices of a 910 server may lie in both its halves: 0
  std::string server;        ///< SERVER: which server these devices are in, for tests of several: the host's name
};
settings const& configuration();

/// Sets what aclGetRecentErrMsg says on this thread and returns `code`.
int fail(int code, std::string message);

/// What no program may do, and what the real runtime answers with undefined behaviour: says so and aborts.
[[noreturn]] void violation(std::string const& message);

/// What a task throws when it fails on the device: the stream fails with it.
struct task_failure {
  aclError code;
  std::string message;
};

/// Handles that are never reused and cannot be dereferenced, so that use after destruction always shows.
template <class T>
class registry {
 public:
  registry(std::string kind, std::uintptr_t tag) : kind_(std::move(kind)), first_(tag << 56 | 16), next_(first_) {}

  void* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    objects_.emplace(next_, std::move(object));
    return reinterpret_cast<void*>(std::exchange(next_, next_ + 16));
  }

  std::shared_ptr<T> find(void const* handle, std::string_view user) const {
    std::lock_guard lock(mutex_);
    return at(handle, user)->second;
  }

  std::shared_ptr<T> take(void const* handle, std::string_view user) {
    std::lock_guard lock(mutex_);
    auto found = at(handle, user);
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  std::vector<std::shared_ptr<T>> all() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> result;
    for (auto const& [handle, object] : objects_) result.push_back(object);
    return result;
  }

  void* handle_of(std::shared_ptr<T> const& object) const {
    std::lock_guard lock(mutex_);
    for (auto const& [handle, other] : objects_)
      if (other == object) return reinterpret_cast<void*>(handle);
    return nullptr;
  }

  std::string const& kind() const { return kind_; }

 private:
  auto at(void const* handle, std::string_view user) const {
    auto value = reinterpret_cast<std::uintptr_t>(handle);
    auto found = objects_.find(value);
    if (found == objects_.end())
      violation(std::string(user) + ": " + kind_ +
                (value >= first_ && value < next_ ? " that was destroyed" : " that nobody made"));
    return found;
  }

  std::string kind_;
  std::uintptr_t first_;
  std::uintptr_t next_;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<T>> objects_;
};

struct context {
  std::int32_t device;
  bool by_program;  ///< made by aclrtCreateContext, not by aclrtSetDevice
  std::map<aclSysParamOpt, std::int64_t> options;
};

/// The context that is current on this thread; null without one.
std::shared_ptr<context> current_context();
/// An error code without one.
aclError require_context(std::string const& user);
/// Whether one of two devices may access the other's memory.
bool peers(std::int32_t from, std::int32_t to);

/// Bytes that a task or a copy touches, at the addresses that programs hold.
struct use {
  std::uintptr_t begin;
  std::size_t bytes;
  bool written;

  bool overlaps(use const& other) const { return begin < other.begin + other.bytes && other.begin < begin + bytes; }
};
inline use reads(void const* address, std::size_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(address), bytes, false};
}
inline use writes(void const* address, std::size_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(address), bytes, true};
}

/// How far each stream is known to have come: the number of its last task that is.
using progress = std::map<std::int32_t, std::uint64_t>;

/// All device memory of the process. Programs hold addresses of a range that nobody can access; the bytes lie
/// elsewhere, in a file that other processes of the job map. An address is not given out again before the range is used
/// up.
class device_memory {
 public:
  static constexpr std::size_t device_range = std::size_t{1} << 36;

  static device_memory& instance();

  void* allocate(std::int32_t device, std::size_t bytes);  ///< null: not enough memory
  aclError free(void* address);
  std::size_t used(std::int32_t device) const;
  std::vector<std::string> leaks() const;

  bool contains(void const* address) const;
  /// Where the bytes are. The address must be in the range.
  std::byte* bytes(void const* address) const;
  std::size_t offset(void const* address) const { return static_cast<std::size_t>(bytes(address) - bytes_); }
  std::int32_t device_of(void const* address) const;
  /// Violation unless all bytes are in one allocation, on `device` if that is not negative.
  void require_live(use const& memory, std::int32_t device, std::string_view user) const;

  /// Task `number` of `stream` will touch `uses`; `after` says what has been waited for. Violation if another stream
  /// touches the same without having been waited for.
  void admit(std::int32_t stream, std::uint64_t number, progress const& after, std::vector<use> const& uses,
             std::string const& task);
  /// The host does something to `memory` at once. Violation if the host has not waited for a task that touches it.
  void require_idle(use const& memory, std::string_view user) const;
  /// The host has waited for all of this.
  void observe(progress const& seen);

  int file() const { return file_; }
  std::byte* base() const { return bytes_; }
  std::size_t file_bytes() const;

 private:
  struct entry {
    std::uint64_t number;
    use memory;
    std::string task;
  };

  device_memory();
  void require_idle_locked(use const& memory, std::string_view user) const;

  mutable std::mutex mutex_;
  int file_;
  std::byte* bytes_;
  std::uintptr_t range_;
  std::vector<std::uintptr_t> next_;                      // by device
  std::vector<std::size_t> used_;                         // by device
  std::map<std::uintptr_t, std::size_t> live_;            // begin -> bytes
  std::map<std::int32_t, std::deque<entry>> unobserved_;  // by stream
};

/// Pinned host memory.
class host_memory {
 public:
  static host_memory& instance();
  void* allocate(std::size_t bytes);
  aclError free(void* address);
  bool pinned(use const& memory) const;
  std::vector<std::string> leaks() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> live_;
};

class stream {
 public:
  stream(std::int32_t id, std::shared_ptr<context> owner);
  ~stream();

  std::int32_t id() const { return id_; }
  context const& owner() const { return *owner_; }
  bool is_in(std::shared_ptr<context> const& other) const { return owner_ == other; }

  /// Runs on the stream's thread after everything enqueued before. Once a task has failed, only `bookkeeping` still
  /// runs.
  void enqueue(std::string const& name, std::vector<use> const& uses, std::function<void()> run,
               bool bookkeeping = false);
  /// What a task enqueued now follows, itself not included.
  progress following() const;
  void follow(progress const& other);

  /// Waits for all tasks enqueued so far; the stream's error, or `late` after `milliseconds` (none if negative).
  aclError synchronize(std::int64_t milliseconds, aclError late);
  bool idle() const;
  void fail_with(task_failure const& failure);

 private:
  struct task {
    std::function<void()> run;
    bool bookkeeping;
  };
  void work();

  std::int32_t id_;
  std::shared_ptr<context> owner_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<task> tasks_;
  std::uint64_t enqueued_ = 0;
  std::uint64_t finished_ = 0;
  progress follows_;
  task_failure failure_{ACL_SUCCESS, {}};
  bool stopping_ = false;
  std::thread thread_;
};

registry<stream>& streams();
/// The stream behind a handle for a call on this thread, or null after `fail`: a null handle, another context's stream.
std::shared_ptr<stream> usable_stream(aclrtStream handle, std::string_view user, int& status);

/// Adds to what is reported at exit. Each function names objects that are still there.
void report_at_exit(std::function<std::vector<std::string>()> leaks);
bool initialized();

}  // namespace ascend_double
