#pragma once

#include <tessera/comm/concept.hpp>

namespace tessera::detail {

/// Reductions of two ranks' elements, `from` into `into`. The arrays do not overlap.
template <message_element T>
void fold_sum(T const* __restrict from, T* __restrict into, index_t count) {
  for (index_t i = 0; i < count; ++i) into[i] = static_cast<T>(into[i] + from[i]);
}

/// The maximum is NaN where either element is.
template <message_element T>
void fold_maximum(T const* __restrict from, T* __restrict into, index_t count) {
  for (index_t i = 0; i < count; ++i) into[i] = from[i] > into[i] || from[i] != from[i] ? from[i] : into[i];
}

}  // namespace tessera::detail
