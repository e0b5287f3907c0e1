#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/comm/counts.hpp>
#include <tessera/comm/fold.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {

/// Adds up `ranks` arrays of `count` elements, one after the other in memory, into the first: neighbours, then
/// neighbouring pairs, and so on. Those of a power of two of ranks are a subtree of those of all.
template <message_element T>
void fold_in_order(T* arrays, int ranks, index_t count) {
  for (index_t apart = 1; apart < ranks; apart *= 2)
    for (index_t r = 0; r + apart < ranks; r += 2 * apart)
      fold_sum(arrays + (r + apart) * count, arrays + r * count, count);
}

}  // namespace detail

/// A request of `ordered`: messages, and what is done once they are there.
template <communicator_request Message>
class [[nodiscard]] ordered_request {
 public:
  using messages = std::vector<Message>;

  ordered_request() = default;
  ordered_request(messages first, std::function<void(messages&)> then = {})
      : then_(std::move(then)), messages_(std::move(first)) {}
  ordered_request(ordered_request&& other) noexcept
      : then_(std::exchange(other.then_, {})),
        messages_(std::exchange(other.messages_, {})),
        exceptions_(other.exceptions_) {}
  ordered_request& operator=(ordered_request&& other) {
    finish();
    then_ = std::exchange(other.then_, {});
    messages_ = std::exchange(other.messages_, {});
    exceptions_ = other.exceptions_;
    return *this;
  }
  ~ordered_request() { finish(); }

  bool test() {
    do {
      for (; !messages_.empty(); messages_.pop_back())
        if (!messages_.back().test()) return false;
    } while (go_on());
    return true;
  }
  void wait() {
    do {
      for (; !messages_.empty(); messages_.pop_back()) messages_.back().wait();
    } while (go_on());
  }

 private:
  /// Whether there was something to do after the messages so far.
  bool go_on() {
    const auto then = std::exchange(then_, {});
    if (!then) return false;
    then(messages_);
    return true;
  }
  /// While an exception unwinds, the messages end as those of the communicator do.
  void finish() {
    if (std::uncaught_exceptions() <= exceptions_) wait();
  }

  std::function<void(messages&)> then_{};  // owns what the messages are received into, so it goes after them
  messages messages_{};
  int exceptions_ = std::uncaught_exceptions();
};

/// A communicator whose sums are added in an order that does not depend on the number of ranks: ranks in pairs, then
/// pairs of pairs. Where each rank's own part is the sum over a subtree of the same binary tree (as the kernels of
/// `deterministic` make it), a sum over any power of two of ranks has the same bits.
///
/// Everything else is that of `Inner`. A sum costs what a reduce-scatter and an all-gather of direct messages do: each
/// element travels twice to all but one rank, as in a ring, in 2 (ranks - 1) messages a rank; sums of at most
/// `gathered_elements` over all ranks are one all-gather.
template <communicator Inner>
class ordered {
 public:
  using request = ordered_request<typename Inner::request>;
  static constexpr bool sums_in_order = true;
  static constexpr index_t gathered_elements = 4096;

