#pragma once

#include <tessera/backend/parallel.hpp>
#include <tessera/core/block.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/memory.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tessera::detail::eigen_kernels {

/// The threads that kernels of one backend run on, and scratch memory that grows to the largest request and is kept:
/// one buffer a slot, and the same again for each thread.
///
/// A kernel that is given a workspace splits its work with it, and gives the part's workspace to the kernels that it
/// calls; these then run on their thread alone. Where there is only one part, it gets the whole workspace: the kernels
/// inside may have something to split.
class workspace {
 public:
  /// Parts are worth `grain` elements of plain arithmetic.
  explicit workspace(int threads = 1, index_t grain = parallel_grain) : grain_(grain) { use_threads(threads); }

  int threads() const { return threads_; }
  /// From now on. Throws `error` for less than 1.
  void use_threads(int threads) {
    if (threads < 1)
      throw error(std::to_string(threads) + " threads", "at least 1",
                  "pass the number of threads that kernels of this rank may use");
    threads_ = threads;
    while (threads > 1 && static_cast<int>(parts_.size()) < threads) parts_.push_back(workspace(of_part{}));
  }

  /// Slot `slot` as memory for `count` elements.
  template <class T>
  T* get(int slot, index_t count) {
    buffer& b = slots_[static_cast<std::size_t>(slot)];
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (b.bytes < bytes) {
      b.owner = {};
      b.bytes = 0;
      b.owner = of_part_ ? unpooled(bytes) : host_memory::allocate(bytes);
      b.bytes = bytes;
    }
    return static_cast<T*>(b.owner.get());
  }

  /// How many parts `split` makes of `count` items that cost as much as `cost` elements of plain arithmetic each.
  int parts(index_t count, index_t cost) const { return parts_for(threads_, count, cost, grain_); }

  /// Calls `f(part, workspace of the part)`, each on a thread of its own.
  template <class F>
  void run(int parts, F const& f) {
    if (parts == 1)
      f(0, *this);
    else
      run_parts(parts, [&](int part) {
        f(part, parts_[static_cast<std::size_t>(part)]);
#if defined(__SSE__)
        _mm_sfence();  // stores past the caches are seen by others only after this
#endif
      });
  }

  /// Calls `f(begin, end, workspace of the part)` for parts of 0 to count. Once, and for nothing, where `count` is 0.
  template <class F>
  void split(index_t count, index_t cost, F const& f) {
    const int all = parts(count, cost);
    run(all, [&](int part, workspace& own) {
      const interval items = cut({0, count}, all, part);
      f(items.begin, items.end(), own);
    });
  }

  /// The same for elements in a row, cut at the cache lines of `data`: each element is computed as a part of the same
  /// packet, or as a number, as it is without threads.
  template <class T, class F>
  void split_elements(T const* data, index_t count, index_t cost, F const& f) {
    constexpr index_t line = static_cast<index_t>(host_memory::alignment / sizeof(T));
    const auto ahead =
        static_cast<index_t>(reinterpret_cast<std::uintptr_t>(data) % host_memory::alignment / sizeof(T));
    const auto element = [&](index_t at) { return std::clamp<index_t>(at * line - ahead, 0, count); };
    split((count + ahead + line - 1) / line, line * cost,
          [&](index_t begin, index_t end, workspace&) { f(element(begin), element(end)); });
  }
  /// The same, cut at packets from the first element on.
  template <class T, class F>
  void split_packets(index_t count, index_t cost, F const& f) {
    split_elements<T>(nullptr, count, cost, f);
  }

 private:
  struct of_part {};
  explicit workspace(of_part) : of_part_(true) {}

  /// Memory that is no part of a thread's pool, because the pool belongs to a thread that is not ours.
  static memory_handle unpooled(std::size_t bytes) {
    struct heap : memory_handle::source {
      void take_back(void* data, std::size_t) noexcept override { std::free(data); }
    };
    const std::size_t size = (bytes + host_memory::alignment - 1) / host_memory::alignment * host_memory::alignment;
    void* data = std::aligned_alloc(host_memory::alignment, size);
    if (data == nullptr) throw std::bad_alloc{};
    return {std::make_shared<heap>(), data, size};
  }

  struct buffer {
    memory_handle owner;
    std::size_t bytes = 0;
  };
  std::array<buffer, 8> slots_;
  int threads_ = 1;
  index_t grain_ = parallel_grain;
  bool of_part_ = false;
  std::vector<workspace> parts_;  ///< of the threads; these have none
};

/// Numbers `begin` to `end` of the outermost dimension of a block.
template <class T, int Rank, storage_order Order>
block<T, Rank, Order> outer_part(block<T, Rank, Order> whole, index_t begin, index_t end) {
  index_t each = 1;
  for (int d = 1; d < Rank; ++d) each *= whole.extents[d];
  auto extents = whole.extents;
  extents[0] = end - begin;
  return {whole.data == nullptr ? nullptr : whole.data + begin * each, extents};
}

}  // namespace tessera::detail::eigen_kernels
