#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tessera::detail {

/// What the types of a kernel's arguments do not say.
struct kernel_operands {
  unsigned statistics = 0;   ///< the arguments whose elements are the backend's statistics, a bit each
  std::string_view heads{};  ///< the `head_rows` among them, in order: of queries, keys, values, results, masks, all
};

/// The bits of arguments, the first being 0.
template <class... Places>
constexpr unsigned arguments(Places... places) {
  return (0u | ... | (1u << places));
}

// All kernels of backends (backend/concept.hpp) but those that move memory. C++20 forms names by the preprocessor only.
#define TESSERA_KERNELS(KERNEL)                                                  \
  KERNEL(matmul)                                                                 \
  KERNEL(add_bias)                                                               \
  KERNEL(sum_rows)                                                               \
  KERNEL(conv2d_forward)                                                         \
  KERNEL(conv2d_backward_input)                                                  \
  KERNEL(conv2d_backward_weight)                                                 \
  KERNEL(relu_forward)                                                           \
  KERNEL(relu_backward)                                                          \
  KERNEL(add)                                                                    \
  KERNEL(sub)                                                                    \
  KERNEL(mul)                                                                    \
  KERNEL(scale)                                                                  \
  KERNEL(axpy)                                                                   \
  KERNEL(exp)                                                                    \
  KERNEL(log)                                                                    \
  KERNEL(add_strided)                                                            \
  KERNEL(sgd_update)                                                             \
  KERNEL(adam_update)                                                            \
  KERNEL(square_sum)                                                             \
  KERNEL(add_broadcast)                                                          \
  KERNEL(mul_broadcast)                                                          \
  KERNEL(sum_broadcast)                                                          \
  KERNEL(div)                                                                    \
  KERNEL(sub_broadcast)                                                          \
  KERNEL(div_broadcast)                                                          \
  KERNEL(gelu_forward)                                                           \
  KERNEL(gelu_backward)                                                          \
  KERNEL(gelu_tanh_forward)                                                      \
  KERNEL(gelu_tanh_backward)                                                     \
  KERNEL(silu_forward)                                                           \
  KERNEL(silu_backward)                                                          \
  KERNEL(sigmoid_forward)                                                        \
  KERNEL(sigmoid_backward)                                                       \
  KERNEL(tanh_forward)                                                           \
  KERNEL(tanh_backward)                                                          \
  KERNEL(batch_matmul)                                                           \
  KERNEL(permute)                                                                \
  KERNEL(max_broadcast)                                                          \
  KERNEL(first_maximum)                                                          \
  KERNEL(max_backward)                                                           \
  KERNEL(softmax_forward)                                                        \
  KERNEL(softmax_backward)                                                       \
  KERNEL(log_softmax_forward)                                                    \
  KERNEL(log_softmax_backward)                                                   \
  KERNEL(row_max)                                                                \
  KERNEL(row_sum_exp)                                                            \
  KERNEL(softmax_finish)                                                         \
  KERNEL(log_softmax_finish)                                                     \
  KERNEL(row_dot)                                                                \
  KERNEL(row_sum)                                                                \
  KERNEL(softmax_backward_finish)                                                \
  KERNEL(log_softmax_backward_finish)                                            \
  KERNEL(first_bad_label)                                                        \
  KERNEL(cross_entropy_sums)                                                     \
  KERNEL(cross_entropy_loss)                                                     \
  KERNEL(cross_entropy_gradient)                                                 \
  KERNEL(cross_entropy_probability_sums)                                         \
  KERNEL(cross_entropy_probability_loss)                                         \
  KERNEL(cross_entropy_probability_gradient)                                     \
  KERNEL(batch_norm_moments, .statistics = arguments(1))                         \
  KERNEL(moments_to_sums, .statistics = arguments(0, 1))                         \
  KERNEL(moments_from_sums, .statistics = arguments(1, 4))                       \
  KERNEL(batch_norm_finish, .statistics = arguments(0, 2, 3))                    \
  KERNEL(batch_norm_update_running, .statistics = arguments(0))                  \
  KERNEL(batch_norm_local, .statistics = arguments(2))                           \
  KERNEL(batch_norm_gathered, .statistics = arguments(0, 6, 7))                  \
  KERNEL(batch_norm_from_running, .statistics = arguments(3, 4))                 \
  KERNEL(batch_norm_normalize, .statistics = arguments(1, 2))                    \
  KERNEL(batch_norm_backward_sums, .statistics = arguments(2, 3))                \
  KERNEL(batch_norm_backward_input, .statistics = arguments(2, 3))               \
  KERNEL(batch_norm_backward_input_evaluation, .statistics = arguments(1))       \
  KERNEL(max_pool2d_forward)                                                     \
  KERNEL(max_pool2d_backward)                                                    \
  KERNEL(avg_pool2d_forward)                                                     \
  KERNEL(avg_pool2d_backward)                                                    \
  KERNEL(global_avg_pool_forward)                                                \
  KERNEL(global_avg_pool_backward)                                               \
  KERNEL(adaptive_avg_pool_forward)                                              \
  KERNEL(adaptive_avg_pool_backward)                                             \
  KERNEL(flatten)                                                                \
  KERNEL(unflatten)                                                              \
  KERNEL(layer_norm_forward, .statistics = arguments(4, 5))                      \
  KERNEL(rms_norm_forward, .statistics = arguments(3))                           \
  KERNEL(row_normalize_backward, .statistics = arguments(2, 3))                  \
  KERNEL(row_moments, .statistics = arguments(1))                                \
  KERNEL(row_squares)                                                            \
  KERNEL(rms_norm_finish, .statistics = arguments(3))                            \
  KERNEL(row_normalize, .statistics = arguments(1, 2))                           \
  KERNEL(row_normalize_backward_sums, .statistics = arguments(2, 3))             \
  KERNEL(row_normalize_backward_input, .statistics = arguments(2, 3))            \
  KERNEL(group_norm_moments, .statistics = arguments(2))                         \
  KERNEL(group_norm_normalize, .statistics = arguments(2, 3))                    \
  KERNEL(group_norm_backward_sums, .statistics = arguments(3, 4))                \
  KERNEL(group_norm_backward_input, .statistics = arguments(3, 4))               \
  KERNEL(first_bad_index)                                                        \
  KERNEL(embedding_forward)                                                      \
  KERNEL(embedding_backward)                                                     \
  KERNEL(dropout)                                                                \
  KERNEL(attention_forward, .statistics = arguments(4), .heads = "qkvrm")        \
  KERNEL(attention_delta, .statistics = arguments(2), .heads = "rr")             \
  KERNEL(attention_backward, .statistics = arguments(4, 5), .heads = "qkvrqkvm") \
  KERNEL(copy_heads, .heads = "aa")

