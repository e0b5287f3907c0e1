#pragma once

#include <tessera/backend/ascend/operators.hpp>
#include <tessera/comm/hccl/job.hpp>

#include <aclnnop/aclnn_cast.h>
#include <aclnnop/aclnn_eq_scalar.h>
#include <aclnnop/aclnn_eq_tensor.h>
#include <aclnnop/aclnn_masked_fill_scalar.h>
#include <aclnnop/aclnn_mul.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::detail {

/// Calls on one stream, with what they need until they are done.
class hccl_calls {
 public:
  hccl_calls(hccl_job& job, aclrtStream stream) : job_(&job), stream_(stream) {
    if (stream != job.kernels()) follow_kernels();
  }
  aclrtStream stream() const { return stream_; }

  /// Memory for these calls.
  template <class T>
  T* take(index_t count) {
    memory_.push_back(job_->device().allocate(static_cast<std::size_t>(count) * sizeof(T)));
    // It may be that of kernels before.
    if (stream_ != job_->kernels()) follow_kernels();
    return static_cast<T*>(memory_.back().get());
  }
  template <class T>
  void copy(T const* from, T* to, index_t count) const {
    if (count == 0 || from == to) return;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    check_acl(aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream_), "aclrtMemcpyAsync");
  }

  /// An operator of aclnn.
  template <auto Prepare, auto Execute, class... Args>
  void run(Args const&... args) {
    using namespace ascend_kernels;
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    const int prepared = Prepare(raw(args)..., &bytes, &executor);
    if (prepared != ACL_SUCCESS) check(prepared, name_of<Prepare>());
    void* const workspace = bytes > 0 ? take<std::uint8_t>(static_cast<index_t>(bytes)) : nullptr;
    const int executed = Execute(workspace, bytes, executor, stream_);
    if (executed != ACL_SUCCESS) check(executed, name_of<Execute>());
  }

 private:
  void follow_kernels() {
    events_.push_back(job_->events().record_kernels());
    events_.back().hold(stream_);
  }

  hccl_job* job_;
  aclrtStream stream_;
  std::vector<memory_handle> memory_{};
  std::vector<stream_event> events_{};
};

/// flags = 0 where a value is NaN, else -1, so that the maximum of ranks is 0 where any value is NaN.
inline void flag_nan(hccl_calls& calls, float const* values, float* flags, index_t count) {
  using ascend_kernels::view;
  bool* const is_number = calls.take<bool>(count);
  calls.run<TESSERA_ACLNN(EqTensor)>(view(values, {count}), view(values, {count}), view(is_number, {count}));
  calls.run<TESSERA_ACLNN(Cast)>(view(is_number, {count}), ACL_FLOAT, view(flags, {count}));
  calls.run<TESSERA_ACLNN(InplaceMuls)>(view(flags, {count}), ascend_kernels::number(-1.0f));
}
/// Makes the values NaN whose flags are 0.
inline void apply_nan(hccl_calls& calls, float const* flags, float* values, index_t count) {
  using ascend_kernels::number;
  using ascend_kernels::view;
  bool* const is_nan = calls.take<bool>(count);
  calls.run<TESSERA_ACLNN(EqScalar)>(view(flags, {count}), number(0.0f), view(is_nan, {count}));
  calls.run<TESSERA_ACLNN(InplaceMaskedFillScalar)>(view(values, {count}), view(is_nan, {count}),
                                                    number(std::numeric_limits<float>::quiet_NaN()));
}

}  // namespace tessera::detail
