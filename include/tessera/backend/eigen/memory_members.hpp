#pragma once

#include <tessera/backend/settings.hpp>
#include <tessera/core/strided.hpp>

#include <algorithm>
#include <type_traits>

namespace tessera::detail {

/// Elements from place to place, as members of backends on host memory. One thread does it: memory is what takes time.
class memory_members {
 public:
  /// Everything is done when its kernel returns.
  void synchronize() {}

  template <class T>
  void upload(T const* from, T* to, index_t count) {
    std::copy_n(from, count, to);
  }
  template <class T>
  void download(T const* from, T* to, index_t count) {
    std::copy_n(from, count, to);
  }
  template <class T>
  void fill(block<T, 1> y, std::type_identity_t<T> value) {
    std::fill_n(y.data, y.size(), value);
  }
  /// y = x, another block.
  template <class T>
  void copy(operand<T, 1> x, block<T, 1> y) {
    std::copy_n(x.data, x.size(), y.data);
  }
  /// to = from, element by element.
  template <class T>
  void copy_strided(std::type_identity_t<strided<T const>> const& from, strided<T> const& to) {
    copy_elements<T>(from, to);
  }
  /// to += from, element by element.
  template <class T>
  void add_strided(std::type_identity_t<strided<T const>> const& from, strided<T> const& to) {
    walk_runs(from, to, [](T const* source, T* target, index_t count, index_t read, index_t write) {
      if (read == 1 && write == 1)
        for (index_t i = 0; i < count; ++i) target[i] = static_cast<T>(target[i] + source[i]);
      else
        for (index_t i = 0; i < count; ++i) target[i * write] = static_cast<T>(target[i * write] + source[i * read]);
    });
  }
};

}  // namespace tessera::detail
