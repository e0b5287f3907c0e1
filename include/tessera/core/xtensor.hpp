#pragma once

#include <tessera/core/tensor.hpp>

#include <xtensor/xadapt.hpp>
#include <xtensor/xstrided_view.hpp>

#include <array>
#include <cstddef>

namespace tessera {

namespace detail {
template <class Memory>
constexpr void require_host_memory() {
  static_assert(Memory::on_host,
                "tessera: a view of a tensor in a device's memory would read and write it on the host: take a copy "
                "first, as in tessera::to_host(session.kernels(), x)");
}
}  // namespace detail

/// A block as an xtensor view in logical order (N, C, H, W), whatever the storage order: for slicing, printing and
/// `.npy` files at the edges of a program. No copy; the view does not outlive the block's memory. Kernels do not use
/// it.
template <class T, int Rank, storage_order Order>
auto view(block<T, Rank, Order> const& b) {
  std::array<std::size_t, static_cast<std::size_t>(Rank)> extents{};
  std::array<std::ptrdiff_t, static_cast<std::size_t>(Rank)> steps{};
  const auto strides = strides_of<Order>(b.extents);
  for (std::size_t d = 0; d < extents.size(); ++d) {
    extents[d] = static_cast<std::size_t>(b.extents.extents[d]);
    steps[d] = static_cast<std::ptrdiff_t>(strides[d]);
  }
  return xt::adapt(b.data, static_cast<std::size_t>(b.size()), xt::no_ownership(), extents, steps);
}
template <class T, int Rank, class Memory, storage_order Order>
auto view(tensor<T, Rank, Memory, Order>& t) {
  detail::require_host_memory<Memory>();
  return view(t.view());
}
template <class T, int Rank, class Memory, storage_order Order>
auto view(tensor<T, Rank, Memory, Order> const& t) {
  detail::require_host_memory<Memory>();
  return view(t.read());
}

/// A tensor with the elements of any xtensor expression of `Rank` dimensions.
template <class T, int Rank, class Expression>
tensor<T, Rank> to_tensor(Expression const& values) {
  shape<Rank> extents;
  for (int d = 0; d < Rank; ++d) extents[d] = static_cast<index_t>(values.shape()[static_cast<std::size_t>(d)]);
  tensor<T, Rank> out(extents);
  view(out) = values;
  return out;
}

}  // namespace tessera
