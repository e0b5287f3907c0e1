#pragma once

#include <tessera/backend/ascend/operators.hpp>
#include <tessera/backend/settings.hpp>

#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_copy.h>
#include <aclnnop/aclnn_fill_scalar.h>

#include <type_traits>

namespace tessera::detail::ascend_kernels {

/// Elements from place to place.
class memory_members : public operators {
 public:
  using operators::operators;

  void synchronize() { device().synchronize(); }

  template <class T>
  void upload(T const* from, T* to, index_t count) {
    transfer(to, from, count, ACL_MEMCPY_HOST_TO_DEVICE);
    // Host memory that is pinned is read later: the caller may write to it when this returns.
    if (count > 0) synchronize();
  }
  template <class T>
  void download(T const* from, T* to, index_t count) {
    transfer(to, from, count, ACL_MEMCPY_DEVICE_TO_HOST);
    if (count > 0) synchronize();
  }
  template <class T>
  void fill(block<T, 1> y, std::type_identity_t<T> value) {
    if (!y.empty()) run<TESSERA_ACLNN(InplaceFillScalar)>(view(y), number(value));
  }
  /// y = x, another block.
  template <class T>
  void copy(operand<T, 1> x, block<T, 1> y) {
    transfer(y.data, x.data, y.size(), ACL_MEMCPY_DEVICE_TO_DEVICE);
  }
  /// to = from, element by element.
  template <class T>
  void copy_strided(std::type_identity_t<strided<T const>> const& from, strided<T> const& to) {
    if (to.extents.size() > 0) run<TESSERA_ACLNN(InplaceCopy)>(view(to), view(from));
  }
  /// to += from, element by element.
  void add_strided(strided<float const> const& from, strided<float> const& to) {
    if (to.extents.size() > 0) run<TESSERA_ACLNN(InplaceAdd)>(view(to), view(from), number(1.0f));
  }

 protected:
  /// As `fill`, of `count` elements from `data` on.
  template <class T>
  void fill_with(T* data, index_t count, std::type_identity_t<T> value) {
    fill(block<T, 1>{data, {{count}}}, value);
  }

 private:
  template <class T>
  void transfer(T* to, T const* from, index_t count, aclrtMemcpyKind kind) {
    if (count == 0) return;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    check(aclrtMemcpyAsync(to, bytes, from, bytes, kind, stream()), "aclrtMemcpyAsync");
  }
};

}  // namespace tessera::detail::ascend_kernels