enum class kernel : std::uint8_t {
#define TESSERA_KERNEL(NAME, ...) NAME,
  TESSERA_KERNELS(TESSERA_KERNEL) number_of
#undef TESSERA_KERNEL
};

inline constexpr std::string_view kernel_names[] = {
#define TESSERA_KERNEL(NAME, ...) #NAME,
    TESSERA_KERNELS(TESSERA_KERNEL)
#undef TESSERA_KERNEL
};

template <kernel Name>
struct kernel_member;

/// Whether `B` has the kernel for arguments of these types.
template <class B, kernel Name, class... Args>
concept has_kernel = requires(B& b, Args&&... args) {
  kernel_member<Name>::call(b, std::forward<Args>(args)...);
};

/// A kernel as an argument: `call` is the member of a backend that has its name, if there is one; `require` says that
/// there is none.
#define TESSERA_KERNEL(NAME, ...)                                                                             \
  template <>                                                                                                 \
  struct kernel_member<kernel::NAME> {                                                                        \
    static constexpr kernel_operands operands{__VA_ARGS__};                                                   \
    template <class B, class... Args>                                                                         \
    static auto call(B& b, Args&&... args) -> decltype(b.NAME(std::forward<Args>(args)...)) {                 \
      return b.NAME(std::forward<Args>(args)...);                                                             \
    }                                                                                                         \
    template <class B, class... Args>                                                                         \
    static constexpr void require() {                                                                         \
      static_assert(has_kernel<B, kernel::NAME, Args...>,                                                     \
                    "tessera: the program needs the kernel " #NAME                                            \
                    ", which its backend (the first type in the notes below) lacks for arguments of these "   \
                    "types: let another backend run it, as in session<Mesh, with_fallback<Backend, eigen>>"); \
    }                                                                                                         \
  };
TESSERA_KERNELS(TESSERA_KERNEL)
#undef TESSERA_KERNEL

/// A class with a member for each kernel, which hides that of `Base` and passes the arguments on to
/// `Self::run<kernel::NAME>`, where this takes them.
template <class Self, class Base>
class kernel_members : public Base {
 public:
  using Base::Base;

// `Derived`, as `Self` is not complete here.
#define TESSERA_KERNEL(NAME, ...)                                                                    \
  template <class... Args, class Derived = Self>                                                     \
  auto NAME(Args&&... args)                                                                          \
      ->decltype(std::declval<Derived&>().template run<kernel::NAME>(std::forward<Args>(args)...)) { \
    return static_cast<Derived&>(*this).template run<kernel::NAME>(std::forward<Args>(args)...);     \
  }
  TESSERA_KERNELS(TESSERA_KERNEL)
#undef TESSERA_KERNEL
};

#undef TESSERA_KERNELS

}  // namespace tessera::detail
