#pragma once

#include <tessera/core/reduction.hpp>
#include <tessera/core/shape.hpp>

#include <algorithm>
#include <vector>

/// What ranks send each other in tests of communicators.
namespace message_values {

using tessera::index_t;
using tessera::reduction;

/// The value of element `i` on rank `rank`: small, exact in every element type.
template <class T>
T value_of(int rank, index_t i) {
  return static_cast<T>((3 * rank + 2 * i) % 11);
}
template <class T>
std::vector<T> values_of(int rank, index_t count) {
  std::vector<T> values;
  for (index_t i = 0; i < count; ++i) values.push_back(value_of<T>(rank, i));
  return values;
}
/// Element `i` of the reduction over `ranks` ranks.
template <class T>
T reduced(int ranks, index_t i, reduction op) {
  T all = value_of<T>(0, i);
  for (int r = 1; r < ranks; ++r) {
    const T v = value_of<T>(r, i);
    all = op == reduction::sum ? static_cast<T>(all + v) : std::max(all, v);
  }
  return all;
}

}  // namespace message_values
