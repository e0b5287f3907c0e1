#pragma once

#include <tessera/core/shape.hpp>

#include <algorithm>
#include <type_traits>

namespace tessera {

/// The vectors of all heads inside a block: element d of vector n of head h of sample b is
/// `data[b * batch + h * head + n * row + d]`.
template <class T>
struct head_rows {
  T* data = nullptr;
  index_t batch = 0;
  index_t head = 0;
  index_t row = 0;

  constexpr T* at(index_t b, index_t h) const { return data + b * batch + h * head; }
  /// Those of one head of one sample.
  constexpr head_rows one(index_t b, index_t h) const { return {at(b, h), batch, head, row}; }
  constexpr operator head_rows<T const>() const requires(!std::is_const_v<T>) { return {data, batch, head, row}; }
};

/// A read-only argument of a kernel; the element type is deduced from the outputs alone.
template <class T>
using head_operand = std::type_identity_t<head_rows<T const>>;

/// Head vectors one after the other: sample, head, position.
template <class T>
constexpr head_rows<T> packed_heads(T* data, index_t heads, index_t positions, index_t width) {
  return {data, heads * positions * width, positions * width, width};
}

/// Attention of some queries to some keys, which may be a part of the whole.
struct attention_geometry {
  index_t batch = 0;
  index_t heads = 0;
  index_t queries = 0;
  index_t keys = 0;
  index_t width = 0;        ///< of a query and a key
  index_t value_width = 0;  ///< of a value and a result
  index_t first_query = 0;  ///< position of the first query in its sequence
  index_t first_key = 0;    ///< position of the first key in its sequence
  bool causal = false;      ///< a query sees the keys up to its own position
  double scale = 1;         ///< of the products of queries and keys

  /// How many of these keys, counted from the first one, query `i` sees.
  constexpr index_t seen(index_t i) const {
    return causal ? std::clamp(first_query + i + 1 - first_key, index_t{0}, keys) : keys;
  }
};

}  // namespace tessera
