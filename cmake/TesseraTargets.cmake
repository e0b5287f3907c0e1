# How Tessera's own tests, examples and benchmarks are compiled. Users of the library get none of these flags.
include_guard(GLOBAL)
include(CheckCXXSourceCompiles)

set(CMAKE_CXX_EXTENSIONS OFF)

add_library(tessera_warnings INTERFACE)
target_compile_options(tessera_warnings INTERFACE -Wall -Wextra -Wconversion -Werror)

add_library(tessera_codegen INTERFACE)
if(TESSERA_NATIVE)
  target_compile_options(tessera_codegen INTERFACE -march=native)
  set(CMAKE_REQUIRED_FLAGS -march=native)
  check_cxx_source_compiles("
    #ifndef __AVX512F__
    #error
    #endif
    int main() {}" TESSERA_HAS_AVX512)
  unset(CMAKE_REQUIRED_FLAGS)
  if(TESSERA_HAS_AVX512)
    # Compilers prefer 256-bit vectors on many processors with AVX-512; Eigen's kernels lose a quarter of their speed.
    # g++ 12 takes values in its own AVX-512 intrinsics for uninitialised; the clang build looks for real ones.
    target_compile_options(tessera_codegen INTERFACE -mprefer-vector-width=512
                           $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endif()
# Programs of so many templates link in a sixth of the time.
find_program(TESSERA_LLD ld.lld)
if(TESSERA_LLD)
  target_link_options(tessera_codegen INTERFACE -fuse-ld=lld)
endif()
if(TESSERA_SANITIZE)
  set(sanitize -fsanitize=${TESSERA_SANITIZE})
  target_compile_options(tessera_codegen INTERFACE ${sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer
                                                   $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(tessera_codegen INTERFACE ${sanitize})
endif()

# The Eigen kernels compiled once, for programs of many sources: a third of the time to compile each source of a test.
add_library(tessera_kernels STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/kernels.cpp")
add_library(tessera::kernels ALIAS tessera_kernels)
target_link_libraries(tessera_kernels PUBLIC tessera::tessera PRIVATE tessera_warnings tessera_codegen)
target_compile_definitions(tessera_kernels INTERFACE TESSERA_PRECOMPILED_KERNELS)
# Fast whatever the rest is compiled with: tests spend little time anywhere else.
target_compile_options(tessera_kernels PRIVATE $<$<NOT:$<CONFIG:Release>>:-O2>)

# tessera_executable(NAME SOURCE...): a program of this repository.
function(tessera_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE tessera::tessera tessera::kernels tessera_warnings tessera_codegen)
endfunction()
