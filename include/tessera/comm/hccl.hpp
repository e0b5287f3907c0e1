#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/comm/hccl/host.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace tessera {

/// The element types that `hccl_comm` carries in the device's memory.
template <class T>
concept hccl_element = std::same_as<T, float> || std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

/// A group of ranks of a job on Ascend, one device each, by HCCL. See `communicator`. Addresses are those of the device
/// whose stream it works with; `host()` is the group for values in host memory.
///
/// Collectives run among the kernels; those that are started run beside them, on a stream of the group. `wait` of a
/// collective does not hold up the host: later kernels wait. Where a call fails on the device (ranks that disagree on
/// counts, a rank that is gone: `HCCL_EXEC_TIMEOUT`), the next call that waits for the device throws, on all ranks.
///
/// The maximum of floats is reduced with a flag for each, as HCCL leaves open what becomes of NaN. Parts of different
/// sizes are gathered and scattered in rooms of one size, or exchanged, whichever moves less (`detail::hccl_group`).
///
/// Messages match by tags here (`detail::hccl_messages`): each pair of ranks that has sent any takes two communicators
/// of HCCL, whose buffers are 128 MB of the device.
///
/// On Ascend 910 a group lies within a half server or takes whole servers (`split` throws before HCCL is asked). In a
/// group of whole servers neighbours send each other messages across the halves; others that try get an error.
class hccl_comm {
 public:
  using request = hccl_request;

  /// All ranks of the job, which all call this; once in a process, as HCCL allows.
  explicit hccl_comm(std::shared_ptr<ascend_device> device,
                     ascend_environment const& place = ascend_environment::read())
      : hccl_comm(whole(std::make_shared<detail::hccl_job>(std::move(device), place))) {}
  hccl_comm(hccl_comm&&) = default;
  hccl_comm& operator=(hccl_comm&&) = default;

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  hccl_host_comm& host() { return host_; }

  template <hccl_element T>
  void all_reduce(T* data, index_t count, reduction op) {
    detail::check_count(count, "all_reduce");
    if (size() > 1) on_kernels([&](auto& calls) { group_->all_reduce(calls, data, count, op); });
  }
  template <hccl_element T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    detail::check_counts(counts, size(), "all_gather");
    if (size() == 1) return copy_own(send, receive, counts[0]);
    on_kernels([&](auto& calls) { group_->all_gather(calls, send, receive, counts); });
  }
  template <hccl_element T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    detail::check_counts(counts, size(), "reduce_scatter");
    if (size() == 1) return copy_own(send, receive, counts[0]);
    on_kernels([&](auto& calls) { group_->reduce_scatter(calls, send, receive, counts, op); });
  }
  template <hccl_element T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    detail::check_counts(send_counts, size(), "all_to_all");
    detail::check_counts(receive_counts, size(), "all_to_all");
    detail::check_own_part(send_counts[at(rank())], receive_counts[at(rank())]);
    if (size() == 1) return copy_own(send, receive, send_counts[0]);
    on_kernels([&](auto& calls) { group_->all_to_all(calls, send, send_counts, receive, receive_counts); });
  }
  template <hccl_element T>
  void broadcast(T* data, index_t count, int root) {
    detail::check_count(count, "broadcast");
    detail::check_rank(root, size());
    if (size() > 1) on_kernels([&](auto& calls) { group_->broadcast(calls, data, count, root); });
  }
  /// Also waits for the kernels so far.
  void barrier() { host_.barrier(); }

  template <hccl_element T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    detail::check_count(count, "start_all_reduce");
    if (size() == 1 || count == 0) return {};
    return beside([&](auto& calls) { group_->all_reduce(calls, data, count, op); });
  }
  template <hccl_element T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    detail::check_counts(counts, size(), "start_all_gather");
    if (size() > 1) return beside([&](auto& calls) { group_->all_gather(calls, send, receive, counts); });
    copy_own(send, receive, counts[0]);
    return {};
  }
  template <hccl_element T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    detail::check_counts(counts, size(), "start_reduce_scatter");
    if (size() > 1) return beside([&](auto& calls) { group_->reduce_scatter(calls, send, receive, counts, op); });
    copy_own(send, receive, counts[0]);
    return {};
  }
  /// Complete at once: what is sent is copied among the kernels.
  template <hccl_element T>
  request start_send(T const* data, index_t count, int to, int tag) {
    detail::check_message(*group_, count, to, tag, "start_send");
    group_->messages()->send(data, static_cast<std::size_t>(count) * sizeof(T), group_->rank_in_job(to),
                             group_->key(tag));
    return {};
  }
  template <hccl_element T>
  request start_receive(T* data, index_t count, int from, int tag) {
    detail::check_message(*group_, count, from, tag, "start_receive");
    return request(std::make_unique<detail::hccl_receiving>(
        group_->messages(), group_->messages()->receive(data, static_cast<std::size_t>(count) * sizeof(T),
                                                        group_->rank_in_job(from), group_->key(tag))));
  }

  /// Memory of the backend's pool; any is as fast.
  memory_handle allocate(std::size_t bytes) { return group_->job().device().allocate(bytes); }

  /// Throws on all ranks where HCCL could not connect one of the groups.
  hccl_comm split(int color, int key) const {
    return hccl_comm(host_.part(color, key));
  }

  /// Ends this process. The launcher ends the others, or HCCL does: they fail where they wait for this rank.
  [[noreturn]] void abort(int code) const { host_.abort(code); }

 private:
  explicit hccl_comm(std::shared_ptr<detail::hccl_group> group) : group_(std::move(group)), host_(group_) {}

  static std::shared_ptr<detail::hccl_group> whole(std::shared_ptr<detail::hccl_job> job) {
    std::vector<int> ranks(at(job->size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto messages = std::make_shared<detail::hccl_messages>(job);
    messages->join_halves(ranks, 0);
    auto handle = job->all();
    return std::make_shared<detail::hccl_group>(std::move(job), std::move(messages), std::move(ranks), 0,
                                                std::move(handle));
  }
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  template <class Call>
  void on_kernels(Call const& call) {
    group_->on_kernels([&](detail::hccl_calls& calls) { call(calls); });
  }
  template <class Call>
  request beside(Call const& call) {
    auto started = group_->beside([&](detail::hccl_calls& calls) { call(calls); });
    return request(std::make_unique<detail::hccl_collective>(group_, std::move(started)));
  }
  template <class T>
  void copy_own(T const* from, T* to, index_t count) {
    detail::hccl_calls(group_->job(), group_->job().kernels()).copy(from, to, count);
  }

  std::shared_ptr<detail::hccl_group> group_;
  hccl_host_comm host_;
};

static_assert(communicator<hccl_comm>);

}  // namespace tessera
