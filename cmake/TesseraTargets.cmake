# How Tessera's own tests, examples and benchmarks are compiled. Users of the library get none of these flags.
include_guard(GLOBAL)
include(CheckCXXSourceCompiles)

set(CMAKE_CXX_EXTENSIONS OFF)

add_library(tessera_warnings INTERFACE)
target_compile_options(tessera_warnings INTERFACE -Wall -Wextra -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees uninitialised values in its own AVX-512 intrinsics and in code under sanitizers.
  target_compile_options(tessera_warnings INTERFACE -Wno-maybe-uninitialized)
endif()

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
    target_compile_options(tessera_codegen INTERFACE -mprefer-vector-width=512)
  endif()
endif()
if(TESSERA_SANITIZE)
  set(sanitize -fsanitize=${TESSERA_SANITIZE})
  target_compile_options(tessera_codegen INTERFACE ${sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tessera_codegen INTERFACE ${sanitize})
endif()

# tessera_executable(NAME SOURCE...): a program of this repository.
function(tessera_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE tessera::tessera tessera_warnings tessera_codegen)
endfunction()
