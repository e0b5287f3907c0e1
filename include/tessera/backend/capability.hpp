#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/backend/kernel_members.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace tessera {

/// Kernels that belong together: a backend that has one of a group usually has all. backend/concept.hpp lists them.
enum class kernel_group : std::uint8_t {
  matrices,       ///< products of matrices, and biases
  convolutions,   ///< 2-D convolutions
  flat,           ///< element by element: relu, arithmetic, exponential and logarithm; every backend has them
  optimizer,      ///< updates of parameters, and the norm of gradients
  broadcasts,     ///< sums and products with dimensions that are repeated, and sums over dimensions
  smooth,         ///< gelu, silu, sigmoid, tanh; quotients and differences
  arrays,         ///< products of many matrices, permutations, maxima
  softmax,        ///< softmax and log-softmax, of whole rows and of parts of rows
  cross_entropy,  ///< the loss and its gradient
  batch_norm,     ///< batch norm
  moments,        ///< sums of moments over ranks, for all normalisations
  pooling,        ///< maxima and means of windows, flatten
  row_norm,       ///< layer norm and RMS norm
  group_norm,     ///< group norm
  embedding,      ///< embeddings and dropout
  attention       ///< attention, and copies of heads
};
inline constexpr int kernel_groups = 16;

namespace detail {

template <kernel_group Group, class B, class T>
constexpr bool has_group() {
  using enum kernel_group;
  if constexpr (Group == matrices) return matrix_kernels<B, T>;
  if constexpr (Group == convolutions) return convolution_kernels<B, T>;
  if constexpr (Group == flat) return flat_kernels<B, T>;
  if constexpr (Group == optimizer) return optimizer_kernels<B, T>;
  if constexpr (Group == broadcasts) return broadcast_kernels<B, T>;
  if constexpr (Group == smooth) return smooth_kernels<B, T>;
  if constexpr (Group == arrays) return array_kernels<B, T>;
  if constexpr (Group == kernel_group::softmax) return softmax_kernels<B, T>;
  if constexpr (Group == kernel_group::cross_entropy) return cross_entropy_kernels<B, T>;
  if constexpr (Group == kernel_group::batch_norm) return batch_norm_kernels<B, T>;
  if constexpr (Group == moments) return moment_kernels<B, T>;
  if constexpr (Group == pooling) return pooling_kernels<B, T>;
  if constexpr (Group == kernel_group::row_norm) return row_norm_kernels<B, T>;
  if constexpr (Group == kernel_group::group_norm) return group_norm_kernels<B, T>;
  if constexpr (Group == kernel_group::embedding) return embedding_kernels<B, T>;
  if constexpr (Group == kernel_group::attention) return attention_kernels<B, T>;
}

}  // namespace detail

/// Whether backend `B` has every kernel of the group for elements of type `T`.
///
///     static_assert(ts::offers<ts::eigen, float, ts::kernel_group::convolutions>);
template <class B, class T, kernel_group Group>
inline constexpr bool offers = detail::has_group<Group, B, T>();

namespace detail {

/// What a call of a kernel that is not there gives, so that compilers say once that it is not.
struct absent_result {
  operator double() const;
  operator cross_entropy_totals() const;
};

/// A backend that lacks kernels: a program that calls one of these does not compile, and is told which.
template <class B>
class checked_kernels : public kernel_members<checked_kernels<B>, B> {
 public:
  using kernel_members<checked_kernels<B>, B>::kernel_members;

  template <kernel Name, class... Args>
  requires has_kernel<B, Name, Args...>
  auto run(Args&&... args) -> decltype(kernel_member<Name>::call(std::declval<B&>(), std::forward<Args>(args)...)) {
    return kernel_member<Name>::call(static_cast<B&>(*this), std::forward<Args>(args)...);
  }
  template <kernel Name, class... Args>
  absent_result run(Args&&...) {
    kernel_member<Name>::template require<B, Args...>();
    return {};
  }
};

template <class B>
struct checked_backend_of {
  using type = checked_kernels<B>;
};
template <class B>
requires backend_for<B, float> &&(!holds_elements<B, double> || backend_for<B, double>)struct checked_backend_of<B> {
  using type = B;
};

}  // namespace detail

/// The backend `B` as contexts hand it to operators: itself where it has all kernels for all elements that it holds,
/// else a class derived from it in which the call of a kernel that `B` lacks is an error that names the kernel and the
/// remedy.
template <class B>
using checked_backend = typename detail::checked_backend_of<B>::type;

}  // namespace tessera
