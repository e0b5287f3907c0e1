#pragma once

#include <tessera/core/sharded.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::detail {

/// The tags of what a stage receives: activations (and, one more, their extents), and gradients of its output.
constexpr int activation_tag(int stage) { return 3 * stage; }
constexpr int gradient_tag(int stage) { return 3 * stage + 2; }

/// Messages to other stages that are under way, with what they carry. At the end of a step all have arrived.
template <context Context>
class outbox {
  using communicator = typename Context::communicator;

 public:
  explicit outbox(communicator& along) : along_(&along) {}

  template <class T, int Rank, class Memory, storage_order Order>
  void send(tensor<T, Rank, Memory, Order> const& content, int to, int tag) {
    start(content.data(), content.size(), std::make_shared<tensor<T, Rank, Memory, Order> const>(content), to, tag);
  }
  /// For an `inbox` whose `Known` these are: first the extents that are not known, then the block.
  template <auto Known, sharded_tensor X>
  void send_with_extents(X const& x, int to, int tag) {
    auto extents = std::make_shared<std::vector<index_t>>();
    for (int d = 0; d < X::rank; ++d)
      if (Known[d] == dynamic) extents->push_back(x.extent(d));
    if (!extents->empty()) start(extents->data(), static_cast<index_t>(extents->size()), extents, to, tag + 1);
    send(x.local(), to, tag);
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
    typename communicator::request request;  // ends before what it sends
  };
  template <class T>
  void start(T const* data, index_t count, std::shared_ptr<void const> content, int to, int tag) {
    messages_.push_back({std::move(content), along_->start_send(data, count, to, tag)});
  }

  communicator* along_;
  std::deque<message> messages_{};
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
      request_ = along_->start_receive(extents_.data(), unknown, from_, tag_ + 1);
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
    if (request_.test() && awaits_ == awaited::extents) expect(whole());
  }
  /// The tensor, which has been expected.
  Tensor take() {
    request_.wait();
    if (awaits_ == awaited::extents) {
      expect(whole());
      request_.wait();
    }
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
  typename context_type::communicator::request request_{};  // ends before what it receives
};

}  // namespace tessera::detail
