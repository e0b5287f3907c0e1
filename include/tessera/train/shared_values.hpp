#pragma once

#include <tessera/plan/bucket_sharing.hpp>
#include <tessera/train/buckets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::detail {

/// The values of the parameters in buckets that ranks share: the slices that this rank owns, and memory for whole
/// buckets, which are gathered when passes come to their layers, one bucket ahead.
///
/// Gathers start in an order that follows from the plan alone, so it is the same on all ranks.
template <context Context, class T>
class shared_values {
 public:
  using memory_type = typename gradient_buckets<Context, T>::memory_type;

  explicit shared_values(Context& context) : context_(&context) {}
  shared_values(shared_values const&) = delete;
  shared_values& operator=(shared_values const&) = delete;

  /// Memory for buckets of these sizes.
  void allocate(bucket_sharing sharing, std::vector<index_t> const& sizes) {
    sharing_ = std::move(sharing);
    if (sharing_.level == 0) return;
    std::vector<index_t> most;  // by place
    for (std::size_t b = 0; b < sizes.size(); ++b)
      if (const int p = sharing_.value_places[b]; p >= 0) {
        if (static_cast<int>(most.size()) <= p) most.resize(static_cast<std::size_t>(p) + 1, 0);
        most[static_cast<std::size_t>(p)] = std::max(most[static_cast<std::size_t>(p)], sizes[b]);
      }
    for (const index_t size : most) places_.push_back({memory_type(shape<1>{{size}}), -1, {}, 0});
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      buckets_.emplace_back();
      if (!sharing_.shares(static_cast<int>(b))) continue;
      bucket& made = buckets_.back();
      made.slices = bucket_slices::of(*context_, sharing_.axes[b], sizes[b]);
      const shape<1> mine{{made.slices.mine.size}};
      made.whole = place_of(static_cast<int>(b)).memory.part(0, shape<1>{{sizes[b]}});
      made.own = sharing_.level == 3 ? memory_type(mine) : made.whole.part(made.slices.mine.begin, mine);
    }
  }

  bool shares(int bucket) const { return bucket >= 0 && sharing_.shares(bucket); }
  axis_set owners(int bucket) const { return sharing_.axes[static_cast<std::size_t>(bucket)]; }
  /// Where layers find a bucket, and where the slice that this rank owns lies: its place in the bucket, its elements.
  memory_type const& whole(int bucket) const { return of(bucket).whole; }
  interval slice(int bucket) const { return of(bucket).slices.mine; }
  T* own(int bucket) { return buckets_[static_cast<std::size_t>(bucket)].own.data(); }

  /// Takes what this rank owns of elements that somebody has written into the memory of a whole bucket.
  void take(int bucket, interval elements) {
    const interval mine = intersect(elements, slice(bucket));
    if (mine.size == 0) return;
    T const* const from = of(bucket).whole.data() + mine.begin;
    T* const to = own(bucket) + (mine.begin - slice(bucket).begin);
    const shape<1> some{{mine.size}};
    if (from != to) context_->kernels().copy(block<T const, 1>{from, some}, block<T, 1>{to, some});
  }

  /// Somebody is about to write the memory of a whole bucket: what is there is out of date.
  void open(int bucket) {
    place& p = place_of(bucket);
    wait(p);
    p.holds = -1;
  }

  /// Whether gathers run beside the layers, or each is waited for where it starts.
  void overlap(bool on) { overlap_ = on; }

  /// A pass over the layers begins.
  void begin(bool backward) {
    pass_ = backward ? &sharing_.backward : &sharing_.forward;
    at_ = 0;
  }
  /// Returns when a bucket is there.
  void bring(int bucket) {
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
    place& p = place_of(bucket);
    if (p.holds != bucket) start(bucket, p);
    wait(p);
  }
  /// The pass is at the layer of the parameters from `first` on: starts to gather the next bucket that is not there,
  /// unless layers before it need what lies in its place.
  void look_ahead(int first) {
    while (at_ < pass_->size() && (*pass_)[at_].first != first) ++at_;
    for (std::size_t later = at_ + 1; later < pass_->size(); ++later) {
      bool found = false;
      sharing_.for_buckets((*pass_)[later], [&](int b) {
        place& p = place_of(b);
        if (p.holds == b) return;
        found = true;
        if (!needed(p.holds, later)) start(b, p);
      });
      if (found) return;
    }
  }
  /// What is gathered is out of date.
  void forget() {
    for (place& p : places_) {
      wait(p);
      p.holds = -1;
    }
  }

  /// Lets gathers progress. Kernels that call this cannot pass an exception on: the next `bring` does.
  void progress() noexcept {
    if (failure_ != nullptr) return;
    try {
      for (place& p : places_)
        if (p.gather && p.gather->test()) end(p);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

 private:
  struct bucket {
    bucket_slices slices{};
    memory_type whole{};
    memory_type own{};
  };
  struct place {
    memory_type memory;
    int holds;  ///< the bucket that is there, or on its way; -1 for none
    std::optional<typename Context::communicator::request> gather;
    std::int64_t begin;
  };

  bucket const& of(int bucket) const { return buckets_[static_cast<std::size_t>(bucket)]; }
  /// Whether a layer of the pass, from this one up to `later`, needs a bucket.
  bool needed(int bucket, std::size_t later) const {
    bool found = false;
    for (std::size_t i = at_; i < later; ++i)
      sharing_.for_buckets((*pass_)[i], [&](int b) { found = found || b == bucket; });
    return found;
  }
  place& place_of(int bucket) {
    return places_[static_cast<std::size_t>(sharing_.value_places[static_cast<std::size_t>(bucket)])];
  }

  void start(int number, place& p) {
    wait(p);
    bucket& b = buckets_[static_cast<std::size_t>(number)];
    auto& group = context_->group(sharing_.axes[static_cast<std::size_t>(number)]);
    p.begin = tracer::current() == nullptr ? 0 : tracer::now();
    p.holds = number;
    if (overlap_) {
      p.gather.emplace(group.start_all_gather(b.own.data(), b.whole.data(), b.slices.counts));
    } else {
      group.all_gather(b.own.data(), b.whole.data(), b.slices.counts);
      end(p);
    }
  }
  void wait(place& p) {
    if (!p.gather) return;
    const trace_scope span("wait for parameters", activity::communication);
    p.gather->wait();
    end(p);
  }
  void end(place& p) {
    p.gather.reset();
    if (tracer* const to = tracer::current())
      to->add(
          {"parameters of bucket " + std::to_string(p.holds), activity::communication, p.begin, tracer::now(), true});
  }

  Context* context_;
  bucket_sharing sharing_{};
  std::vector<bucket> buckets_{};
  std::vector<place> places_{};
  std::vector<layer_parameters> const* pass_ = &sharing_.forward;
  std::size_t at_ = 0;  // the layer to which it has come
  bool overlap_ = true;
  std::exception_ptr failure_{};
};

}  // namespace tessera::detail
