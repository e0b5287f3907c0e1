#pragma once

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 13
#define ACL_PATCH_VERSION 0

aclError aclInit(const char* configPath);
aclError aclFinalize();
aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion);
const char* aclGetRecentErrMsg();

#ifdef __cplusplus
}
#endif
