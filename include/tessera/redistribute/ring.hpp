#pragma once

#include <tessera/core/tensor.hpp>
#include <tessera/redistribute/ring_plan.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {

// Rings take the last tags of a group, so that they can run beside a halo exchange.
inline constexpr int ring_block_tag = 32764;
inline constexpr int ring_gradient_tag = 32765;
inline constexpr int ring_home_tag = 32766;

template <class Context, class T>
using ring_memory = tensor<T, 1, typename Context::backend::memory>;

/// Messages that may be under way for longer than anybody looks at what is in them.
template <class Context, class T>
class sent_blocks {
 public:
  void add(ring_memory<Context, T> block, typename Context::communicator::request request) {
    blocks_.push_back({std::move(block), std::move(request)});
  }
  /// Lets them progress, and gives back the memory of those that are complete.
  void test() {
    std::erase_if(blocks_, [](entry& e) { return e.request.test(); });
  }

 private:
  struct entry {
    ring_memory<Context, T> block;
    typename Context::communicator::request request;  // after its memory, because it waits when it is destroyed
  };
  std::vector<entry> blocks_{};
};

}  // namespace detail

/// The blocks of a group of ranks as they pass this one: its own first, then those that it needs of others. While one
/// is in use the next one is under way, and a block is sent on as soon as it is here.
///
/// Collective over the group. Messages: those of `ring_plan`. A block has `elements` elements for each position of
/// `plan.keys(owner)`. One ring at a time in a group.
template <class Context, class T>
class ring_blocks {
 public:
  using memory = detail::ring_memory<Context, T>;

  ring_blocks(Context& context, axis_set group, ring_plan const& plan, memory own, index_t elements)
      : comm_(&context.group(group)), plan_(plan), elements_(elements), owner_(comm_->rank()), block_(std::move(own)) {
    send_on(owner_, block_);
    expect();
  }

  /// The rank whose block is here, and the block.
  int owner() const { return owner_; }
  T const* data() const { return block_.data(); }

  /// Lets the messages progress; call it now and then beside long computations.
  void test() {
    if (incoming_ && !incoming_->here && incoming_->request.test()) arrive();
    sent_.test();
  }

  /// Waits for the next block; false where there is none.
  bool advance() {
    if (!incoming_) return false;
    if (!incoming_->here) {
      incoming_->request.wait();
      arrive();
    }
    sent_.test();
    owner_ = incoming_->owner;
    block_ = std::move(incoming_->block);
    expect();
    return true;
  }

 private:
  struct arrival {
    int owner;
    memory block;
    typename Context::communicator::request request;  // after its memory, because it waits when it is destroyed
    bool here = false;
  };

  void send_on(int owner, memory const& block) {
    if (const int to = plan_.next(comm_->rank(), owner); to != owner)
      sent_.add(block, comm_->start_send(block.data(), block.size(), to, detail::ring_block_tag));
  }
  void arrive() {
    incoming_->here = true;
    send_on(incoming_->owner, incoming_->block);
  }
  void expect() {
    incoming_.reset();
    const int rank = comm_->rank();
    const int owner = plan_.following(rank, owner_);
    if (owner == rank) return;
    memory block(shape<1>{{plan_.keys(owner).size * elements_}});
    auto request =
        comm_->start_receive(block.data(), block.size(), plan_.previous(rank, owner), detail::ring_block_tag);
    incoming_.emplace(arrival{owner, std::move(block), std::move(request)});
  }

  typename Context::communicator* comm_;
  ring_plan plan_;
  index_t elements_;
  int owner_;
  memory block_;
  detail::sent_blocks<Context, T> sent_{};
  std::optional<arrival> incoming_{};
};

/// The gradients of such blocks on their way home: each visitor adds its part to what the one before it sent.
///
/// Collective over the group. Messages: those of `ring_plan`. Sums are made in the order of the ring, so results are
/// the same in every run.
template <class Context, class T>
class ring_gradients {
 public:
  using memory = detail::ring_memory<Context, T>;

  ring_gradients(Context& context, axis_set group, ring_plan const& plan, index_t elements)
      : context_(&context), comm_(&context.group(group)), plan_(plan), elements_(elements) {
    const int rank = comm_->rank();
    if (const int last = plan_.previous(rank, rank); plan_.next(rank, rank) != rank)
      home_ = receive(rank, last, detail::ring_home_tag);
  }

  /// Starts to receive what the visitors before this one made of the gradient of a block.
  void expect(int owner) {
    const int rank = comm_->rank();
    if (const int from = plan_.previous(rank, owner); from != owner)
      before_ = receive(owner, from, detail::ring_gradient_tag);
  }
  /// Adds what was expected to this rank's part, and sends the sum on.
  void pass(int owner, memory part) {
    add(before_, part);
    const int to = plan_.next(comm_->rank(), owner);
    auto request = comm_->start_send(std::as_const(part).data(), part.size(), to,
                                     to == owner ? detail::ring_home_tag : detail::ring_gradient_tag);
    sent_.test();
    sent_.add(std::move(part), std::move(request));
  }
  /// Adds what others made of the gradient of this rank's own block. Called once, last.
  void finish(memory& own) { add(home_, own); }

 private:
  struct arrival {
    memory block;
    typename Context::communicator::request request;  // after its memory, because it waits when it is destroyed
  };

  std::optional<arrival> receive(int owner, int from, int tag) {
    memory block(shape<1>{{plan_.keys(owner).size * elements_}});
    auto request = comm_->start_receive(block.data(), block.size(), from, tag);
    return std::optional<arrival>(arrival{std::move(block), std::move(request)});
  }
  void add(std::optional<arrival>& from, memory& to) {
    if (!from) return;
    from->request.wait();
    context_->kernels().add(from->block.read(), to.read(), to.view());
    from.reset();
  }

  Context* context_;
  typename Context::communicator* comm_;
  ring_plan plan_;
  index_t elements_;
  detail::sent_blocks<Context, T> sent_{};
  std::optional<arrival> before_{};
  std::optional<arrival> home_{};
};

}  // namespace tessera
