#pragma once

#include <tessera/backend/transfer.hpp>
#include <tessera/core/context.hpp>
#include <tessera/core/tensor.hpp>
#include <tessera/core/trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace tessera::detail {

/// The slices of a bucket that the ranks along some axes own.
struct bucket_slices {
  std::vector<index_t> counts{};  ///< by rank along these axes
  interval mine{};

  template <context Context>
  static bucket_slices of(Context& context, axis_set owners, index_t size) {
    using mesh = typename Context::mesh;
    const int ranks = mesh::group_size(owners);
    bucket_slices slices{{}, cut({0, size}, ranks, mesh::group_rank(owners, context.coordinates()))};
    for (int r = 0; r < ranks; ++r) slices.counts.push_back(cut({0, size}, ranks, r).size);
    return slices;
  }
};

/// The buckets of a network's gradients: their memory, and their reductions while these are under way.
///
/// A bucket's reduction starts when its last gradient exists, which is in the same order on all ranks, and is done by
/// the end of backward. In between it progresses when later gradients appear and when `progress` is called.
template <context Context, class T>
class gradient_buckets {
 public:
  using memory_type = tensor<T, 1, typename Context::backend::memory, Context::backend::order>;

  explicit gradient_buckets(Context& context) : context_(&context) {}
  gradient_buckets(gradient_buckets const&) = delete;
  gradient_buckets& operator=(gradient_buckets const&) = delete;

  /// Adds a bucket of `size` elements in memory of the group of `axes`. Collective over that group.
  void add(axis_set axes, index_t size, int members) {
    memory_handle owner = context_->group(axes).allocate(static_cast<std::size_t>(size) * sizeof(T));
    T* const data = static_cast<T*>(owner.get());
    memory_type memory(std::move(owner), data, shape<1>{{size}});
    context_->kernels().fill(memory.view(), T{0});
    buckets_.push_back({axes, std::move(memory), members});
  }
  /// Adds a bucket in memory that others may use too. Each rank along `owners`, which are among its axes, gets its
  /// slice of the sums.
  void add_scattered(axis_set axes, axis_set owners, memory_type memory, int members) {
    auto slices = bucket_slices::of(*context_, owners, memory.size());
    auto sums = filled<memory_type>(context_->kernels(), {{slices.mine.size}}, T{0});
    buckets_.push_back({axes, std::move(memory), members, 0, owners, std::move(slices.counts), std::move(sums)});
  }
  int size() const { return static_cast<int>(buckets_.size()); }
  memory_type const& memory(int bucket) const { return buckets_[static_cast<std::size_t>(bucket)].memory; }
  /// Whether ranks get slices of the sums of a bucket, and where this rank's slice lies.
  bool scatters(int bucket) const { return buckets_[static_cast<std::size_t>(bucket)].owners != 0; }
  T* sums(int bucket) { return buckets_[static_cast<std::size_t>(bucket)].sums.data(); }

  /// Whether reductions run beside the rest of backward, or each is waited for where it starts.
  void overlap(bool on) { overlap_ = on; }
  bool overlap() const { return overlap_; }

  /// One backward pass, from construction to destruction. Where an exception ends it, requests that are under way end
  /// as those of the communicator do then.
  class pass {
   public:
    explicit pass(gradient_buckets& of) : of_(of) {
      for (auto& b : of_.buckets_) b.pending = b.members;
    }
    pass(pass const&) = delete;
    pass& operator=(pass const&) = delete;
    ~pass() {
      of_.running_.clear();
      of_.next_ = 0;
      of_.failure_ = nullptr;
    }

   private:
    gradient_buckets& of_;
  };

  /// One more gradient of the bucket exists.
  void arrived(int bucket) {
    auto& b = buckets_[static_cast<std::size_t>(bucket)];
    if (--b.pending == 0) reduce(bucket, b);
    progress();
  }

  /// Returns when the gradients of a bucket may be written: another one in its memory may be under way.
  void make_room(int bucket) {
    auto const& wanted = buckets_[static_cast<std::size_t>(bucket)];
    for (std::size_t i = running_.size(); i > next_; --i) {
      const int other = running_[i - 1].bucket;
      if (other != bucket && memory(other).data() == wanted.memory.data()) return wait_for(i);
    }
  }

  /// Waits for all reductions of the pass.
  void finish() { wait_for(running_.size()); }

  /// After `finish`, of buckets whose sums ranks have in slices: keeps those of this pass `aside`, added to what is
  /// `kept`, or adds `factor` times what is kept to them and sums over the other axes. Kept slices are reduced so far.
  void settle(bool aside, bool kept, double factor) {
    for (bucket& b : buckets_) {
      if (b.owners == 0) continue;
      auto& kernels = context_->kernels();
      if (aside) {
        if (b.kept.size() != b.sums.size()) b.kept = memory_type(b.sums.extents());
        if (kept)
          kernels.axpy(T{1}, b.sums.read(), b.kept.view());
        else
          kernels.scale(b.sums.read(), T{1}, b.kept.view());
        continue;
      }
      if (kept) kernels.axpy(static_cast<T>(factor), b.kept.read(), b.sums.view());
      if (const auto others = static_cast<axis_set>(b.axes & ~b.owners); others != 0)
        context_->group(others).all_reduce(b.sums.data(), b.sums.size(), reduction::sum);
    }
  }

  /// Lets reductions progress. Kernels that call this cannot pass an exception on: the next wait does.
  void progress() noexcept {
    if (failure_ != nullptr) return;
    try {
      for (; next_ < running_.size() && running_[next_].request.test(); ++next_)
        ended(running_[next_].bucket, running_[next_].begin);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

 private:
  struct bucket {
    axis_set axes;
    memory_type memory;
    int members;
    int pending = 0;  ///< members whose gradient does not exist yet
    // Where ranks get slices of the sums:
    axis_set owners = 0;
    std::vector<index_t> counts{};
    memory_type sums{};
    memory_type kept{};  ///< what passes before have added up
  };
  struct running {
    typename Context::communicator::request request;
    int bucket;
    std::int64_t begin;
  };

  void reduce(int number, bucket& b) {
    auto& group = context_->group(b.owners != 0 ? b.owners : b.axes);
    const std::int64_t begin = tracer::current() == nullptr ? 0 : tracer::now();
    // The same operation in both cases: a communicator may wait for another one, whose sums have other bits.
    auto request = b.owners != 0 ? group.start_reduce_scatter(b.memory.data(), b.sums.data(), b.counts, reduction::sum)
                                 : group.start_all_reduce(b.memory.data(), b.memory.size(), reduction::sum);
    if (overlap_) {
      running_.push_back({std::move(request), number, begin});
    } else {
      request.wait();
      ended(number, begin);
    }
  }

  /// Waits for the first so many reductions of the pass.
  void wait_for(std::size_t count) {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    const trace_scope span("wait for buckets", activity::communication);
    for (; next_ < count; ++next_) {
      running_[next_].request.wait();
      ended(running_[next_].bucket, running_[next_].begin);
    }
  }

  void ended(int number, std::int64_t begin) {
    if (tracer* const to = tracer::current())
      to->add({"bucket " + std::to_string(number), activity::communication, begin, tracer::now(), true});
  }

  Context* context_;
  bool overlap_ = true;
  std::vector<bucket> buckets_{};
  std::vector<running> running_{};  // of this pass, in the order in which they started
  std::size_t next_ = 0;            // the first of them that is not complete
  std::exception_ptr failure_{};
};

}  // namespace tessera::detail
