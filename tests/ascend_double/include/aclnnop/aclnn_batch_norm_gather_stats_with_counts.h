#pragma once

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnBatchNormGatherStatsWithCountsGetWorkspaceSize(const aclTensor* input, const aclTensor* mean,
                                                                const aclTensor* invstd, aclTensor* runningMean,
                                                                aclTensor* runningVar, double momentum, double eps,
                                                                const aclTensor* counts, aclTensor* meanAll,
                                                                aclTensor* invstdAll, uint64_t* workspaceSize,
                                                                aclOpExecutor** executor);
aclnnStatus aclnnBatchNormGatherStatsWithCounts(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                const aclrtStream stream);

#ifdef __cplusplus
}
#endif
