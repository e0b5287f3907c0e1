#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "hccl/hccl.h"

// The double keeps one state per process and ends a process that misuses it, so each case runs in a process of its own.
// The parent never calls the double.

using environment = std::map<std::string, std::string>;

struct outcome {
  int code;            // of exit; -1 when a signal ended it
  std::string errors;  // what it wrote to stderr

  bool says(std::string const& words) const { return errors.find(words) != std::string::npos; }
};

/// Ends the process when the condition does not hold.
#define EXPECT(...)                                                                                               \
  do {                                                                                                            \
    if (!(__VA_ARGS__)) {                                                                                         \
      auto const* message = aclGetRecentErrMsg();                                                                 \
      std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #__VA_ARGS__, message ? message : ""); \
      std::fflush(stderr);                                                                                        \
      _exit(1);                                                                                                   \
    }                                                                                                             \
  } while (false)

/// Runs `rank` of each of `count` processes to its end.
inline std::vector<outcome> in_processes(int count, environment const& variables,
                                         std::function<void(int)> const& rank) {
  std::fflush(nullptr);
  std::vector<std::pair<pid_t, int>> children;
  for (int r = 0; r < count; ++r) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    auto child = fork();
    if (child == 0) {
      dup2(ends[1], 2);
      close(ends[0]);
      close(ends[1]);
      for (int ends_it : {SIGSEGV, SIGBUS, SIGABRT, SIGTERM}) std::signal(ends_it, SIG_DFL);  // not doctest's reports
      rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      for (auto const& [name, value] : variables) setenv(("ASCEND_DOUBLE_" + name).c_str(), value.c_str(), 1);
      rank(r);
      std::exit(0);
    }
    close(ends[1]);
    children.push_back({child, ends[0]});
  }
  std::vector<outcome> results;
  for (auto [child, end] : children) {
    outcome result{-1, ""};
    char buffer[4096];
    for (ssize_t got; (got = read(end, buffer, sizeof buffer)) > 0;)
      result.errors.append(buffer, static_cast<std::size_t>(got));
    close(end);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    results.push_back(result);
  }
  return results;
}

inline outcome in_child(environment const& variables, std::function<void()> const& run) {
  return in_processes(1, variables, [&](int) { run(); }).front();
}

/// What each process finds the same, for ranks to tell each other of.
template <class T>
T& shared_by_children() {
  auto* address = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (address) T{};
}

/// A device that is set and a stream; all is put back at the end.
class session {
 public:
  explicit session(int device = 0) : device_(device) {
    auto status = aclInit(nullptr);
    EXPECT(status == ACL_SUCCESS || status == ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT(aclrtSetDevice(device) == ACL_SUCCESS);
    EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  }
  ~session() {
    use();
    EXPECT(aclrtDestroyStream(stream) == ACL_SUCCESS);
    EXPECT(aclrtResetDevice(device_) == ACL_SUCCESS);
  }
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  /// Makes its device current on this thread.
  void use() const {
    EXPECT(aclrtSetDevice(device_) == ACL_SUCCESS);
    EXPECT(aclrtResetDevice(device_) == ACL_SUCCESS);
  }

  aclrtStream stream = nullptr;

 private:
  int device_;
};

/// Device memory that holds `values`.
template <class T>
class device_values {
 public:
  explicit device_values(std::vector<T> const& values) : bytes_(values.size() * sizeof(T)) {
    EXPECT(aclrtMalloc(&address_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    EXPECT(aclrtMemcpy(address_, bytes_, values.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
  }
  ~device_values() { EXPECT(aclrtFree(address_) == ACL_SUCCESS); }
  device_values(device_values const&) = delete;
  device_values& operator=(device_values const&) = delete;

  void* get() const { return address_; }
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    EXPECT(aclrtMemcpy(values.data(), bytes_, address_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
    return values;
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_;
};
