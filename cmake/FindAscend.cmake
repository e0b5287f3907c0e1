# CANN, the library of Ascend processors, version 8.1 or later: the target Ascend::Ascend (ACL, aclnn and HCCL) and
# Ascend_FOUND. ASCEND_HOME_PATH, which CANN's set_env.sh sets, says where it is.
set(hints "$ENV{ASCEND_HOME_PATH}" "$ENV{ASCEND_TOOLKIT_HOME}" /usr/local/Ascend/ascend-toolkit/latest)
find_path(Ascend_INCLUDE_DIR aclnnop/aclnn_add.h HINTS ${hints} PATH_SUFFIXES include)
set(libraries "")
foreach(name opapi nnopbase ascendcl hccl)
  find_library(Ascend_${name}_LIBRARY ${name} HINTS ${hints} PATH_SUFFIXES lib64)
  list(APPEND libraries Ascend_${name}_LIBRARY)
endforeach()
mark_as_advanced(Ascend_INCLUDE_DIR ${libraries})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Ascend REQUIRED_VARS Ascend_INCLUDE_DIR ${libraries})

if(Ascend_FOUND AND NOT TARGET Ascend::Ascend)
  add_library(Ascend::Ascend INTERFACE IMPORTED)
  target_include_directories(Ascend::Ascend SYSTEM INTERFACE "${Ascend_INCLUDE_DIR}")
  foreach(library IN LISTS libraries)
    target_link_libraries(Ascend::Ascend INTERFACE "${${library}}")
  endforeach()
endif()
