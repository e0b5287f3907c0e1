#pragma once

#include <tessera/backend/ascend/handle.hpp>
#include <tessera/core/memory.hpp>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera {

/// ACL, which a process may begin once and must end before it exits. Devices begin it, and the last that closes ends
/// it: a program that closes its devices and opens others later keeps one of these from before the first until after
/// the last, in `main`.
///
///     int main() {
///       ts::ascend_runtime runtime;
///       ...
class ascend_runtime {
 public:
  /// Throws `error` where ACL does not begin.
  ascend_runtime() : library_(library()) {}

 private:
  struct acl {
    bool ours;
    acl() {
      const int status = aclInit(nullptr);
      // Another part of the program has begun it, and will end it.
      ours = status != ACL_ERROR_REPEAT_INITIALIZE;
      if (ours) detail::ascend_kernels::check(status, "aclInit");
    }
    acl(acl const&) = delete;
    acl& operator=(acl const&) = delete;
    ~acl() {
      if (ours) aclFinalize();
    }
  };
  static std::shared_ptr<acl> library() {
    static std::mutex mutex;
    static std::weak_ptr<acl> begun;
    const std::lock_guard lock(mutex);
    auto one = begun.lock();
    if (one == nullptr) begun = one = std::make_shared<acl>();
    return one;
  }

  std::shared_ptr<acl> library_;
};

/// One device, the stream that its kernels run on, and its memory. A thread drives one device at a time: backends,
/// memory and communicators that it makes share this object, and the last of them closes it.
class ascend_device : public std::enable_shared_from_this<ascend_device> {
 public:
  /// The device that the calling thread drives; where there is none yet, that of the environment's `DEVICE_ID`, else 0.
  /// Throws `error` where that is no number, or ACL has no such device.
  static std::shared_ptr<ascend_device> current() {
    auto one = of_thread().lock();
    if (one != nullptr) return one;
    char const* text = std::getenv("DEVICE_ID");
    if (text == nullptr || *text == '\0') return open(0);
    char* end = nullptr;
    const long number = std::strtol(text, &end, 10);
    if (*end != '\0' || number < 0 || number > 65'535)
      throw error(std::string("DEVICE_ID=") + text + " in the environment", "the number of a device, from 0",
                  "set DEVICE_ID to one, or unset it");
    return open(static_cast<int>(number));
  }
  /// Device `number` for the calling thread. Throws `error` where the thread drives another one, or ACL has none.
  static std::shared_ptr<ascend_device> open(int number) {
    auto one = of_thread().lock();
    if (one == nullptr) {
      one = std::shared_ptr<ascend_device>(new ascend_device(number));
      of_thread() = one;
    }
    if (one->number_ != number)
      throw error("device " + std::to_string(number) + " asked for by a thread that drives device " +
                      std::to_string(one->number_),
                  "one device a thread", "close what uses the first, or use the other from a thread of its own");
    return one;
  }
  ascend_device(ascend_device const&) = delete;
  ascend_device& operator=(ascend_device const&) = delete;
  ~ascend_device() {
    // The last owner may be on another thread.
    aclrtSetCurrentContext(context_);
    pool_.clear();
    aclrtDestroyStream(stream_);
    aclrtResetDevice(number_);
  }

  int number() const { return number_; }
  /// The stream that all kernels run on, in order.
  aclrtStream stream() const { return stream_; }
  /// Returns when everything that was given to the stream is done.
  void synchronize() { detail::ascend_kernels::check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream"); }

  /// Memory of the device, aligned to 64 bytes, contents arbitrary. It may be given back while the stream uses it.
  /// Throws `error` where the device has no more.
  memory_handle allocate(std::size_t bytes) {
    const std::size_t size = (bytes + granularity - 1) / granularity * granularity;
    return {std::shared_ptr<memory_handle::source>(shared_from_this(), &pool_), pool_.take(size), size};
  }
  host_memory::usage used() const { return pool_.counted; }
  void reset_peak() { pool_.counted.peak = pool_.counted.live; }
  /// Waits for the stream and gives all unused memory back to the device.
  void trim() { pool_.clear(); }

 private:
  static constexpr std::size_t granularity = 512;  // what transfers between devices like

  /// Blocks that came back are handed out again: the next user's kernels run after those of the one before.
  struct pool : memory_handle::source {
    ascend_device& device;
    host_memory::usage counted{};
    std::map<std::size_t, std::vector<void*>> free{};
    std::map<std::size_t, std::size_t> made{};

    explicit pool(ascend_device& of) : device(of) {}

    void* take(std::size_t size) {
      if (size == 0) return nullptr;
      auto& same = free[size];
      void* data = nullptr;
      if (same.empty()) {
        data = fresh(size);
        same.reserve(++made[size]);  // room to come back, so that taking back cannot fail
      } else {
        data = same.back();
        same.pop_back();
      }
      counted.live += size;
      if (counted.live > counted.peak) counted.peak = counted.live;
      return data;
    }
    void* fresh(std::size_t size) {
      void* data = nullptr;
      if (aclrtMalloc(&data, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) return data;
      clear();  // blocks of other sizes may be what is missing
      const int status = aclrtMalloc(&data, size, ACL_MEM_MALLOC_HUGE_FIRST);
      if (status != ACL_SUCCESS)
        throw error("device " + std::to_string(device.number_) + " has no " + std::to_string(size) +
                        " bytes left beside the " + std::to_string(counted.live) + " in use (status " +
                        std::to_string(status) + ")",
                    "memory for a block", "shard the model further, recompute, or take smaller batches");
      return data;
    }
    void take_back(void* data, std::size_t size) noexcept override {
      if (data == nullptr) return;
      counted.live -= size;
      free.find(size)->second.push_back(data);
    }
    void clear() {
      // aclrtFree does not wait for kernels that use the memory.
      aclrtSynchronizeStream(device.stream_);
      for (auto& [size, blocks] : free) {
        for (void* data : blocks) aclrtFree(data);
        made[size] -= blocks.size();
        blocks.clear();
      }
    }
  };

  explicit ascend_device(int number) : number_(number) {
    using detail::ascend_kernels::check;
    check(aclrtSetDevice(number), "aclrtSetDevice(" + std::to_string(number) + ")");
    try {
      check(aclrtGetCurrentContext(&context_), "aclrtGetCurrentContext");
      check(aclrtCreateStream(&stream_), "aclrtCreateStream");
    } catch (...) {
      aclrtResetDevice(number);
      throw;
    }
  }
  static std::weak_ptr<ascend_device>& of_thread() {
    thread_local std::weak_ptr<ascend_device> one;
    return one;
  }

  ascend_runtime runtime_{};
  int number_;
  aclrtContext context_ = nullptr;
  aclrtStream stream_ = nullptr;
  pool pool_{*this};
};

/// Memory of the device that the calling thread drives (`ascend_device::current`). The host cannot reach it.
class ascend_memory {
 public:
  static constexpr bool on_host = false;

  static memory_handle allocate(std::size_t bytes) { return ascend_device::current()->allocate(bytes); }
  /// As of `host_memory`.
  static host_memory::usage used() { return ascend_device::current()->used(); }
  static void reset_peak() { ascend_device::current()->reset_peak(); }
  static void trim() { ascend_device::current()->trim(); }
};

}  // namespace tessera
