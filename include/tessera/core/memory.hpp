#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tessera {

/// A shared owner of one block of memory, which goes back to where it came from with the last owner.
///
/// Does what `std::shared_ptr<void>` does, with its counting out of line: models hold and copy so many handles that the
/// inlined form was most of their machine code and compile time.
class memory_handle {
 public:
  /// Where a block goes back to.
  class source {
   public:
    virtual ~source() = default;
    virtual void take_back(void* data, std::size_t bytes) noexcept = 0;
  };

  memory_handle() = default;
  memory_handle(std::shared_ptr<source> from, void* data, std::size_t bytes)
      : block_(new shared_block{1, data, bytes, std::move(from)}) {}
  memory_handle(memory_handle const& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  memory_handle(memory_handle&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  // By reference: clang++ 14 does not destroy a by-value parameter made of `{}` in a template.
  memory_handle& operator=(memory_handle const& other) noexcept {
    memory_handle copy(other);
    std::swap(block_, copy.block_);
    return *this;
  }
  memory_handle& operator=(memory_handle&& other) noexcept {
    memory_handle taken(std::move(other));
    std::swap(block_, taken.block_);
    return *this;
  }
  ~memory_handle() {
    if (block_ != nullptr) release(block_);
  }

  void* get() const { return block_ == nullptr ? nullptr : block_->data; }
  /// Whether nobody else owns the block.
  bool unique() const { return block_ != nullptr && block_->owners.load(std::memory_order_acquire) == 1; }

 private:
  struct shared_block {
    std::atomic<long> owners;
    void* data;
    std::size_t bytes;
    std::shared_ptr<source> from;
  };
  [[gnu::noinline]] static void release(shared_block* block) noexcept {
    if (block->owners.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    block->from->take_back(block->data, block->bytes);
    delete block;
  }

  shared_block* block_ = nullptr;
};

/// Host memory for tensor blocks: 64-byte aligned, returned blocks are kept and handed out again.
///
/// Training allocates the same sizes every step; without reuse each large block would be mapped and
/// zeroed by the operating system again. One pool a thread, so no locks: a block goes back to its pool on the thread
/// that drops it last, so hand tensors to other threads only while their own thread is idle.
class host_memory {
 public:
  static constexpr std::size_t alignment = 64;
  /// Whether the host reads and writes elements by their addresses.
  static constexpr bool on_host = true;

  /// Bytes handed out and not yet returned, and the most there ever were since `reset_peak`.
  struct usage {
    std::size_t live = 0;
    std::size_t peak = 0;
  };

  /// A block of at least `bytes` bytes. Contents are arbitrary.
  [[gnu::noinline]] static memory_handle allocate(std::size_t bytes) {
    const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
    return {instance(), instance()->take(size), size};
  }

  static usage used() { return instance()->counted; }
  static void reset_peak() { instance()->counted.peak = instance()->counted.live; }
  /// Gives all unused blocks back to the operating system.
  static void trim() { instance()->clear(); }

 private:
  struct pool : memory_handle::source {
    usage counted;
    std::map<std::size_t, std::vector<void*>> free;

    pool() = default;
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;
    ~pool() override { clear(); }

    void* take(std::size_t size) {
      counted.live += size;
      if (counted.live > counted.peak) counted.peak = counted.live;
      if (size == 0) return nullptr;
      auto& same = free[size];
      if (!same.empty()) {
        void* data = same.back();
        same.pop_back();
        return data;
      }
      void* data = std::aligned_alloc(alignment, size);
      if (data == nullptr) {
        counted.live -= size;
        throw std::bad_alloc{};
      }
      // Room to come back, so that taking back cannot fail.
      same.reserve(++made[size]);
      return data;
    }
    void take_back(void* data, std::size_t size) noexcept override {
      counted.live -= size;
      if (data != nullptr) free.find(size)->second.push_back(data);
    }
    void clear() {
      for (auto& [size, blocks] : free) {
        for (void* data : blocks) std::free(data);
        made[size] -= blocks.size();
        blocks.clear();
      }
    }
    std::map<std::size_t, std::size_t> made;
  };

  static std::shared_ptr<pool> const& instance() {
    thread_local const std::shared_ptr<pool> one = std::make_shared<pool>();
    return one;
  }
};

}  // namespace tessera
