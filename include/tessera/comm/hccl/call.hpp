#pragma once

#include <tessera/backend/ascend/device.hpp>
#include <tessera/core/error.hpp>

#include <hccl/hccl.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tessera::detail {

/// Throws `error` with what HCCL and the runtime say of the failure, unless `code` is success.
inline void check_hccl(HcclResult code, std::string const& what) {
  if (code == HCCL_SUCCESS) return;
  char const* said = aclGetRecentErrMsg();  // also clears it
  throw error(what + " failed with code " + std::to_string(code) + ", " + HcclGetErrorString(code) +
                  (said == nullptr ? "" : std::string(": ") + said),
              "success", "check that all ranks of the group make this call with matching counts and types");
}
inline void check_acl(int status, char const* what) {
  if (status != ACL_SUCCESS) ascend_kernels::check(status, what);
}

/// What HCCL calls the elements that it reduces and those that it only moves.
template <class T>
constexpr HcclDataType hccl_type_of() {
  if constexpr (std::same_as<T, float>) return HCCL_DATA_TYPE_FP32;
  if constexpr (std::same_as<T, std::int32_t>) return HCCL_DATA_TYPE_INT32;
  if constexpr (std::same_as<T, std::int64_t>) return HCCL_DATA_TYPE_INT64;
  if constexpr (std::same_as<T, std::uint8_t>) return HCCL_DATA_TYPE_UINT8;
}

/// HCCL takes addresses of what it only reads without const.
template <class T>
void* hccl_address(T const* data) {
  return const_cast<T*>(data);
}

/// The owner of a communicator of HCCL, which nothing uses any more when it ends.
class hccl_handle {
 public:
  hccl_handle() = default;
  explicit hccl_handle(HcclComm made) : made_(made) {}
  hccl_handle(hccl_handle&& other) noexcept : made_(std::exchange(other.made_, nullptr)) {}
  hccl_handle& operator=(hccl_handle&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~hccl_handle() {
    if (made_ != nullptr) HcclCommDestroy(made_);
  }

  HcclComm get() const { return made_; }
  /// Throws where a call on it failed on the device.
  void check() const {
    HcclResult fault = HCCL_SUCCESS;
    if (made_ == nullptr) return;
    check_hccl(HcclGetCommAsyncError(made_, &fault), "HcclGetCommAsyncError");
    check_hccl(fault, "a collective or message on the device");
  }

 private:
  HcclComm made_ = nullptr;
};

/// The owner of a stream beside that of the kernels.
class side_stream {
 public:
  side_stream() { check_acl(aclrtCreateStream(&made_), "aclrtCreateStream"); }
  side_stream(side_stream const&) = delete;
  side_stream& operator=(side_stream const&) = delete;
  ~side_stream() { aclrtDestroyStream(made_); }  // which waits

  aclrtStream get() const { return made_; }

 private:
  aclrtStream made_ = nullptr;
};

/// A place in a stream that others wait for. The last copy gives the event back for another use: drop it only after the
/// kernels' stream waits for it, or once it is known to have come.
class stream_event {
 public:
  stream_event() = default;
  explicit stream_event(std::shared_ptr<void> made) : made_(std::move(made)) {}

  explicit operator bool() const { return made_ != nullptr; }
  /// Whether the stream has come to it. Does not wait.
  bool come() const {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    check_acl(aclrtQueryEventStatus(made_.get(), &status), "aclrtQueryEventStatus");
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
  }
  /// Makes what is given to `stream` from now on wait for it.
  void hold(aclrtStream stream) const { check_acl(aclrtStreamWaitEvent(stream, made_.get()), "aclrtStreamWaitEvent"); }

 private:
  std::shared_ptr<void> made_{};
};

/// Events, used again once no stream may still look at them: when the kernels' stream has passed a place that it
/// reached after they were given back.
class stream_events : public std::enable_shared_from_this<stream_events> {
 public:
  explicit stream_events(std::shared_ptr<ascend_device> device) : device_(std::move(device)) { marker_ = make(); }
  stream_events(stream_events const&) = delete;
  stream_events& operator=(stream_events const&) = delete;
  ~stream_events() {
    aclrtSynchronizeStream(device_->stream());
    for (auto const* list : {&free_, &retired_, &marked_})
      for (aclrtEvent event : *list) aclrtDestroyEvent(event);
    aclrtDestroyEvent(marker_);
  }

  /// The place that `stream` has come to. `needed` lives as long.
  stream_event record(aclrtStream stream, stream_event needed = {}) {
    reclaim();
    if (free_.empty()) free_.push_back(make());
    void* const event = free_.back();
    free_.pop_back();
    const auto give_back = [pool = shared_from_this(), needed = std::move(needed)](void* used) {
      pool->retired_.push_back(used);
    };
    stream_event made(std::shared_ptr<void>(event, give_back));
    check_acl(aclrtRecordEvent(event, stream), "aclrtRecordEvent");
    return made;
  }
  stream_event record_kernels() { return record(device_->stream()); }

 private:
  static aclrtEvent make() {
    aclrtEvent made = nullptr;
    check_acl(aclrtCreateEventExWithFlag(&made, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS),
              "aclrtCreateEventExWithFlag");
    return made;
  }
  void reclaim() {
    if (!free_.empty()) return;
    if (!marked_.empty()) {
      aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
      check_acl(aclrtQueryEventStatus(marker_, &status), "aclrtQueryEventStatus");
      if (status == ACL_EVENT_RECORDED_STATUS_NOT_READY) return;
      free_.swap(marked_);
    }
    if (retired_.empty()) return;
    marked_.swap(retired_);
    check_acl(aclrtRecordEvent(marker_, device_->stream()), "aclrtRecordEvent");
  }

  std::shared_ptr<ascend_device> device_;
  aclrtEvent marker_ = nullptr;
  std::vector<aclrtEvent> free_{};
  std::vector<aclrtEvent> retired_{};
  std::vector<aclrtEvent> marked_{};  // retired before the marker
};

/// Host memory that streams copy to and from without holding up the host. Blocks are used again.
class pinned_memory : public std::enable_shared_from_this<pinned_memory> {
 public:
  pinned_memory() = default;
  pinned_memory(pinned_memory const&) = delete;
  pinned_memory& operator=(pinned_memory const&) = delete;
  ~pinned_memory() {
    for (auto const& [size, blocks] : free_)
      for (void* block : blocks) aclrtFreeHost(block);
  }

  /// Given back when no stream uses it any more.
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    const std::size_t size = (bytes + 63) / 64 * 64;
    auto& same = free_[size];
    void* block = nullptr;
    if (same.empty()) {
      check_acl(aclrtMallocHost(&block, size), "aclrtMallocHost");
    } else {
      block = same.back();
      same.pop_back();
    }
    return {static_cast<std::byte*>(block),
            [pool = shared_from_this(), size](std::byte* used) { pool->free_[size].push_back(used); }};
  }

 private:
  std::map<std::size_t, std::vector<void*>> free_{};
};

}  // namespace tessera::detail
