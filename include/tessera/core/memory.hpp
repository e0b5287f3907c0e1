#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <vector>

namespace tessera {

/// Host memory for tensor blocks: 64-byte aligned, returned blocks are kept and handed out again.
///
/// Training allocates the same sizes every step; without reuse each large block would be mapped and
/// zeroed by the operating system again. One instance a thread, so no locks.
class host_memory {
 public:
  static constexpr std::size_t alignment = 64;

  /// Bytes handed out and not yet returned, and the most there ever were since `reset_peak`.
  struct usage {
    std::size_t live = 0;
    std::size_t peak = 0;
  };

  /// A block of at least `bytes` bytes that goes back to the pool with its last owner. Contents are arbitrary.
  static std::shared_ptr<void> allocate(std::size_t bytes) {
    const std::shared_ptr<pool> owner = instance();
    const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
    void* data = owner->take(size);
    return {data, [owner, size](void* p) { owner->put(p, size); }};
  }

  static usage used() { return instance()->counted; }
  static void reset_peak() { instance()->counted.peak = instance()->counted.live; }
  /// Gives all unused blocks back to the operating system.
  static void trim() { instance()->clear(); }

 private:
  struct pool {
    usage counted;
    std::map<std::size_t, std::vector<void*>> free;

    pool() = default;
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;
    ~pool() { clear(); }

    void* take(std::size_t size) {
      counted.live += size;
      if (counted.live > counted.peak) counted.peak = counted.live;
      auto& same = free[size];
      if (!same.empty()) {
        void* data = same.back();
        same.pop_back();
        return data;
      }
      if (size == 0) return nullptr;
      void* data = std::aligned_alloc(alignment, size);
      if (data == nullptr) {
        counted.live -= size;
        throw std::bad_alloc{};
      }
      return data;
    }
    void put(void* data, std::size_t size) {
      counted.live -= size;
      if (data != nullptr) free[size].push_back(data);
    }
    void clear() {
      for (auto& [size, blocks] : free)
        for (void* data : blocks) std::free(data);
      free.clear();
    }
  };

  static std::shared_ptr<pool> const& instance() {
    thread_local const std::shared_ptr<pool> one = std::make_shared<pool>();
    return one;
  }
};

}  // namespace tessera
