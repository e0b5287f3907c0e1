#pragma once

#include <tessera/comm/hccl/group.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace tessera {

namespace detail {

/// What a request waits for.
class hccl_operation {
 public:
  virtual ~hccl_operation() = default;
  virtual bool test() = 0;
  virtual void wait() = 0;
  /// In place of the two, while an exception unwinds.
  virtual void give_up() = 0;
};

/// Calls of a group beside the kernels.
class hccl_collective : public hccl_operation {
 public:
  hccl_collective(std::shared_ptr<hccl_group> group, std::pair<hccl_calls, stream_event> started)
      : group_(std::move(group)), calls_(std::move(started.first)), done_(std::move(started.second)) {}

  bool test() override {
    group_->messages()->progress();
    if (!done_.come()) return false;
    group_->check();
    return true;
  }
  void wait() override {
    group_->messages()->progress();
    give_up();
  }
  // The kernels that use the buffers next run after the collective.
  void give_up() override { done_.hold(group_->job().kernels()); }

 private:
  std::shared_ptr<hccl_group> group_;
  hccl_calls calls_;
  stream_event done_;
};

class hccl_receiving : public hccl_operation {
 public:
  hccl_receiving(std::shared_ptr<hccl_messages> messages, std::shared_ptr<hccl_receive> asked)
      : messages_(std::move(messages)), asked_(std::move(asked)) {}

  bool test() override { return messages_->test(*asked_); }
  void wait() override { messages_->wait(*asked_); }
  void give_up() override { messages_->withdraw(*asked_); }

 private:
  std::shared_ptr<hccl_messages> messages_;
  std::shared_ptr<hccl_receive> asked_;
};

}  // namespace detail

/// A message or collective of `hccl_comm` under way. See `communicator_request`.
///
/// `wait` returns once the device knows what to wait for: kernels called later run after the operation. For a receive
/// that is when its sender has sent, else at once. A request that an exception destroys withdraws its receive.
class [[nodiscard]] hccl_request {
 public:
  hccl_request() = default;
  explicit hccl_request(std::unique_ptr<detail::hccl_operation> under_way) : under_way_(std::move(under_way)) {}
  hccl_request(hccl_request&& other) noexcept = default;
  hccl_request& operator=(hccl_request&& other) {
    finish();
    under_way_ = std::move(other.under_way_);
    exceptions_ = other.exceptions_;
    return *this;
  }
  /// Ends the program where the operation fails.
  ~hccl_request() { finish(); }

  bool test() {
    if (under_way_ == nullptr) return true;
    if (!run(&detail::hccl_operation::test)) return false;
    under_way_.reset();
    return true;
  }
  void wait() {
    if (under_way_ == nullptr) return;
    run(&detail::hccl_operation::wait);
    under_way_.reset();
  }

 private:
  /// An operation that has failed is over.
  template <class Result>
  Result run(Result (detail::hccl_operation::*step)()) {
    try {
      return (*under_way_.*step)();
    } catch (...) {
      under_way_.reset();
      throw;
    }
  }
  void finish() {
    if (under_way_ == nullptr) return;
    if (std::uncaught_exceptions() <= exceptions_) return wait();
    under_way_->give_up();
    under_way_.reset();
  }

  std::unique_ptr<detail::hccl_operation> under_way_{};
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
