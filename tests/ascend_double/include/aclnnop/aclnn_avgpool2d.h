#pragma once

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnAvgPool2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                           const aclIntArray* strides, const aclIntArray* paddings, const bool ceilMode,
                                           const bool countIncludePad, const int64_t divisorOverride,
                                           const int8_t cubeMathType, aclTensor* out, uint64_t* workspaceSize,
                                           aclOpExecutor** executor);
aclnnStatus aclnnAvgPool2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
