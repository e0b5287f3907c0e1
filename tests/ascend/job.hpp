#pragma once

#include "table.hpp"

#include <tessera/comm/hccl.hpp>
#include <tessera/comm/mpi.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// The test's ranks as a job on Ascend, one device each. MPI only launches them.
namespace job {

using tessera::index_t;

inline std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
inline std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// Sets what a launcher of MindSpore programs sets.
class environment {
 public:
  environment() {
    tessera::mpi_comm ranks;
    std::int64_t number = getpid();
    ranks.broadcast(&number, 1, 0);
    path_ = std::filesystem::temp_directory_path() / ("tessera-rank-table-" + std::to_string(number) + ".json");
    owner_ = ranks.rank() == 0;
    if (owner_) std::ofstream(path_) << table_of(ranks.size());
    ranks.barrier();
    setenv("RANK_TABLE_FILE", path_.c_str(), 1);
    setenv("RANK_SIZE", std::to_string(ranks.size()).c_str(), 1);
    setenv("RANK_ID", std::to_string(ranks.rank()).c_str(), 1);
    setenv("DEVICE_ID", std::to_string(ranks.rank()).c_str(), 1);
  }
  environment(environment const&) = delete;
  environment& operator=(environment const&) = delete;
  ~environment() {
    if (owner_) std::filesystem::remove(path_);
  }

 private:
  std::filesystem::path path_{};
  bool owner_ = false;
};

struct everything {
  environment place{};
  tessera::ascend_runtime runtime{};
  std::shared_ptr<tessera::ascend_device> device = tessera::ascend_device::current();
  tessera::hccl_comm all{device};
};
/// HCCL meets by a rank table once in a process, so all test cases share it.
inline std::optional<everything>& instance() {
  static std::optional<everything> one;
  return one;
}
inline everything& here() {
  if (!instance()) instance().emplace();
  return *instance();
}
inline tessera::hccl_comm& world() { return here().all; }

/// Elements on the device. Null where there are none.
template <class T>
class device_values {
 public:
  explicit device_values(std::vector<T> const& values)
      : count_(values.size()), memory_(here().device->allocate(count_ * sizeof(T))) {
    if (count_ == 0) return;
    const std::size_t bytes = count_ * sizeof(T);
    CHECK(aclrtMemcpyAsync(memory_.get(), bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE,
                           here().device->stream()) == ACL_SUCCESS);
  }

  T* data() const { return static_cast<T*>(memory_.get()); }
  /// After the kernels so far.
  std::vector<T> read() const {
    std::vector<T> values(count_);
    const std::size_t bytes = count_ * sizeof(T);
    if (count_ > 0)
      CHECK(aclrtMemcpyAsync(values.data(), bytes, memory_.get(), bytes, ACL_MEMCPY_DEVICE_TO_HOST,
                             here().device->stream()) == ACL_SUCCESS);
    here().device->synchronize();
    return values;
  }

 private:
  std::size_t count_;
  tessera::memory_handle memory_;
};

/// The same in host memory.
template <class T>
class host_values {
 public:
  explicit host_values(std::vector<T> values) : values_(std::move(values)) {}
  T* data() { return values_.empty() ? nullptr : values_.data(); }
  std::vector<T> const& read() const { return values_; }

 private:
  std::vector<T> values_;
};

/// The two sides of a communicator, for tests of both.
template <class T>
struct device_side {
  using element = T;
  using values = device_values<T>;
  static tessera::hccl_comm& of(tessera::hccl_comm& group) { return group; }
};
template <class T>
struct host_side {
  using element = T;
  using values = host_values<T>;
  static tessera::hccl_host_comm& of(tessera::hccl_comm& group) { return group.host(); }
};

}  // namespace job
