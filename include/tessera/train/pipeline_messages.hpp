#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/core/sharded.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::detail {

/// The tags of what a stage receives: activations (and, one more, their extents), and gradients of its output.
constexpr int activation_tag(int stage) { return 3 * stage; }
constexpr int gradient_tag(int stage) { return 3 * stage + 2; }

/// The communicator of values in host memory that belongs to another one.
template <class Comm>
using host_side_of = std::remove_reference_t<decltype(host_side(std::declval<Comm&>()))>;

/// Messages that are under way, with what they carry.
template <class Comm>
class sent_messages {
 public:
  explicit sent_messages(Comm& along) : along_(&along) {}

  template <class T>
  void start(T const* data, index_t count, std::shared_ptr<void const> content, int to, int tag) {
    messages_.push_back({std::move(content), along_->start_send(data, count, to, tag)});
  }
  /// Drops what has arrived.
  void progress() {
    while (!messages_.empty() && messages_.front().request.test()) messages_.pop_front();
  }
  void finish() {
    for (; !messages_.empty(); messages_.pop_front()) messages_.front().request.wait();
  }

 private:
  struct message {
    std::shared_ptr<void const> content;
    typename Comm::request request;  // ends before what it sends
  };
  Comm* along_;
  std::deque<message> messages_{};
};

/// Messages to other stages that are under way. At the end of a step all have arrived.
template <context Context>
class outbox {
  using communicator = typename Context::communicator;

 public:
  explicit outbox(communicator& along) : blocks_(along), extents_(host_side(along)) {}

  template <class T, int Rank, class Memory, storage_order Order>
  void send(tensor<T, Rank, Memory, Order> const& content, int to, int tag) {
    blocks_.start(content.data(), content.size(), std::make_shared<tensor<T, Rank, Memory, Order> const>(content), to,
                  tag);
  }
  /// For an `inbox` whose `Known` these are: first the extents that are not known, then the block.
  template <auto Known, sharded_tensor X>
  void send_with_extents(X const& x, int to, int tag) {
    auto extents = std::make_shared<std::vector<index_t>>();
    for (int d = 0; d < X::rank; ++d)
      if (Known[d] == dynamic) extents->push_back(x.extent(d));
    index_t const* const numbers = extents->data();
    if (const auto count = static_cast<index_t>(extents->size()); count > 0)
      extents_.start(numbers, count, std::move(extents), to, tag + 1);
    send(x.local(), to, tag);
  }
  /// Drops what has arrived.
  void progress() {
    extents_.progress();
    blocks_.progress();
  }
  void finish() {
    extents_.finish();
    blocks_.finish();
  }

 private:
  sent_messages<communicator> blocks_;
  sent_messages<host_side_of<communicator>> extents_;
};

/// Tensors that another stage sends one after the other: this rank's block, from the rank of the same other
/// coordinates. `Known` are the extents that are known while compiling, `dynamic` for those that come in a message
/// before.
template <class Tensor, auto Known>
class inbox {
  using context_type = typename Tensor::context_type;
  static constexpr int rank = Tensor::rank;
  static constexpr int unknown = [] {
    int count = 0;
    for (int d = 0; d < rank; ++d) count += Known[d] == dynamic;
    return count;
  }();

 public:
  inbox(context_type& where, axis_set along, int from, int tag)
      : where_(&where), along_(&where.group(along)), from_(from), tag_(tag) {}
  inbox(inbox const&) = delete;
  inbox& operator=(inbox const&) = delete;

  /// Begins to receive the next tensor. Does nothing where that has been done.
  void expect() {
    if (awaits_ != awaited::nothing) return;
    if constexpr (unknown == 0) {
      expect(Known);
    } else {
      extents_request_ = host_side(*along_).start_receive(extents_.data(), unknown, from_, tag_ + 1);
      awaits_ = awaited::extents;
    }
  }
  /// The same where the extents are known at run time, and the sender does not send them.
  void expect(shape<rank> const& extents) {
    if (awaits_ == awaited::content) return;
    content_ = Tensor(*where_, extents);
    request_ = along_->start_receive(content_.local().data(), content_.local().size(), from_, tag_);
    awaits_ = awaited::content;
  }
  /// Lets messages progress, and makes room for a tensor whose extents have come.
  void progress() {
    if (awaits_ == awaited::extents) {
      if (extents_request_.test()) expect(whole());
    } else {
      request_.test();
    }
  }
  /// The tensor, which has been expected.
  Tensor take() {
    if (awaits_ == awaited::extents) {
      extents_request_.wait();
      expect(whole());
    }
    request_.wait();
    awaits_ = awaited::nothing;
    return std::move(content_);
  }

 private:
  enum class awaited : std::uint8_t { nothing, extents, content };

  shape<rank> whole() const {
    shape<rank> extents = Known;
    std::size_t next = 0;
    for (int d = 0; d < rank; ++d)
      if (Known[d] == dynamic) extents[d] = extents_[next++];
    return extents;
  }

  context_type* where_;
  typename context_type::communicator* along_;
  int from_;
  int tag_;
  awaited awaits_ = awaited::nothing;
  std::array<index_t, static_cast<std::size_t>(unknown)> extents_{};
  Tensor content_{};
  // They end before what they receive.
  typename host_side_of<typename context_type::communicator>::request extents_request_{};
  typename context_type::communicator::request request_{};
};

}  // namespace tessera::detail
