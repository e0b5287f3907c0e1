#pragma once

#include <tessera/backend/ascend/softmax_members.hpp>

#include <aclnnop/aclnn_cast.h>
#include <aclnnop/aclnn_eq_scalar.h>
#include <aclnnop/aclnn_ge_scalar.h>
#include <aclnnop/aclnn_logical_and.h>
#include <aclnnop/aclnn_lt_scalar.h>
#include <aclnnop/aclnn_masked_fill_scalar.h>

#include <cstdint>
#include <vector>

namespace tessera::detail::ascend_kernels {

/// Labels and indices: which of them belong to this rank, on the device; what the host must know of them.
class index_members : public softmax_members {
 public:
  using softmax_members::softmax_members;
  using indices = block<std::int64_t const, 1>;

 protected:
  /// Indices of this rank's rows: those of others are 0, because aclnn checks none and reads whatever lies there.
  struct local_indices {
    temporary<std::int64_t> rows;
    temporary<bool> elsewhere;  ///< which are those of other ranks
  };
  local_indices indices_within(indices all, index_t first, index_t count) {
    const index_t n = all.size();
    local_indices local{scratch<std::int64_t>(n), scratch<bool>(n)};
    const auto not_below = scratch<bool>(n);
    const auto inside = scratch<std::int64_t>(n);
    const auto rows = view(local.rows.data, {n});
    const auto low = view(not_below.data, {n});
    const auto high = view(local.elsewhere.data, {n});
    const auto ones = view(inside.data, {n});
    run<TESSERA_ACLNN(Subs)>(view(all), number(first), number(std::int64_t{1}), rows);
    run<TESSERA_ACLNN(GeScalar)>(rows, number(std::int64_t{0}), low);
    run<TESSERA_ACLNN(LtScalar)>(rows, number(count), high);
    run<TESSERA_ACLNN(LogicalAnd)>(low, high, low);
    run<TESSERA_ACLNN(Cast)>(low, ACL_INT64, ones);
    run<TESSERA_ACLNN(InplaceMul)>(rows, ones);
    run<TESSERA_ACLNN(EqScalar)>(ones, number(std::int64_t{0}), high);
    return local;
  }
  /// Which of the values equal one.
  temporary<bool> equal_to(indices all, std::int64_t value) {
    auto equal = scratch<bool>(all.size());
    run<TESSERA_ACLNN(EqScalar)>(view(all), number(value), view(equal.data, {all.size()}));
    return equal;
  }
  void fill_where(tensor_handle const& y, tensor_handle const& mask, float value) {
    run<TESSERA_ACLNN(InplaceMaskedFillScalar)>(y, mask, number(value));
  }
  template <class T>
  std::vector<T> on_host(T const* data, index_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    download(data, values.data(), count);
    return values;
  }
};

}  // namespace tessera::detail::ascend_kernels
