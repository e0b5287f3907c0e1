#pragma once

#include <tessera/comm/hccl/links.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::detail {

/// Which messages match, among those between two ranks.
struct hccl_message_key {
  std::int64_t group = 0;
  std::int64_t tag = 0;
  friend bool operator==(hccl_message_key const&, hccl_message_key const&) = default;
};

/// A receive that waits for its message.
struct hccl_receive {
  hccl_message_key key{};
  std::size_t bytes = 0;
  void* device_target = nullptr;
  void* host_target = nullptr;  ///< one of the two
  stream_event usable{};        ///< when the device's target may be written to
  bool matched = false;
  stream_event come{};                ///< the message is where it was received
  memory_handle memory{};             ///< where it came before anybody asked for it, or on its way to the host
  std::shared_ptr<std::byte> pinned{};
  std::string fault{};  ///< what is wrong with the message
};

/// Messages between ranks. Those of HCCL have no tags, and a send is complete only with its receive, which other
/// messages would have to wait for. So each pair of ranks has a communicator and a stream for each direction, in which
/// messages go in the order of their sends: first the key and size of one, which the receiver's host reads, then its
/// content, to where it is wanted, or aside where nobody has asked for it yet. Content is copied when it is sent, so
/// that no kernel waits for another rank.
///
/// A pair's communicators are made when both first wait for a message: by all ranks in one order of pairs, so that
/// ranks in a circle do not wait for each other.
class hccl_messages {
 public:
  explicit hccl_messages(std::shared_ptr<hccl_job> job) : job_(std::move(job)), links_(job_) {}
  hccl_messages(hccl_messages const&) = delete;
  hccl_messages& operator=(hccl_messages const&) = delete;
  /// Sees all sends through, unless an exception ends the program.
  ~hccl_messages() {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      while (!idle()) {
        progress();
        job_->check();
        std::this_thread::yield();
      }
    } catch (error const&) {
      // Nobody is left to hear of it; whoever waited for the message has.
    }
  }

  /// Sends `bytes` bytes in the device's memory, which may change once the call returns and later kernels run.
  void send(void const* data, std::size_t bytes, int to, hccl_message_key const& key) {
    start_send(data, nullptr, bytes, to, key);
  }
  /// The same of host memory, which may change once the call returns.
  void send_host(void const* data, std::size_t bytes, int to, hccl_message_key const& key) {
    start_send(nullptr, data, bytes, to, key);
  }

  /// Receives into the device's memory, after the kernels so far.
  std::shared_ptr<hccl_receive> receive(void* data, std::size_t bytes, int from, hccl_message_key const& key) {
    auto asked = std::make_shared<hccl_receive>();
    asked->device_target = data;
    return start_receive(std::move(asked), bytes, from, key);
  }
  std::shared_ptr<hccl_receive> receive_host(void* data, std::size_t bytes, int from, hccl_message_key const& key) {
    auto asked = std::make_shared<hccl_receive>();
    asked->host_target = data;
    return start_receive(std::move(asked), bytes, from, key);
  }

  /// Whether the message has come, after which later kernels see it. Throws where it is another than asked for.
  bool test(hccl_receive& asked) {
    progress();
    if (!asked.matched) return false;
    if (!asked.fault.empty()) throw_fault(asked);
    if (asked.come && !asked.come.come()) return false;
    take(asked);
    return true;
  }
  /// Waits on the host until the sender has sent, and makes later kernels wait for the rest.
  void wait(hccl_receive& asked) {
    for (;;) {
      progress();
      if (asked.matched) break;
      job_->check();
      std::this_thread::yield();
    }
    if (!asked.fault.empty()) throw_fault(asked);
    if (asked.host_target != nullptr) {
      while (asked.come && !asked.come.come()) std::this_thread::yield();
    } else if (asked.come) {
      asked.come.hold(job_->kernels());
    }
    take(asked);
  }
  /// Ends a receive whose request an exception ended.
  void withdraw(hccl_receive& asked) noexcept {
    for (auto& [peer, c] : channels_)
      std::erase_if(c.receives, [&](auto const& r) { return r.get() == &asked; });
    if (asked.come) asked.come.hold(job_->kernels());
  }

  /// How many groups this rank has been part of at most: their numbers are not used again.
  std::uint64_t groups = 0;

  /// See `hccl_links::join_halves`.
  void join_halves(std::vector<int> const& ranks, std::uint64_t group) { links_.join_halves(ranks, group); }

  /// Does what can be done without waiting for others, except that a pair's first message waits for its other rank.
  void progress() {
    open();
    for (auto& [peer, c] : channels_) {
      read_heads(c);
      drop_sent(c);
    }
  }

 private:
  /// What goes before each message, with a number that no failed receive leaves there.
  struct head {
    static constexpr std::int64_t begins_message = 0x7465737365726131;
    std::int64_t begin = begins_message;
    hccl_message_key key{};
    std::int64_t bytes = 0;
  };
  static constexpr std::size_t head_bytes = 64;  // on the device, so that content is aligned
  static constexpr std::uint64_t head_numbers = sizeof(head) / sizeof(std::int64_t);

  struct sent {
    memory_handle memory;  // the head, then the content
    std::shared_ptr<std::byte> pinned;
    std::size_t pinned_bytes;
    std::size_t bytes;
    stream_event ready;
    stream_event gone{};
  };
  struct channel {
    int peer = 0;
    hccl_link through{};
    std::unique_ptr<side_stream> out_stream{};
    std::unique_ptr<side_stream> in_stream{};
    std::deque<sent> unsent{};
    std::deque<sent> on_the_way{};
    std::deque<std::shared_ptr<hccl_receive>> receives{};  // without their messages
    std::deque<std::shared_ptr<hccl_receive>> arrived{};   // messages without their receives
    memory_handle head_memory{};
    std::shared_ptr<std::byte> head_pinned{};
    stream_event head_come{};
  };

  channel& channel_of(int peer) {
    channel& c = channels_[peer];
    c.peer = peer;
    return c;
  }
  bool idle() const {
    return std::all_of(channels_.begin(), channels_.end(), [](auto const& entry) {
      channel const& c = entry.second;
      return c.unsent.empty() && c.on_the_way.empty() && !c.head_come &&
             std::all_of(c.arrived.begin(), c.arrived.end(), [](auto const& m) { return !m->come || m->come.come(); });
    });
  }

  void start_send(void const* device, void const* host, std::size_t bytes, int to, hccl_message_key const& key) {
    if (to == job_->rank()) return send_to_itself(device, host, bytes, key);
    channel& c = channel_of(to);
    const std::size_t beside = device != nullptr ? 0 : bytes;
    sent s{job_->device().allocate(head_bytes + bytes), job_->pinned().take(head_bytes + beside), head_bytes + beside,
           bytes, {}};
    const head first{head::begins_message, key, static_cast<std::int64_t>(bytes)};
    std::memcpy(s.pinned.get(), &first, sizeof first);
    if (beside > 0) std::memcpy(s.pinned.get() + head_bytes, host, bytes);
    if (device != nullptr) copy(content(s), device, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, job_->kernels());
    s.ready = job_->events().record_kernels();
    c.unsent.push_back(std::move(s));
    if (c.through.out != nullptr) send_all(c);
  }
  static std::byte* content(sent const& s) { return static_cast<std::byte*>(s.memory.get()) + head_bytes; }

  void send_all(channel& c) {
    aclrtStream const stream = c.out_stream->get();
    auto const& [out, in, peer] = c.through;
    for (; !c.unsent.empty(); c.unsent.pop_front()) {
      sent& s = c.unsent.front();
      s.ready.hold(stream);
      copy(s.memory.get(), s.pinned.get(), s.pinned_bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream);
      check_hccl(HcclSend(s.memory.get(), head_numbers, HCCL_DATA_TYPE_INT64, peer, out->get(), stream), "HcclSend");
      if (s.bytes > 0)
        check_hccl(HcclSend(content(s), s.bytes, HCCL_DATA_TYPE_UINT8, peer, out->get(), stream), "HcclSend");
      s.gone = job_->events().record(stream, s.ready);
      c.on_the_way.push_back(std::move(s));
    }
  }
  static void drop_sent(channel& c) {
    while (!c.on_the_way.empty() && c.on_the_way.front().gone.come()) c.on_the_way.pop_front();
  }

  std::shared_ptr<hccl_receive> start_receive(std::shared_ptr<hccl_receive> asked, std::size_t bytes, int from,
                                              hccl_message_key const& key) {
    asked->key = key;
    asked->bytes = bytes;
    channel& c = channel_of(from);
    const auto early = std::find_if(c.arrived.begin(), c.arrived.end(), [&](auto const& m) { return m->key == key; });
    if (early != c.arrived.end()) {
      match(*asked, **early);
      c.arrived.erase(early);
      return asked;
    }
    if (asked->host_target != nullptr) asked->memory = job_->device().allocate(bytes);
    asked->usable = job_->events().record_kernels();
    c.receives.push_back(asked);
    if (c.through.in != nullptr) ask_for_head(c);
    return asked;
  }

  /// Gives a receive the message that came before it.
  static void match(hccl_receive& asked, hccl_receive const& message) {
    asked.matched = true;
    asked.come = message.come;
    asked.memory = message.memory;
    if (asked.bytes != message.bytes) set_fault(asked, message.bytes);
  }
  static void set_fault(hccl_receive& asked, std::size_t sent) {
    asked.fault = "a message of " + std::to_string(sent) + " bytes for a receive of " + std::to_string(asked.bytes) +
                  " bytes (tag " + std::to_string(asked.key.tag) + ")";
  }
  [[noreturn]] void throw_fault(hccl_receive const& asked) {
    if (asked.come) asked.come.hold(job_->kernels());
    throw error(asked.fault, "equal sizes",
                "check that both ranks work out the same counts and element types for the message");
  }

  /// What is left to do with a message that has come: from aside to the device's target, from pinned memory to the
  /// host's.
  void take(hccl_receive& asked) {
    if (asked.bytes > 0 && asked.device_target != nullptr && asked.memory.get() != nullptr)
      copy(asked.device_target, asked.memory.get(), asked.bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, job_->kernels());
    if (asked.bytes > 0 && asked.host_target != nullptr) {
      if (asked.pinned != nullptr) {
        std::memcpy(asked.host_target, asked.pinned.get(), asked.bytes);
      } else {
        copy(asked.host_target, asked.memory.get(), asked.bytes, ACL_MEMCPY_DEVICE_TO_HOST, job_->kernels());
        job_->synchronize();
      }
    }
    asked.come = {};
    asked.usable = {};
    asked.memory = {};
    asked.pinned = {};
    asked.bytes = 0;
  }

  void send_to_itself(void const* device, void const* host, std::size_t bytes, hccl_message_key const& key) {
    auto message = std::make_shared<hccl_receive>();
    message->key = key;
    message->bytes = bytes;
    message->memory = job_->device().allocate(bytes);
    if (device != nullptr) copy(message->memory.get(), device, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, job_->kernels());
    if (host != nullptr) copy(message->memory.get(), host, bytes, ACL_MEMCPY_HOST_TO_DEVICE, job_->kernels());
    channel& c = channel_of(job_->rank());
    const auto asked = std::find_if(c.receives.begin(), c.receives.end(), [&](auto const& r) { return r->key == key; });
    if (asked == c.receives.end()) {
      c.arrived.push_back(std::move(message));
    } else {
      match(**asked, *message);
      c.receives.erase(asked);
    }
  }

  /// Makes the communicators of pairs that have something to send or to receive, in the order of pairs.
  void open() {
    std::vector<std::pair<int, int>> pairs;
    for (auto const& [peer, c] : channels_)
      if (c.through.out == nullptr && peer != job_->rank() && !(c.unsent.empty() && c.receives.empty()))
        pairs.emplace_back(std::min(peer, job_->rank()), std::max(peer, job_->rank()));
    std::sort(pairs.begin(), pairs.end());
    for (auto const& [low, high] : pairs) {
      channel& c = channels_.at(low == job_->rank() ? high : low);
      c.through = links_.to(c.peer);
      c.out_stream = std::make_unique<side_stream>();
      c.in_stream = std::make_unique<side_stream>();
      c.head_memory = job_->device().allocate(head_bytes);
      job_->events().record_kernels().hold(c.in_stream->get());
      c.head_pinned = job_->pinned().take(head_bytes);
      send_all(c);
      ask_for_head(c);
    }
  }
  void ask_for_head(channel& c) {
    if (c.head_come || c.receives.empty()) return;
    aclrtStream const stream = c.in_stream->get();
    check_hccl(HcclRecv(c.head_memory.get(), head_numbers, HCCL_DATA_TYPE_INT64, c.through.peer, c.through.in->get(),
                        stream),
               "HcclRecv");
    copy(c.head_pinned.get(), c.head_memory.get(), sizeof(head), ACL_MEMCPY_DEVICE_TO_HOST, stream);
    c.head_come = job_->events().record(stream);
  }

  void read_heads(channel& c) {
    while (c.head_come && c.head_come.come()) {
      c.through.in->check();
      c.head_come = {};
      head first;
      std::memcpy(&first, c.head_pinned.get(), sizeof first);
      if (first.begin != head::begins_message)
        throw error("no beginning of a message from rank " + std::to_string(c.peer), "one",
                    "look for an error of that rank before this one");
      receive_content(c, first);
      ask_for_head(c);
    }
  }

  void receive_content(channel& c, head const& first) {
    const auto bytes = static_cast<std::size_t>(first.bytes);
    const auto found =
        std::find_if(c.receives.begin(), c.receives.end(), [&](auto const& r) { return r->key == first.key; });
    std::shared_ptr<hccl_receive> asked;
    if (found != c.receives.end()) {
      asked = *found;
      c.receives.erase(found);
    }
    aclrtStream const stream = c.in_stream->get();
    const bool fits = asked != nullptr && asked->bytes == bytes;
    auto into = fits ? asked : std::make_shared<hccl_receive>();
    if (!fits) {
      into->key = first.key;
      into->bytes = bytes;
      into->memory = job_->device().allocate(bytes);
      into->usable = job_->events().record_kernels();
    }
    const bool to_host = fits && asked->host_target != nullptr;
    void* const target = fits && !to_host ? asked->device_target : into->memory.get();
    if (bytes > 0) {
      into->usable.hold(stream);
      check_hccl(HcclRecv(target, bytes, HCCL_DATA_TYPE_UINT8, c.through.peer, c.through.in->get(), stream),
                 "HcclRecv");
      if (to_host) {
        into->pinned = job_->pinned().take(bytes);
        copy(into->pinned.get(), target, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream);
      }
    }
    into->come = job_->events().record(stream, into->usable);
    if (fits)
      asked->matched = true;
    else if (asked != nullptr)
      match(*asked, *into);
    else
      c.arrived.push_back(std::move(into));
  }

  static void copy(void* to, void const* from, std::size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
    if (bytes > 0) check_acl(aclrtMemcpyAsync(to, bytes, from, bytes, kind, stream), "aclrtMemcpyAsync");
  }

  std::shared_ptr<hccl_job> job_;
  hccl_links links_;
  std::map<int, channel> channels_{};
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera::detail
