#pragma once

#include <cstdint>
#include <vector>

#include "aclnnop/aclnn_add.h"
#include "children.hpp"

/// A tensor of one dimension whose storage begins at `address`.
inline aclTensor* vector_tensor(void* address, std::int64_t count, std::int64_t offset = 0,
                                aclDataType type = ACL_FLOAT) {
  std::int64_t step = 1;
  auto stored = offset + count;
  return aclCreateTensor(&count, 1, type, &step, offset, ACL_FORMAT_ND, &stored, 1, address);
}

/// Phase 1 of to += factor * other.
inline aclOpExecutor* plan_addition(aclTensor* to, aclTensor* other, float factor = 1) {
  auto* alpha = aclCreateScalar(&factor, ACL_FLOAT);
  std::uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT(aclnnInplaceAddGetWorkspaceSize(to, other, alpha, &bytes, &executor) == 0);
  EXPECT(aclDestroyScalar(alpha) == 0);
  return executor;
}

inline void add_in_place(aclTensor* to, aclTensor* other, float factor, aclrtStream stream) {
  EXPECT(aclnnInplaceAdd(nullptr, 0, plan_addition(to, other, factor), stream) == 0);
}
