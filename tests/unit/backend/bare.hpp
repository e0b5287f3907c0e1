#pragma once

#include "support/far.hpp"

#include <type_traits>

namespace tessera::test {

/// A device that has what every program needs and nothing else: images lie in `Order`, statistics are `Statistic`.
template <storage_order Order, class Statistic = double>
class bare : protected worlds::far {
 public:
  using memory = worlds::far_memory;
  static constexpr storage_order order = Order;
  using statistic = Statistic;
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float>;
  template <class Format>
  static constexpr bool computes = std::is_same_v<Format, float>;

  using far::relu_forward, far::relu_backward, far::add, far::sub, far::mul, far::scale, far::axpy, far::exp, far::log;
  using far::synchronize, far::upload, far::download, far::fill, far::copy, far::copy_strided, far::add_strided;
};

}  // namespace tessera::test
