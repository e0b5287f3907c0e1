#pragma once

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnBatchNormReduceBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                         const aclTensor* mean, const aclTensor* invstd,
                                                         const aclTensor* weight, const bool inputG, const bool weightG,
                                                         const bool biasG, aclTensor* sumDy, aclTensor* sumDyXmu,
                                                         aclTensor* gradWeight, aclTensor* gradBias,
                                                         uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnBatchNormReduceBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         const aclrtStream stream);

#ifdef __cplusplus
}
#endif
