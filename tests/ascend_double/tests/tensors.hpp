#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "aclnn/acl_meta.h"
#include "children.hpp"

using extents = std::vector<std::int64_t>;

inline std::size_t count_of(extents const& shape) {
  std::size_t count = 1;
  for (auto extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

/// Values between -1 and 1, the same for the same seed.
inline std::vector<float> some_values(std::size_t count, unsigned seed = 1) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (auto& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1;
  }
  return values;
}

template <class T>
constexpr aclDataType type_of() {
  if (std::is_same_v<T, float>) return ACL_FLOAT;
  if (std::is_same_v<T, double>) return ACL_DOUBLE;
  if (std::is_same_v<T, std::uint16_t>) return ACL_FLOAT16;
  if (std::is_same_v<T, std::int8_t>) return ACL_INT8;
  if (std::is_same_v<T, std::uint8_t>) return ACL_BOOL;
  if (std::is_same_v<T, std::int32_t>) return ACL_INT32;
  return ACL_INT64;
}

struct layout {
  aclFormat format = ACL_FORMAT_ND;
  extents strides = {};  // row-major unless given
  std::int64_t offset = 0;
};

/// Elements on the device with a handle of them; T uint16_t holds FP16, uint8_t BOOL. With strides, `values` are those
/// of the storage.
template <class T>
class device_tensor {
 public:
  device_tensor(extents shape, std::vector<T> const& values, layout how = {}, aclDataType type = type_of<T>())
      : shape_(std::move(shape)), memory_(values), how_(std::move(how)) {
    if (how_.strides.empty()) {
      how_.strides.assign(shape_.size(), 1);
      for (auto d = shape_.size(); d-- > 1;) how_.strides[d - 1] = how_.strides[d] * shape_[d];
    }
    auto stored = static_cast<std::int64_t>(values.size());
    handle_ = aclCreateTensor(shape_.data(), shape_.size(), type, how_.strides.data(), how_.offset, how_.format,
                              &stored, 1, memory_.get());
    EXPECT(handle_ != nullptr);
  }
  /// Of minus ones.
  explicit device_tensor(extents const& shape, aclFormat format = ACL_FORMAT_ND)
      : device_tensor(shape, std::vector<T>(count_of(shape), T(-1)), {format, {}, 0}) {}
  ~device_tensor() { EXPECT(aclDestroyTensor(handle_) == 0); }
  device_tensor(device_tensor const&) = delete;
  device_tensor& operator=(device_tensor const&) = delete;

  operator aclTensor*() const { return handle_; }

  /// The storage.
  std::vector<T> read() const { return memory_.read(); }

 private:
  extents shape_;
  device_values<T> memory_;
  layout how_;
  aclTensor* handle_ = nullptr;
};

class number {
 public:
  template <class T>
  explicit number(T value) : handle_(aclCreateScalar(&value, type_of<T>())) {
    EXPECT(handle_ != nullptr);
  }
  ~number() { EXPECT(aclDestroyScalar(handle_) == 0); }
  number(number const&) = delete;
  number& operator=(number const&) = delete;
  operator aclScalar*() const { return handle_; }

 private:
  aclScalar* handle_;
};

class integers {
 public:
  integers(extents const& values) : handle_(aclCreateIntArray(values.data(), values.size())) {
    EXPECT(handle_ != nullptr);
  }
  ~integers() { EXPECT(aclDestroyIntArray(handle_) == 0); }
  integers(integers const&) = delete;
  integers& operator=(integers const&) = delete;
  operator aclIntArray*() const { return handle_; }

 private:
  aclIntArray* handle_;
};

class three_flags {
 public:
  three_flags(bool a, bool b, bool c) {
    bool values[]{a, b, c};
    handle_ = aclCreateBoolArray(values, 3);
    EXPECT(handle_ != nullptr);
  }
  ~three_flags() { EXPECT(aclDestroyBoolArray(handle_) == 0); }
  three_flags(three_flags const&) = delete;
  three_flags& operator=(three_flags const&) = delete;
  operator aclBoolArray*() const { return handle_; }

 private:
  aclBoolArray* handle_ = nullptr;
};

/// Both phases of an operator; what phase 1, then what the stream answers.
template <class Phase1, class Phase2>
class operation {
 public:
  operation(Phase1 describe, Phase2 run) : describe_(describe), run_(run) {}

  template <class... Arguments>
  int operator()(aclrtStream stream, Arguments const&... arguments) const {
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    auto status = describe_(arguments..., &bytes, &executor);
    if (status != 0) return status;
    void* workspace = nullptr;
    if (bytes > 0) EXPECT(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    EXPECT(run_(workspace, bytes, executor, stream) == 0);
    status = aclrtSynchronizeStream(stream);
    if (workspace) EXPECT(aclrtFree(workspace) == 0);
    return status;
  }

 private:
  Phase1 describe_;
  Phase2 run_;
};

#define OPERATION(NAME) operation(NAME##GetWorkspaceSize, NAME)

template <class A, class B>
bool close(std::vector<A> const& found, std::vector<B> const& wanted, double tolerance = 1e-5) {
  if (found.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto a = static_cast<double>(found[i]), b = static_cast<double>(wanted[i]);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (!(std::abs(a - b) <= tolerance * (1 + std::abs(b))) && a != b) {
      std::fprintf(stderr, "element %zu is %g, not %g\n", i, a, b);
      return false;
    }
  }
  return true;
}

inline constexpr int null_parameter = 161001;
inline constexpr int invalid_parameter = 161002;
inline constexpr int no_kernel = 561003;

inline environment const exact{{"EXACT_PRODUCTS", "1"}};
inline environment const a2{{"CHIP", "910b"}};

/// Runs in a process of its own, on a stream of device 0; must end well.
inline void on_device(environment const& variables, std::function<void(aclrtStream)> const& run) {
  auto result = in_child(variables, [&] {
    {
      session s;
      run(s.stream);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
  CHECK_MESSAGE(result.code == 0, result.errors);
}
