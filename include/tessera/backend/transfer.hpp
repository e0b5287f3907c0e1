#pragma once

#include <tessera/core/strided.hpp>
#include <tessera/core/tensor.hpp>

#include <type_traits>
#include <utility>

namespace tessera {

/// The elements of a tensor for the host to read: the tensor itself where it lies in host memory, else a copy.
///
///     const auto y = tessera::to_host(session.kernels(), tessera::gather(model.forward(x, false)));
template <class Kernels, class T, int Rank, class Memory, storage_order Order>
tensor<T, Rank, host_memory, Order> to_host(Kernels& kernels, tensor<T, Rank, Memory, Order> const& x) {
  if constexpr (std::is_same_v<Memory, host_memory>) {
    return x;
  } else {
    tensor<T, Rank, host_memory, Order> copy(x.extents());
    kernels.download(x.data(), copy.data(), x.size());
    return copy;
  }
}

/// The elements of a tensor in host memory as the backend takes them: in its memory and storage order. The tensor
/// itself where it is so already.
template <class Kernels, class T, int Rank, storage_order Order>
auto from_host(Kernels& kernels, tensor<T, Rank, host_memory, Order> x) {
  using result = tensor<T, Rank, typename Kernels::memory, Kernels::order>;
  if constexpr (std::is_same_v<result, tensor<T, Rank, host_memory, Order>>) {
    return x;
  } else {
    result copy(x.extents());
    if constexpr (order_of_rank<Rank>(Order) == order_of_rank<Rank>(Kernels::order)) {
      kernels.upload(std::as_const(x).data(), copy.data(), x.size());
    } else {
      tensor<T, Rank, host_memory, Kernels::order> ordered(x.extents());
      box<Rank> all;
      for (int d = 0; d < Rank; ++d) all[d] = {0, x.extent(d)};
      copy_box<T>(x.read(), all, ordered.view(), {});
      kernels.upload(std::as_const(ordered).data(), copy.data(), x.size());
    }
    return copy;
  }
}

namespace detail {

/// Calls `write(block)` with host memory and puts what it wrote into `to`, which gets it directly where it is the
/// host's.
template <class Kernels, class T, int Rank, class Memory, storage_order Order, class Write>
void write_on_host(Kernels& kernels, tensor<T, Rank, Memory, Order>& to, Write write) {
  if constexpr (Memory::on_host) {
    write(to.view());
  } else {
    tensor<T, Rank, host_memory, Order> written(to.extents());
    write(written.view());
    kernels.upload(std::as_const(written).data(), to.data(), to.size());
  }
}

/// A tensor of one value.
template <class Tensor, class Kernels>
Tensor filled(Kernels& kernels, shape<Tensor::rank> const& extents, typename Tensor::value_type value) {
  Tensor t(extents);
  kernels.fill(block<typename Tensor::value_type, 1>{t.data(), {{t.size()}}}, value);
  return t;
}

/// The elements of a tensor in memory of its own.
template <class Kernels, class T, int Rank, class Memory, storage_order Order>
tensor<T, Rank, Memory, Order> copied(Kernels& kernels, tensor<T, Rank, Memory, Order> const& x) {
  tensor<T, Rank, Memory, Order> copy(x.extents());
  const shape<1> all{{x.size()}};
  kernels.copy(block<T const, 1>{x.data(), all}, block<T, 1>{copy.data(), all});
  return copy;
}

/// One element, for the host.
template <class Kernels, class T>
T element_on_host(Kernels& kernels, T const* element) {
  T value{};
  kernels.download(element, &value, 1);
  return value;
}

}  // namespace detail

}  // namespace tessera
