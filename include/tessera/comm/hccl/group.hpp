#pragma once

#include <tessera/comm/counts.hpp>
#include <tessera/comm/hccl/calls.hpp>
#include <tessera/comm/hccl/messages.hpp>
#include <tessera/core/reduction.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace tessera::detail {

/// A group of ranks and its communicator, whose calls run one after the other on all ranks, on whatever stream: those
/// of `on_kernels` among the kernels, those of `beside` on a stream of the group.
class hccl_group {
 public:
  /// `ranks` of the job, in the order of the group.
  hccl_group(std::shared_ptr<hccl_job> job, std::shared_ptr<hccl_messages> messages, std::vector<int> ranks,
             std::uint64_t id, std::shared_ptr<hccl_handle> handle)
      : job_(std::move(job)),
        messages_(std::move(messages)),
        ranks_(std::move(ranks)),
        rank_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), job_->rank()) - ranks_.begin())),
        id_(id),
        handle_(std::move(handle)) {
    // HCCL numbers the ranks of a group as they ascend in the job.
    std::vector<int> sorted = ranks_;
    std::sort(sorted.begin(), sorted.end());
    for (const int r : ranks_)
      places_.push_back(
          static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), r) - sorted.begin()));
    in_order_ = std::is_sorted(ranks_.begin(), ranks_.end());
  }
  hccl_group(hccl_group const&) = delete;
  hccl_group& operator=(hccl_group const&) = delete;
  ~hccl_group() {
    side_.reset();
    aclrtSynchronizeStream(job_->kernels());
  }

  hccl_job& job() const { return *job_; }
  std::shared_ptr<hccl_messages> const& messages() const { return messages_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  int rank_in_job(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  /// The key of a message in the device's memory, and of one in the host's.
  hccl_message_key key(int tag) const { return {static_cast<std::int64_t>(2 * id_), tag}; }
  hccl_message_key host_key(int tag) const { return {static_cast<std::int64_t>(2 * id_ + 1), tag}; }

  /// A group of some of these ranks, which all call it with an `id` of its own.
  std::shared_ptr<hccl_group> part(std::vector<int> ranks, std::uint64_t id) const {
    std::shared_ptr<hccl_handle> handle;
    if (ranks.size() > 1) {
      std::vector<int> sorted = ranks;
      std::sort(sorted.begin(), sorted.end());
      handle = job_->make(sorted, id);
    }
    return std::make_shared<hccl_group>(job_, messages_, std::move(ranks), id, std::move(handle));
  }

  /// Throws where a call failed on the device.
  void check() const {
    if (handle_ != nullptr) handle_->check();
  }

  /// Runs `call(calls)` among the kernels.
  template <class Call>
  void on_kernels(Call const& call) {
    before();
    if (last_) last_.hold(job_->kernels());
    last_ = {};
    hccl_calls calls(*job_, job_->kernels());
    call(calls);
  }
  /// Runs it after the kernels so far and beside those that follow, until the event. What the calls need comes back
  /// and lives until kernels wait for the event.
  template <class Call>
  std::pair<hccl_calls, stream_event> beside(Call const& call) {
    before();
    if (side_ == nullptr) side_ = std::make_unique<side_stream>();
    hccl_calls calls(*job_, side_->get());
    call(calls);
    last_ = job_->events().record(side_->get());
    return {std::move(calls), last_};
  }

  template <class T>
  void all_reduce(hccl_calls& calls, T* data, index_t count, reduction op) {
    if constexpr (std::same_as<T, float>) {
      if (op == reduction::maximum) {
        float* const both = calls.take<float>(2 * count);
        maximum(calls, data, both, count);
        return calls.copy(both, data, count);
      }
    }
    reduce(calls, data, count, op);
  }

  /// Equal parts are gathered by `HcclAllGather`, and so are others, each in the room of the largest, where these rooms
  /// have at most a quarter more elements than the parts: it goes from server to server once for all devices of one.
  /// Very uneven parts go to each rank by themselves, by `HcclAlltoAllV`. (910 has no `HcclAllGatherV`.)
  template <class T>
  void all_gather(hccl_calls& calls, T const* send, T* receive, std::span<index_t const> counts) {
    const index_t total = total_of(counts);
    if (total == 0) return;
    const auto begins = begins_of(counts);
    const index_t own = counts[at(rank_)];
    const index_t most = *std::max_element(counts.begin(), counts.end());
    const HcclDataType type = hccl_type_of<T>();
    const bool packed = most * size() == total && in_order_;
    const bool roomy = packed || most * size() <= total + total / 4;
    T const* from = send;
    // HCCL reads and writes apart, and a whole room.
    if (send == receive + begins[at(rank_)] || (roomy && own < most)) {
      T* const part = calls.take<T>(roomy ? most : own);
      calls.copy(send, part, own);
      from = part;
    }
    if (roomy) {
      T* const rooms = packed ? receive : calls.take<T>(most * size());
      check_hccl(HcclAllGather(hccl_address(from), rooms, unsigned_of(most), type, comm(), calls.stream()),
                 "HcclAllGather");
      if (!packed)
        for (std::size_t r = 0; r < counts.size(); ++r)
          calls.copy(rooms + place_of(r) * most, receive + begins[r], counts[r]);
      return;
    }
    const std::vector<index_t> to_each(counts.size(), own);
    const std::vector<index_t> from_begin(counts.size(), 0);
    exchange(calls, from, to_each, from_begin, receive, counts, begins);
  }

  /// Uneven parts are reduced by `HcclReduceScatter`, each in the room of the largest, unless these rooms have more
  /// than twice the elements of the parts: then all is reduced on all ranks, which sends twice as much as parts do.
  template <class T>
  void reduce_scatter(hccl_calls& calls, T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    const index_t total = total_of(counts);
    if (total == 0) return;
    const auto begins = begins_of(counts);
    const index_t own = counts[at(rank_)];
    const index_t most = *std::max_element(counts.begin(), counts.end());
    const bool flagged = std::same_as<T, float> && op == reduction::maximum;
    if (flagged || most * size() > 2 * total) {
      T* const all = calls.take<T>(total);
      calls.copy(send, all, total);
      all_reduce(calls, all, total, op);
      return calls.copy(all + begins[at(rank_)], receive, own);
    }
    T const* from = send;
    if (most * size() != total || !in_order_) {
      T* const rooms = calls.take<T>(most * size());
      for (std::size_t r = 0; r < counts.size(); ++r)
        calls.copy(send + begins[r], rooms + place_of(r) * most, counts[r]);
      from = rooms;
    }
    T* const into = own < most ? calls.take<T>(most) : receive;
    check_hccl(HcclReduceScatter(hccl_address(from), into, unsigned_of(most), hccl_type_of<T>(), hccl_op(op), comm(),
                                 calls.stream()),
               "HcclReduceScatter");
    calls.copy(into, receive, own);
  }

  template <class T>
  void all_to_all(hccl_calls& calls, T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    exchange(calls, send, send_counts, begins_of(send_counts), receive, receive_counts, begins_of(receive_counts));
  }

  template <class T>
  void broadcast(hccl_calls& calls, T* data, index_t count, int root) {
    if (count > 0)
      check_hccl(HcclBroadcast(data, unsigned_of(count), hccl_type_of<T>(), static_cast<std::uint32_t>(place(root)),
                               comm(), calls.stream()),
                 "HcclBroadcast");
  }

  /// Returns when all ranks have called it.
  void barrier() {
    on_kernels([&](hccl_calls& calls) { check_hccl(HcclBarrier(comm(), calls.stream()), "HcclBarrier"); });
    job_->synchronize();
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static std::uint64_t unsigned_of(index_t count) { return static_cast<std::uint64_t>(count); }
  static HcclReduceOp hccl_op(reduction op) { return op == reduction::sum ? HCCL_REDUCE_SUM : HCCL_REDUCE_MAX; }
  std::size_t place(int rank) const { return places_[at(rank)]; }
  index_t place_of(std::size_t rank) const { return static_cast<index_t>(places_[rank]); }
  HcclComm comm() const { return handle_->get(); }

  void before() {
    messages_->progress();
    check();
  }

  template <class T>
  void reduce(hccl_calls& calls, T* data, index_t count, reduction op) {
    if (count > 0)
      check_hccl(
          HcclAllReduce(data, data, unsigned_of(count), hccl_type_of<T>(), hccl_op(op), comm(), calls.stream()),
          "HcclAllReduce");
  }
  /// HCCL keeps or drops a NaN as it pleases, so a flag for each value goes with it: one where it is NaN.
  void maximum(hccl_calls& calls, float* data, float* both, index_t count) {
    calls.copy(data, both, count);
    flag_nan(calls, both, both + count, count);
    reduce(calls, both, 2 * count, reduction::maximum);
    apply_nan(calls, both + count, both, count);
  }

  /// `HcclAlltoAllV`, with what it takes in the order of HCCL's ranks.
  template <class T>
  void exchange(hccl_calls& calls, T const* send, std::span<index_t const> send_counts,
                std::span<index_t const> send_begins, T* receive, std::span<index_t const> receive_counts,
                std::span<index_t const> receive_begins) {
    std::vector<std::uint64_t> arguments[4];
    const std::span<index_t const> values[4] = {send_counts, send_begins, receive_counts, receive_begins};
    for (std::size_t i = 0; i < 4; ++i) {
      arguments[i].resize(ranks_.size());
      for (std::size_t r = 0; r < ranks_.size(); ++r) arguments[i][places_[r]] = unsigned_of(values[i][r]);
    }
    // A rank without elements takes part, with an address that is none of nothing.
    T* const nothing = send == nullptr || receive == nullptr ? calls.take<T>(1) : nullptr;
    check_hccl(HcclAlltoAllV(send == nullptr ? nothing : send, arguments[0].data(), arguments[1].data(),
                             hccl_type_of<T>(), receive == nullptr ? nothing : receive, arguments[2].data(),
                             arguments[3].data(), hccl_type_of<T>(), comm(), calls.stream()),
               "HcclAlltoAllV");
  }

  std::shared_ptr<hccl_job> job_;
  std::shared_ptr<hccl_messages> messages_;
  std::vector<int> ranks_;
  int rank_;
  std::uint64_t id_;
  std::shared_ptr<hccl_handle> handle_;
  std::vector<std::size_t> places_{};  // of each rank in HCCL's group
  bool in_order_ = true;
  std::unique_ptr<side_stream> side_{};
  stream_event last_{};  // of the calls beside, where kernels do not wait for it yet
};

inline void check_message(hccl_group const& group, index_t count, int other, int tag, char const* operation) {
  check_count(count, operation);
  check_rank(other, group.size());
  check_tag(tag);
}

}  // namespace tessera::detail
