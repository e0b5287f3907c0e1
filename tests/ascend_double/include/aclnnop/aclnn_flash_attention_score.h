#pragma once

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
                                                     const aclTensor* value, const aclTensor* realShiftOptional,
                                                     const aclTensor* dropMaskOptional,
                                                     const aclTensor* paddingMaskOptional,
                                                     const aclTensor* attenMaskOptional,
                                                     const aclIntArray* prefixOptional, double scaleValue,
                                                     double keepProb, int64_t preTokens, int64_t nextTokens,
                                                     int64_t headNum, char* inputLayout, int64_t innerPrecise,
                                                     int64_t sparseMode, const aclTensor* softmaxMaxOut,
                                                     const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
                                                     const aclTensor* attentionOutOut, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor);
aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     const aclrtStream stream);

#ifdef __cplusplus
}
#endif
