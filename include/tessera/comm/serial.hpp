#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/comm/counts.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {

/// A receive that waits for its message; the request owns it, so a receive whose request is gone is withdrawn.
struct posted_receive {
  void* to;
  std::size_t bytes;
  int tag;
  bool complete = false;

  void take(void const* from, std::size_t sent) {
    if (sent != bytes)
      throw error("a message of " + std::to_string(sent) + " bytes for a receive of " + std::to_string(bytes) +
                      " bytes (tag " + std::to_string(tag) + ")",
                  "equal sizes", "send and receive the same count and element type");
    if (bytes != 0) std::memcpy(to, from, bytes);
    complete = true;
  }
};

/// Messages that the only rank sends to itself.
class mailbox {
 public:
  void send(void const* data, std::size_t bytes, int tag) {
    for (auto posted = receives_.begin(); posted != receives_.end();) {
      const std::shared_ptr<posted_receive> receive = posted->lock();
      if (receive != nullptr && receive->tag != tag) {
        ++posted;
        continue;
      }
      posted = receives_.erase(posted);
      if (receive != nullptr) return receive->take(data, bytes);
    }
    auto const* first = static_cast<std::byte const*>(data);
    messages_.push_back({tag, std::vector<std::byte>(first, first + bytes)});
  }

  std::shared_ptr<posted_receive> receive(void* data, std::size_t bytes, int tag) {
    auto receive = std::make_shared<posted_receive>(posted_receive{data, bytes, tag});
    const auto sent = std::find_if(messages_.begin(), messages_.end(), [&](message const& m) { return m.tag == tag; });
    if (sent == messages_.end()) {
      receives_.push_back(receive);
    } else {
      receive->take(sent->content.data(), sent->content.size());
      messages_.erase(sent);
    }
    return receive;
  }

 private:
  struct message {
    int tag;
    std::vector<std::byte> content;
  };
  std::deque<message> messages_;
  std::deque<std::weak_ptr<posted_receive>> receives_;
};

}  // namespace detail

/// A request of `serial_comm`. Sends and reductions are complete at once; waiting for a receive whose message has not
/// been sent throws, because nobody else could send it.
class [[nodiscard]] serial_request {
 public:
  serial_request() = default;
  explicit serial_request(std::shared_ptr<detail::posted_receive> receive) : receive_(std::move(receive)) {}
  serial_request(serial_request&&) = default;
  serial_request& operator=(serial_request&&) = default;

  bool test() { return receive_ == nullptr || receive_->complete; }
  void wait() {
    if (!test())
      throw error("waiting for a message with tag " + std::to_string(receive_->tag) + " that was never sent",
                  "a send of the only rank to itself before the wait", "start the send first, or run more ranks");
  }

 private:
  std::shared_ptr<detail::posted_receive> receive_;
};

/// A communicator of one rank that needs no message passing library. See `communicator`.
class serial_comm {
 public:
  using request = serial_request;

  serial_comm() = default;
  serial_comm(serial_comm&&) = default;
  serial_comm& operator=(serial_comm&&) = default;

  int rank() const { return 0; }
  int size() const { return 1; }

  template <message_element T>
  void all_reduce(T*, index_t count, reduction) {
    detail::check_count(count, "all_reduce");
  }
  template <message_element T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    detail::check_counts(counts, 1, "all_gather");
    copy(send, counts[0], receive);
  }
  template <message_element T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction) {
    detail::check_counts(counts, 1, "reduce_scatter");
    copy(send, counts[0], receive);
  }
  template <message_element T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    detail::check_counts(send_counts, 1, "all_to_all");
    detail::check_counts(receive_counts, 1, "all_to_all");
    detail::check_own_part(send_counts[0], receive_counts[0]);
    copy(send, send_counts[0], receive);
  }
  template <message_element T>
  void broadcast(T*, index_t count, int root) {
    detail::check_count(count, "broadcast");
    detail::check_rank(root, 1);
  }
  void barrier() {}

  template <message_element T>
  request start_all_reduce(T*, index_t count, reduction) {
    detail::check_count(count, "start_all_reduce");
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
    check_message(count, to, tag, "start_send");
    mail_->send(data, static_cast<std::size_t>(count) * sizeof(T), tag);
    return {};
  }
  template <message_element T>
  request start_receive(T* data, index_t count, int from, int tag) {
    check_message(count, from, tag, "start_receive");
    return request{mail_->receive(data, static_cast<std::size_t>(count) * sizeof(T), tag)};
  }

  memory_handle allocate(std::size_t bytes) { return host_memory::allocate(bytes); }
  serial_comm split(int color, int) const {
    detail::check_color(color);
    return {};
  }
  [[noreturn]] void abort(int code) const {
    std::fflush(nullptr);
    std::_Exit(code);
  }

 private:
  template <class T>
  static void copy(T const* from, index_t count, T* to) {
    if (from != to && count != 0) std::memmove(to, from, static_cast<std::size_t>(count) * sizeof(T));
  }
  static void check_message(index_t count, int rank, int tag, char const* operation) {
    detail::check_count(count, operation);
    detail::check_rank(rank, 1);
    detail::check_tag(tag);
  }

  std::unique_ptr<detail::mailbox> mail_ = std::make_unique<detail::mailbox>();
};

static_assert(communicator<serial_comm>);

}  // namespace tessera
