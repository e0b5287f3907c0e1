#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/comm/fold.hpp>
#include <tessera/comm/hccl/request.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace tessera {

/// The group of an `hccl_comm` for values in host memory. See `communicator`.
///
/// Made for a few values at a time: they go through the device's memory as bytes, after the kernels so far, which the
/// host waits for, and each rank reduces the values of all ranks itself, in the order of ranks. Collectives that are
/// started are complete at once. Messages wait for no kernels.
class hccl_host_comm {
 public:
  using request = hccl_request;

  explicit hccl_host_comm(std::shared_ptr<detail::hccl_group> group) : group_(std::move(group)) {}
  hccl_host_comm(hccl_host_comm&&) = default;
  hccl_host_comm& operator=(hccl_host_comm&&) = default;

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }

  template <message_element T>
  void all_reduce(T* data, index_t count, reduction op) {
    detail::check_count(count, "all_reduce");
    if (count == 0) return;
    std::vector<T> of_ranks(static_cast<std::size_t>(count * size()));
    all_gather(static_cast<T const*>(data), of_ranks.data(),
               std::vector<index_t>(static_cast<std::size_t>(size()), count));
    fold(of_ranks, data, count, op);
  }
  template <message_element T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    detail::check_counts(counts, size(), "all_gather");
    const auto begins = detail::begins_of(counts);
    const std::size_t own = at(rank());
    if (size() == 1 || detail::total_of(counts) == 0) return copy_own(send, receive, counts[0]);
    group_->on_kernels([&](detail::hccl_calls& calls) {
      auto* const from = upload(calls, send, counts[own]);
      auto* const to = calls.take<std::uint8_t>(bytes_of<T>(detail::total_of(counts)));
      const auto sizes = bytes_of<T>(counts);
      group_->all_gather(calls, from, to, sizes);
      download(calls, to, receive, detail::total_of(counts));
    });
  }
  template <message_element T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    detail::check_counts(counts, size(), "reduce_scatter");
    const index_t own = counts[at(rank())];
    std::vector<T> of_ranks(static_cast<std::size_t>(own * size()));
    all_to_all(send, counts, of_ranks.data(), std::vector<index_t>(counts.size(), own));
    fold(of_ranks, receive, own, op);
  }
  template <message_element T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    detail::check_counts(send_counts, size(), "all_to_all");
    detail::check_counts(receive_counts, size(), "all_to_all");
    detail::check_own_part(send_counts[at(rank())], receive_counts[at(rank())]);
    if (size() == 1) return copy_own(send, receive, send_counts[0]);
    group_->on_kernels([&](detail::hccl_calls& calls) {
      auto* const from = upload(calls, send, detail::total_of(send_counts));
      auto* const to = calls.take<std::uint8_t>(bytes_of<T>(detail::total_of(receive_counts)));
      group_->all_to_all(calls, from, bytes_of<T>(send_counts), to, bytes_of<T>(receive_counts));
      download(calls, to, receive, detail::total_of(receive_counts));
    });
  }
  template <message_element T>
  void broadcast(T* data, index_t count, int root) {
    detail::check_count(count, "broadcast");
    detail::check_rank(root, size());
    if (size() == 1 || count == 0) return;
    group_->on_kernels([&](detail::hccl_calls& calls) {
      auto* const bytes = upload(calls, data, count);
      group_->broadcast(calls, bytes, bytes_of<T>(count), root);
      download(calls, bytes, data, count);
    });
  }
  void barrier() {
    if (size() > 1) group_->barrier();
  }

  template <message_element T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    all_reduce(data, count, op);
    return {};
  }
  template <message_element T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    all_gather(send, receive, counts);
    return {};
  }
  template <message_element T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    reduce_scatter(send, receive, counts, op);
    return {};
  }
  template <message_element T>
  request start_send(T const* data, index_t count, int to, int tag) {
    detail::check_message(*group_, count, to, tag, "start_send");
    group_->messages()->send_host(data, static_cast<std::size_t>(bytes_of<T>(count)), group_->rank_in_job(to),
                                  group_->host_key(tag));
    return {};
  }
  template <message_element T>
  request start_receive(T* data, index_t count, int from, int tag) {
    detail::check_message(*group_, count, from, tag, "start_receive");
    return request(std::make_unique<detail::hccl_receiving>(
        group_->messages(),
        group_->messages()->receive_host(data, static_cast<std::size_t>(bytes_of<T>(count)), group_->rank_in_job(from),
                                         group_->host_key(tag))));
  }

  /// Memory of the host.
  memory_handle allocate(std::size_t bytes) { return host_memory::allocate(bytes); }
  hccl_host_comm split(int color, int key) const { return hccl_host_comm(part(color, key)); }
  [[noreturn]] void abort(int code) const {
    std::fflush(nullptr);
    std::_Exit(code);
  }

 private:
  friend class hccl_comm;

  /// The group of `split`.
  std::shared_ptr<detail::hccl_group> part(int color, int key) const {
    detail::check_color(color);
    struct choice {
      std::int64_t color, key, groups;
    };
    constexpr index_t numbers = 3;
    const std::array<std::int64_t, numbers> own{color, key, static_cast<std::int64_t>(group_->messages()->groups)};
    std::vector<std::int64_t> gathered(numbers * at(size()));
    // Talking to others is part of splitting, and const.
    hccl_host_comm(group_).all_gather(own.data(), gathered.data(), std::vector<index_t>(at(size()), numbers));
    std::vector<choice> all;
    for (auto next = gathered.begin(); next != gathered.end(); next += numbers)
      all.push_back({next[0], next[1], next[2]});

    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(all[a].color, all[a].key) < std::pair(all[b].color, all[b].key);
    });
    std::vector<int> mine;
    for (std::size_t i = 0; i < order.size();) {
      std::vector<int> ranks;
      const std::int64_t of = all[order[i]].color;
      for (; i < order.size() && all[order[i]].color == of; ++i)
        ranks.push_back(group_->rank_in_job(static_cast<int>(order[i])));
      group_->job().check_members(ranks, "a group");
      if (of == color) mine = std::move(ranks);
    }
    // All ranks of this group number the next one alike, and beyond what any of them has had.
    std::int64_t number = 0;
    for (choice const& c : all) number = std::max(number, c.groups);
    group_->messages()->groups = static_cast<std::uint64_t>(++number);
    const int first = *std::min_element(mine.begin(), mine.end());
    const std::uint64_t id = static_cast<std::uint64_t>(number) << 20 | static_cast<std::uint64_t>(first);
    group_->messages()->join_halves(mine, id);
    return group_->part(std::move(mine), id);
  }

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  template <class T>
  static index_t bytes_of(index_t count) {
    return count * static_cast<index_t>(sizeof(T));
  }
  template <class T>
  static std::vector<index_t> bytes_of(std::span<index_t const> counts) {
    std::vector<index_t> bytes;
    for (const index_t count : counts) bytes.push_back(bytes_of<T>(count));
    return bytes;
  }
  template <class T>
  static void copy_own(T const* from, T* to, index_t count) {
    if (from != to) std::copy_n(from, count, to);
  }
  template <class T>
  void fold(std::vector<T>& of_ranks, T* into, index_t count, reduction op) const {
    for (int r = 1; r < size(); ++r) {
      T const* const next = of_ranks.data() + r * count;
      if (op == reduction::sum)
        detail::fold_sum(next, of_ranks.data(), count);
      else
        detail::fold_maximum(next, of_ranks.data(), count);
    }
    std::copy_n(of_ranks.data(), count, into);
  }
  template <class T>
  static std::uint8_t* upload(detail::hccl_calls& calls, T const* from, index_t count) {
    const index_t bytes = bytes_of<T>(count);
    auto* const to = calls.take<std::uint8_t>(bytes);
    transfer(calls, to, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    return to;
  }
  template <class T>
  void download(detail::hccl_calls& calls, std::uint8_t const* from, T* to, index_t count) {
    transfer(calls, to, from, bytes_of<T>(count), ACL_MEMCPY_DEVICE_TO_HOST);
    group_->job().synchronize();
  }
  static void transfer(detail::hccl_calls& calls, void* to, void const* from, index_t bytes, aclrtMemcpyKind kind) {
    if (bytes == 0) return;
    const auto size = static_cast<std::size_t>(bytes);
    detail::check_acl(aclrtMemcpyAsync(to, size, from, size, kind, calls.stream()), "aclrtMemcpyAsync");
  }

  std::shared_ptr<detail::hccl_group> group_;
};

static_assert(communicator<hccl_host_comm>);

}  // namespace tessera
