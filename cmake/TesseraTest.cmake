# Tests that run under MPI.
include_guard(GLOBAL)

execute_process(COMMAND "${MPIEXEC_EXECUTABLE}" --version OUTPUT_VARIABLE launcher ERROR_VARIABLE launcher)
execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
set(tessera_launcher_flags "")
set(tessera_test_environment "")
if(launcher MATCHES "Open MPI|OpenRTE")
  set(tessera_launcher_flags --oversubscribe)
  if(user STREQUAL "0")
    list(APPEND tessera_launcher_flags --allow-run-as-root)
  endif()
  # More ranks than cores must yield to each other, and containers often forbid reading another process's memory.
  list(APPEND tessera_test_environment OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none)
endif()

# Threads that wait must not keep the processor from others: tests run more ranks and threads than there are cores.
list(APPEND tessera_test_environment OMP_WAIT_POLICY=passive)

if(TESSERA_SANITIZE)
  list(APPEND tessera_test_environment UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=fast_unwind_on_malloc=0
       "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0")
endif()

if(DEFINED ENV{TESSERA_SHARED})
  set(tessera_shared "$ENV{TESSERA_SHARED}")
else()
  cmake_path(SET tessera_shared NORMALIZE "${PROJECT_SOURCE_DIR}/../shared")
endif()
set(TESSERA_SHARED "${tessera_shared}" CACHE PATH "Folder of the reference cases that tests read where it exists")
list(APPEND tessera_test_environment "TESSERA_SHARED=${TESSERA_SHARED}")

# tessera_mpi_test(NAME TARGET RANKS count... [TIMEOUT seconds] [LABELS label...] [ARGUMENTS argument...]
# [THROUGH command...]): one CTest for each rank count, NAME_nCOUNT. The launcher ends the ranks itself at the time
# limit. THROUGH is a command that gets the launcher's command line and judges its result.
function(tessera_mpi_test name target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "RANKS;LABELS;ARGUMENTS;THROUGH")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    set(environment ${tessera_test_environment} MPIEXEC_TIMEOUT=${arg_TIMEOUT})
    math(EXPR backstop "${arg_TIMEOUT} + 15")
    add_test(NAME ${name}_n${ranks}
             COMMAND ${arg_THROUGH} "${MPIEXEC_EXECUTABLE}" ${tessera_launcher_flags} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                     $<TARGET_FILE:${target}> ${arg_ARGUMENTS})
    set_tests_properties(${name}_n${ranks} PROPERTIES ENVIRONMENT "${environment}" TIMEOUT ${backstop}
                         PROCESSORS ${ranks} LABELS "${arg_LABELS};ranks${ranks}")
  endforeach()
endfunction()

set(TESSERA_SOURCES_AT_ONCE 1 CACHE STRING "How many sources of tests one compiler process reads at the most: more \
compile sooner all together, fewer sooner after a change of one")

# tessera_at_once(SOURCES NAME): replaces the list of a program's sources by files that include several of them, each in
# a namespace of its own, after all headers that these include. A source that opens a namespace of the library, or has a
# line `// alone: REASON`, stays as it is.
function(tessera_at_once sources name)
  set(alone "")
  set(headers "")
  set(parts "")
  set(count 0)
  set(files 0)
  macro(write_part)
    list(REMOVE_DUPLICATES headers)
    list(JOIN headers "\n" text)
    set(part "${CMAKE_CURRENT_BINARY_DIR}/at_once/${name}_${files}.cpp")
    file(CONFIGURE OUTPUT "${part}" CONTENT "${text}\n${parts}" @ONLY)
    list(APPEND alone "${part}")
    set(headers "")
    set(parts "")
    set(count 0)
    math(EXPR files "${files} + 1")
  endmacro()
  foreach(source IN LISTS ${sources})
    file(STRINGS "${source}" apart REGEX "^(// alone: |namespace tessera)")
    if(apart)
      list(APPEND alone "${source}")
      continue()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    cmake_path(GET source STEM stem)
    file(STRINGS "${source}" includes REGEX "^#include ")
    list(APPEND headers ${includes})
    string(APPEND parts "namespace of_${stem} {\n#include \"${source}\"\n}\n")
    math(EXPR count "${count} + 1")
    if(count EQUAL TESSERA_SOURCES_AT_ONCE)
      write_part()
    endif()
  endforeach()
  if(count GREATER 0)
    write_part()
  endif()
  set(${sources} ${alone} PARENT_SCOPE)
endfunction()

# tessera_test(NAME name SOURCES file... RANKS count... [TIMEOUT seconds] [LABELS label...]):
# one doctest program with the shared main of tests/support, run on each rank count. Sources are of one folder.
function(tessera_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;RANKS;LABELS")
  list(GET arg_SOURCES 0 folder)
  cmake_path(GET folder PARENT_PATH folder)
  string(REGEX MATCH "[/_]onednn" optional "${arg_SOURCES}")
  if(TESSERA_SOURCES_AT_ONCE GREATER 1)
    tessera_at_once(arg_SOURCES ${arg_NAME})
  endif()
  tessera_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${folder}")
  target_link_libraries(${arg_NAME} PRIVATE tessera_test_support)
  if(optional)
    target_link_libraries(${arg_NAME} PRIVATE tessera::onednn)
  endif()
  target_precompile_headers(${arg_NAME} REUSE_FROM tessera_test_support)
  tessera_mpi_test(${arg_NAME} ${arg_NAME} RANKS ${arg_RANKS} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS})
endfunction()