  /// Collective over the ranks of `inner`.
  explicit ordered(Inner inner) : parts_(inner.split(0, inner.rank())), inner_(std::move(inner)) {}

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }

  template <message_element T>
  void all_reduce(T* data, index_t count, reduction op) {
    detail::check_count(count, "all_reduce");
    if (size() == 1 || op != reduction::sum) return inner_.all_reduce(data, count, op);
    if (count * size() > gathered_elements) return start_all_reduce(data, count, op).wait();
    std::vector<T> of_ranks(static_cast<std::size_t>(count * size()));
    inner_.all_gather(static_cast<T const*>(data), of_ranks.data(),
                      std::vector<index_t>(static_cast<std::size_t>(size()), count));
    detail::fold_in_order(of_ranks.data(), size(), count);
    std::copy_n(of_ranks.data(), count, data);
  }
  template <message_element T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    inner_.all_gather(send, receive, counts);
  }
  template <message_element T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    start_reduce_scatter(send, receive, counts, op).wait();
  }
  template <message_element T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    inner_.all_to_all(send, send_counts, receive, receive_counts);
  }
  template <message_element T>
  void broadcast(T* data, index_t count, int root) {
    inner_.broadcast(data, count, root);
  }
  void barrier() { inner_.barrier(); }

  template <message_element T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    detail::check_count(count, "start_all_reduce");
    if (size() == 1 || op != reduction::sum) return after(inner_.start_all_reduce(data, count, op));
    std::vector<index_t> counts;
    for (int r = 0; r < size(); ++r) counts.push_back(cut({0, count}, size(), r).size);
    const int tag = next_tag();
    const auto begins = detail::begins_of(counts);
    T* const mine = data + begins[at(rank())];
    return start_sum(static_cast<T const*>(data), mine, counts, tag, [=, this](messages& next) {
      // A sum goes straight to where the other ranks want it.
      for_others([&](int r) {
        if (counts[at(r)] > 0) next.push_back(parts_.start_receive(data + begins[at(r)], counts[at(r)], r, tag));
        if (counts[at(rank())] > 0)
          next.push_back(parts_.start_send(static_cast<T const*>(mine), counts[at(rank())], r, tag));
      });
    });
  }
  template <message_element T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    return after(inner_.start_all_gather(send, receive, counts));
  }
  template <message_element T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    detail::check_counts(counts, size(), "start_reduce_scatter");
    if (size() == 1 || op != reduction::sum) return after(inner_.start_reduce_scatter(send, receive, counts, op));
    return start_sum(send, receive, counts, next_tag(), [](messages&) {});
  }
  template <message_element T>
  request start_send(T const* data, index_t count, int to, int tag) {
    return after(inner_.start_send(data, count, to, tag));
  }
  template <message_element T>
  request start_receive(T* data, index_t count, int from, int tag) {
    return after(inner_.start_receive(data, count, from, tag));
  }

  /// Memory of this rank alone: sums are sent, wherever they lie.
  memory_handle allocate(std::size_t bytes) { return host_memory::allocate(bytes); }
  ordered split(int color, int key) const { return ordered(inner_.split(color, key)); }
  [[noreturn]] void abort(int code) const { inner_.abort(code); }

 private:
  using messages = typename request::messages;

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static request after(typename Inner::request one) {
    messages all;
    all.push_back(std::move(one));
    return request(std::move(all));
  }
  template <class F>
  void for_others(F f) const {
    for (int step = 1; step < size(); ++step) f((rank() + step) % size());
  }
  /// All ranks start their sums in the same order, so that a number tells the messages of one from those of another.
  int next_tag() {
    constexpr int tags = 32767;
    return std::exchange(tag_, (tag_ + 1) % tags);
  }

  /// Sends each rank its part, adds up the parts that arrive into `receive`, and goes on with `then`.
  template <class T, class Then>
  request start_sum(T const* send, T* receive, std::span<index_t const> counts, int tag, Then then) {
    const auto begins = detail::begins_of(counts);
    const index_t count = counts[at(rank())];
    const auto of_ranks = std::make_shared<std::vector<T>>(static_cast<std::size_t>(count * size()));
    T* const all = of_ranks->data();
    std::copy_n(send + begins[at(rank())], count, all + rank() * count);
    messages first;
    for_others([&](int r) {
      if (count > 0) first.push_back(parts_.start_receive(all + r * count, count, r, tag));
      if (counts[at(r)] > 0) first.push_back(parts_.start_send(send + begins[at(r)], counts[at(r)], r, tag));
    });
    return request(std::move(first), [=, ranks = size()](messages& next) {
      detail::fold_in_order(of_ranks->data(), ranks, count);
      std::copy_n(of_ranks->data(), count, receive);
      then(next);
    });
  }

  Inner parts_;  // for the messages of sums, which meet no others there
  Inner inner_;
  int tag_ = 0;
};

}  // namespace tessera
