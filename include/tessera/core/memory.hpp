#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <utility>

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
  /// A block and the count of its owners, for memories that keep both together when nobody owns them.
  class counted_block {
   public:
    counted_block(counted_block const&) = delete;
    counted_block& operator=(counted_block const&) = delete;

   protected:
    explicit counted_block(void* data) : data_(data) {}
    virtual ~counted_block() = default;
    /// Called when the last owner is gone.
    virtual void take_back() noexcept = 0;
    void* data() const { return data_; }

   private:
    friend class memory_handle;
    std::atomic<long> owners_{0};
    void* data_;
  };

  memory_handle() = default;
  memory_handle(std::shared_ptr<source> from, void* data, std::size_t bytes)
      : memory_handle(new block_of_source(std::move(from), data, bytes)) {}
  /// The first owner of a block that nobody owns.
  explicit memory_handle(counted_block* block) noexcept : block_(block) {
    block->owners_.store(1, std::memory_order_relaxed);
  }
  memory_handle(memory_handle const& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->owners_.fetch_add(1, std::memory_order_relaxed);
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

  void* get() const { return block_ == nullptr ? nullptr : block_->data_; }
  /// Whether nobody else owns the block.
  bool unique() const { return block_ != nullptr && block_->owners_.load(std::memory_order_acquire) == 1; }

 private:
  struct block_of_source final : counted_block {
    block_of_source(std::shared_ptr<source> where_from, void* data, std::size_t size)
        : counted_block(data), from(std::move(where_from)), bytes(size) {}
    void take_back() noexcept override {
      from->take_back(data(), bytes);
      delete this;
    }
    std::shared_ptr<source> from;
    std::size_t bytes;
  };
  [[gnu::noinline]] static void release(counted_block* block) noexcept {
    // A single owner is the caller, and only owners make more: no need for an atomic subtraction.
    if (block->owners_.load(std::memory_order_acquire) == 1 ||
        block->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      block->take_back();
  }

  counted_block* block_ = nullptr;
};

/// Host memory for tensor blocks: 64-byte aligned, returned blocks are kept and handed out again.
///
/// Training allocates the same sizes every step; without reuse each large block would be mapped and
/// zeroed by the operating system again. One pool a thread, so no locks: a block goes back to its pool on the thread
/// that drops it last, so hand tensors to other threads only while their own thread is idle or after its end (a join).
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
    return memory_handle(here().take((bytes + alignment - 1) / alignment * alignment));
  }

  static usage used() { return here().counted; }
  static void reset_peak() { here().counted.peak = here().counted.live; }
  /// Gives all unused blocks back to the operating system.
  static void trim() { here().clear(); }

 private:
  struct pool;
  struct pool_block;
  /// The blocks of one size that nobody owns.
  struct bin {
    pool& from;
    std::size_t size;
    pool_block* first = nullptr;
  };
  struct pool_block final : memory_handle::counted_block {
    explicit pool_block(bin& home) : counted_block(some(home.size)), of(home) {}
    ~pool_block() override { std::free(data()); }
    static void* some(std::size_t size) {
      if (size == 0) return nullptr;
      void* data = std::aligned_alloc(alignment, size);
      if (data == nullptr) throw std::bad_alloc{};
      return data;
    }
    void take_back() noexcept override { of.from.take_back(*this); }

    bin& of;
    pool_block* next = nullptr;
  };
  /// Blocks and their counts stay together, so that handing one out again is two links and no look into the heap.
  struct pool {
    usage counted;
    std::size_t owned = 0;      ///< blocks that somebody owns
    bool thread_ended = false;  ///< then the last of these takes the pool with it
    std::map<std::size_t, bin> bins;
    std::array<bin*, 64> recent{};  ///< bins by their size's hash, to find most without a search

    pool() = default;
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;
    ~pool() { clear(); }

    pool_block* take(std::size_t size) {
      bin& same = bin_of(size);
      pool_block* block = same.first;
      if (block != nullptr)
        same.first = block->next;
      else
        block = new pool_block(same);
      ++owned;
      counted.live += size;
      if (counted.live > counted.peak) counted.peak = counted.live;
      return block;
    }
    void take_back(pool_block& block) noexcept {
      bin& same = block.of;
      block.next = std::exchange(same.first, &block);
      counted.live -= same.size;
      if (--owned == 0 && thread_ended) delete this;
    }
    void clear() {
      for (auto& [size, same] : bins)
        while (same.first != nullptr) delete std::exchange(same.first, same.first->next);
    }

   private:
    bin& bin_of(std::size_t size) {
      bin*& guess = recent[size / alignment * 0x9e3779b97f4a7c15u >> 58];
      if (guess == nullptr || guess->size != size) guess = &bins.try_emplace(size, bin{*this, size}).first->second;
      return *guess;
    }
  };
  /// The pool of a thread, which outlives it while tensors have blocks of it.
  struct owner {
    pool* of_thread = new pool;
    owner() = default;
    owner(owner const&) = delete;
    owner& operator=(owner const&) = delete;
    ~owner() {
      if (of_thread->owned == 0)
        delete of_thread;
      else
        of_thread->thread_ended = true;
    }
  };

  static pool& here() {
    thread_local const owner one;
    return *one.of_thread;
  }
};

}  // namespace tessera
