#pragma once

#include <cstdint>

namespace tessera {

/// What a kernel is like, as far as it decides which share of the rates of products and of memory it reaches. Layers
/// say it in a member `kernels`, or for each kernel that they list (layer/kernels.hpp).
enum class kernel_kind : std::uint8_t {
  plain,        ///< matrix products, copies, lookups of rows: what these rates are measured by
  convolution,  ///< products with windows
  attention,    ///< the products of scores
  map,          ///< element by element, by arithmetic alone
  function,     ///< element by element, with exponentials and the like
  norm,         ///< statistics, and what they normalise
  pooling,
  update  ///< the optimizer's
};
inline constexpr int kernel_kinds = 8;

}  // namespace tessera
