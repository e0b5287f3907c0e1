#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/strided.hpp>

#include <acl/acl.h>
#include <aclnn/acl_meta.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace tessera::detail::ascend_kernels {

static_assert(std::is_same_v<index_t, std::int64_t>, "tessera: aclnn counts in int64_t; compile for a 64-bit system");

/// Throws `error` with what the library says of the failure, unless `status` is success.
inline void check(int status, std::string const& what) {
  if (status == ACL_SUCCESS) return;
  char const* said = aclGetRecentErrMsg();  // also clears it
  throw error(
      what + " failed with status " + std::to_string(status) + (said == nullptr ? "" : std::string(": ") + said),
      "status 0", "look the status up in CANN's list of return codes; its log has more (ASCEND_GLOBAL_LOG_LEVEL)");
}

/// The owner of something that the library made and `Destroy` ends.
template <class T, auto Destroy>
class [[nodiscard]] handle {
 public:
  handle() = default;
  explicit handle(T* made) : made_(made) {}
  handle(handle&& other) noexcept : made_(std::exchange(other.made_, nullptr)) {}
  handle& operator=(handle&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~handle() {
    if (made_ != nullptr) Destroy(made_);
  }
  T* get() const { return made_; }

 private:
  T* made_ = nullptr;
};

// Operators copy what they need of these when they are called: the owners may end while the stream still works.
using tensor_handle = handle<aclTensor, aclDestroyTensor>;
using scalar_handle = handle<aclScalar, aclDestroyScalar>;
using integers_handle = handle<aclIntArray, aclDestroyIntArray>;
using flags_handle = handle<aclBoolArray, aclDestroyBoolArray>;

template <class T>
inline constexpr aclDataType type_of = ACL_DT_UNDEFINED;
template <>
inline constexpr aclDataType type_of<float> = ACL_FLOAT;
template <>
inline constexpr aclDataType type_of<std::int64_t> = ACL_INT64;
template <>
inline constexpr aclDataType type_of<std::int32_t> = ACL_INT32;
template <>
inline constexpr aclDataType type_of<bool> = ACL_BOOL;

/// A number, as operators take them.
template <class T>
scalar_handle number(T value) {
  scalar_handle made(aclCreateScalar(&value, type_of<T>));
  if (made.get() == nullptr) check(ACL_ERROR_BAD_ALLOC, "aclCreateScalar");
  return made;
}
inline integers_handle integers(std::initializer_list<index_t> values) {
  integers_handle made(aclCreateIntArray(values.begin(), values.size()));
  if (made.get() == nullptr) check(ACL_ERROR_BAD_ALLOC, "aclCreateIntArray");
  return made;
}
inline integers_handle integers(std::span<index_t const> values) {
  integers_handle made(aclCreateIntArray(values.data(), values.size()));
  if (made.get() == nullptr) check(ACL_ERROR_BAD_ALLOC, "aclCreateIntArray");
  return made;
}
inline flags_handle flags(std::initializer_list<bool> values) {
  flags_handle made(aclCreateBoolArray(values.begin(), values.size()));
  if (made.get() == nullptr) check(ACL_ERROR_BAD_ALLOC, "aclCreateBoolArray");
  return made;
}

/// Extents or distances of up to eight dimensions.
using numbers = std::initializer_list<index_t>;

/// Elements in the device's memory, `strides` elements apart, as an operator takes them. Not for empty ones.
template <class T>
tensor_handle view(T* data, std::span<index_t const> extents, std::span<index_t const> strides,
                   aclFormat format = ACL_FORMAT_ND) {
  using element = std::remove_const_t<T>;
  // Operators want a base of 32 bytes; the element's place is counted from there. Blocks of the pool begin at one.
  constexpr std::uintptr_t aligned = 32;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t base = address / aligned * aligned;
  const auto offset = static_cast<index_t>((address - base) / sizeof(element));
  index_t stored = offset + 1;
  for (std::size_t d = 0; d < extents.size(); ++d) stored += (extents[d] - 1) * strides[d];
  tensor_handle made(aclCreateTensor(extents.data(), extents.size(), type_of<element>, strides.data(), offset, format,
                                     &stored, 1, reinterpret_cast<void*>(base)));
  if (made.get() == nullptr) check(ACL_ERROR_INVALID_PARAM, "aclCreateTensor");
  return made;
}
template <class T>
tensor_handle view(T* data, numbers extents, numbers strides, aclFormat format = ACL_FORMAT_ND) {
  return view(data, std::span(extents.begin(), extents.size()), std::span(strides.begin(), strides.size()), format);
}
/// Elements one after the other, the last dimension innermost.
template <class T>
tensor_handle view(T* data, std::span<index_t const> extents, aclFormat format = ACL_FORMAT_ND) {
  std::array<index_t, 8> strides{};
  index_t step = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    strides[d] = step;
    step *= extents[d];
  }
  return view(data, extents, std::span<index_t const>(strides.data(), extents.size()), format);
}
template <class T>
tensor_handle view(T* data, numbers extents, aclFormat format = ACL_FORMAT_ND) {
  return view(data, std::span<index_t const>(extents.begin(), extents.size()), format);
}
template <class T, int Rank, storage_order Order>
tensor_handle view(block<T, Rank, Order> const& b) {
  static_assert(Rank != 4 || Order == storage_order::row_major);
  return view(b.data, std::span<index_t const>(b.extents.extents), Rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND);
}
template <class T>
tensor_handle view(strided<T> const& s) {
  return view(s.data, std::span<index_t const>(s.extents.extents), std::span<index_t const>(s.strides));
}

/// A part of images [N, C, H, W]: rows and columns from `begins` on, `steps` apart.
template <class T>
tensor_handle part_of_images(T* data, shape<4> const& images, std::array<index_t, 2> begins,
                             std::array<index_t, 2> extents, std::array<index_t, 2> steps = {1, 1}) {
  const index_t height = images[2];
  const index_t width = images[3];
  return view(data + begins[0] * width + begins[1], {images[0], images[1], extents[0], extents[1]},
              {images[1] * height * width, height * width, steps[0] * width, steps[1]}, ACL_FORMAT_NCHW);
}

}  // namespace tessera::detail::ascend_kernels
