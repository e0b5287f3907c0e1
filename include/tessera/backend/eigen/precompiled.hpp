#pragma once

#include <tessera/backend/eigen/activation.hpp>
#include <tessera/backend/eigen/adaptive_pool.hpp>
#include <tessera/backend/eigen/attention.hpp>
#include <tessera/backend/eigen/batch_matmul.hpp>
#include <tessera/backend/eigen/batch_norm.hpp>
#include <tessera/backend/eigen/columns.hpp>
#include <tessera/backend/eigen/conv2d.hpp>
#include <tessera/backend/eigen/cross_entropy.hpp>
#include <tessera/backend/eigen/dropout.hpp>
#include <tessera/backend/eigen/embedding.hpp>
#include <tessera/backend/eigen/group_norm.hpp>
#include <tessera/backend/eigen/layout.hpp>
#include <tessera/backend/eigen/matmul.hpp>
#include <tessera/backend/eigen/maximum.hpp>
#include <tessera/backend/eigen/optimizer.hpp>
#include <tessera/backend/eigen/permute.hpp>
#include <tessera/backend/eigen/pool2d.hpp>
#include <tessera/backend/eigen/row_norm.hpp>
#include <tessera/backend/eigen/softmax.hpp>

/// The kernels that take longest to compile. A program of many sources compiles them once: one source expands
/// `TESSERA_EIGEN_KERNELS(, float)` inside `tessera::detail::eigen_kernels` (and for `double`), and all sources are
/// compiled with TESSERA_PRECOMPILED_KERNELS defined, as the CMake target `tessera::kernels` does.
#define TESSERA_EIGEN_KERNELS(PREFIX, T)                                                                               \
  PREFIX template void matmul<T>(operand<T, 2>, bool, operand<T, 2>, bool, block<T, 2>, bool, workspace&);             \
  PREFIX template void conv2d_forward<T>(operand<T, 4>, operand<T, 4>, block<T, 4>, conv2d_geometry const&,            \
                                         workspace&);                                                                  \
  PREFIX template void conv2d_backward_input<T>(operand<T, 4>, operand<T, 4>, block<T, 4>, conv2d_geometry const&,     \
                                                workspace&);                                                           \
  PREFIX template void conv2d_backward_weight<T>(operand<T, 4>, operand<T, 4>, block<T, 4>, conv2d_geometry const&,    \
                                                 workspace&);                                                          \
  PREFIX template void batch_norm_moments<T>(block<T const, 2>, block<double, 2>, workspace&);                         \
  PREFIX template void batch_norm_normalize<T>(operand<T, 2>, block<double const, 1>, block<double const, 1>,          \
                                               operand<T, 1>, operand<T, 1>, block<T, 2>, workspace&);                 \
  PREFIX template void batch_norm_backward_sums<T>(operand<T, 2>, operand<T, 2>, block<double const, 1>,               \
                                                   block<double const, 1>, block<T, 1>, workspace&);                   \
  PREFIX template void batch_norm_backward_input<T>(operand<T, 2>, operand<T, 2>, block<double const, 1>,              \
                                                    block<double const, 1>, operand<T, 1>, operand<T, 1>, double,      \
                                                    block<T, 2>, workspace&);                                          \
  PREFIX template void batch_norm_backward_input_evaluation<T>(operand<T, 2>, block<double const, 1>, operand<T, 1>,   \
                                                               block<T, 2>, workspace&);                               \
  PREFIX template void add_bias<T>(block<T, 2>, operand<T, 1>, workspace&);                                            \
  PREFIX template void sum_rows<T>(operand<T, 2>, block<T, 1>, workspace&);                                            \
  PREFIX template void cross_entropy_sums<T>(operand<T, 2>, label_block, operand<T, 1>, cross_entropy_part<T>,         \
                                             block<T, 2>, workspace&);                                                 \
  PREFIX template cross_entropy_totals cross_entropy_loss<T>(operand<T, 2>, label_block, cross_entropy_part<T>,        \
                                                             block<T, 1>);                                             \
  PREFIX template void cross_entropy_gradient<T>(operand<T, 2>, label_block, operand<T, 1>, operand<T, 2>,             \
                                                 cross_entropy_part<T>, double, operand<T, 1>, block<T, 2>,            \
                                                 workspace&);                                                          \
  PREFIX template void cross_entropy_probability_sums<T>(operand<T, 2>, operand<T, 2>, operand<T, 1>,                  \
                                                         cross_entropy_part<T>, block<T, 2>, workspace&);              \
  PREFIX template cross_entropy_totals cross_entropy_probability_loss<T>(operand<T, 2>, block<T, 1>);                  \
  PREFIX template void cross_entropy_probability_gradient<T>(operand<T, 2>, operand<T, 2>, operand<T, 1>,              \
                                                             operand<T, 2>, cross_entropy_part<T>, double,             \
                                                             operand<T, 1>, block<T, 2>, workspace&);                  \
  PREFIX template void row_max<T>(operand<T, 3>, block<T, 2>);                                                         \
  PREFIX template void row_sum_exp<T>(operand<T, 3>, operand<T, 2>, block<T, 2>);                                      \
  PREFIX template void softmax_finish<T>(operand<T, 3>, operand<T, 2>, operand<T, 2>, block<T, 3>);                    \
  PREFIX template void log_softmax_finish<T>(operand<T, 3>, operand<T, 2>, operand<T, 2>, block<T, 3>);                \
  PREFIX template void softmax_backward_finish<T>(operand<T, 3>, operand<T, 3>, operand<T, 2>, block<T, 3>);           \
  PREFIX template void log_softmax_backward_finish<T>(operand<T, 3>, operand<T, 3>, operand<T, 2>, block<T, 3>);       \
  PREFIX template void max_pool2d_forward<T>(operand<T, 4>, block<T, 4>, block<std::int32_t, 4>,                       \
                                             pool2d_geometry const&);                                                  \
  PREFIX template void max_pool2d_backward<T>(operand<T, 4>, block<std::int32_t const, 4>, block<T, 4>,                \
                                              pool2d_geometry const&);                                                 \
  PREFIX template void avg_pool2d_forward<T>(operand<T, 4>, block<T, 4>, pool2d_geometry const&, workspace&);          \
  PREFIX template void avg_pool2d_backward<T>(operand<T, 4>, block<T, 4>, pool2d_geometry const&, workspace&);         \
  PREFIX template void adaptive_avg_pool_forward<T>(operand<T, 4>, block<T, 4>, image_part const&, workspace&);        \
  PREFIX template void adaptive_avg_pool_backward<T>(operand<T, 4>, block<T, 4>, image_part const&, workspace&);       \
  PREFIX template void global_avg_pool_forward<T>(operand<T, 4>, block<T, 4>, index_t, workspace&);                    \
  PREFIX template void global_avg_pool_backward<T>(operand<T, 4>, block<T, 4>, index_t);                               \
  PREFIX template void flatten<T>(operand<T, 4>, block<T, 2>);                                                         \
  PREFIX template void unflatten<T>(operand<T, 2>, block<T, 4>);                                                       \
  PREFIX template void activation_forward<gelu_function, T>(operand<T, 1>, block<T, 1>);                               \
  PREFIX template void activation_backward<gelu_function, T>(operand<T, 1>, operand<T, 1>, block<T, 1>);               \
  PREFIX template void activation_forward<gelu_tanh_function, T>(operand<T, 1>, block<T, 1>);                          \
  PREFIX template void activation_backward<gelu_tanh_function, T>(operand<T, 1>, operand<T, 1>, block<T, 1>);          \
  PREFIX template void activation_forward<silu_function, T>(operand<T, 1>, block<T, 1>);                               \
  PREFIX template void activation_backward<silu_function, T>(operand<T, 1>, operand<T, 1>, block<T, 1>);               \
  PREFIX template void activation_forward<sigmoid_function, T>(operand<T, 1>, block<T, 1>);                            \
  PREFIX template void activation_backward<sigmoid_function, T>(operand<T, 1>, operand<T, 1>, block<T, 1>);            \
  PREFIX template void activation_forward<tanh_function, T>(operand<T, 1>, block<T, 1>);                               \
  PREFIX template void activation_backward<tanh_function, T>(operand<T, 1>, operand<T, 1>, block<T, 1>);               \
  PREFIX template void batch_matmul<T>(operand<T, 4>, bool, operand<T, 4>, bool, block<T, 4>, workspace&);             \
  PREFIX template void permute<T>(operand<T, 6>, std::array<int, 6> const&, block<T, 6>, workspace&);                  \
  PREFIX template void max_broadcast<T>(operand<T, 6>, block<T, 6>, workspace&);                                       \
  PREFIX template void first_maximum<T>(operand<T, 6>, operand<T, 6>, std::array<index_t, 6> const&, index_t,          \
                                        block<std::int64_t, 6>, block<std::int64_t, 6>);                               \
  PREFIX template void layer_norm_forward<T>(operand<T, 2>, double, operand<T, 1>, operand<T, 1>, block<double, 1>,    \
                                             block<double, 1>, block<T, 2>);                                           \
  PREFIX template void rms_norm_forward<T>(operand<T, 2>, double, operand<T, 1>, block<double, 1>, block<T, 2>);       \
  PREFIX template void row_moments<T>(block<T const, 2>, block<double, 2>);                                            \
  PREFIX template void row_squares<T, T>(block<T const, 2>, block<T, 1>);                                              \
  PREFIX template void row_normalize<T>(operand<T, 2>, block<double const, 1>, block<double const, 1>, operand<T, 1>,  \
                                        operand<T, 1>, block<T, 2>);                                                   \
  PREFIX template void row_normalize_backward<T>(operand<T, 2>, operand<T, 2>, block<double const, 1>,                 \
                                                 block<double const, 1>, operand<T, 1>, block<T, 2>, block<T, 1>,      \
                                                 block<T, 1>, workspace&);                                             \
  PREFIX template void row_normalize_backward_sums<T>(operand<T, 2>, operand<T, 2>, block<double const, 1>,            \
                                                      block<double const, 1>, operand<T, 1>, block<T, 1>, block<T, 1>, \
                                                      block<T, 1>, workspace&);                                        \
  PREFIX template void row_normalize_backward_input<T>(operand<T, 2>, operand<T, 2>, block<double const, 1>,           \
                                                       block<double const, 1>, operand<T, 1>, operand<T, 1>, double,   \
                                                       block<T, 2>, workspace&);                                       \
  PREFIX template void group_norm_moments<T>(block<T const, 4>, index_t, block<double, 2>, workspace&);                \
  PREFIX template void group_norm_normalize<T>(operand<T, 4>, index_t, block<double const, 1>, block<double const, 1>, \
                                               operand<T, 1>, operand<T, 1>, block<T, 4>, workspace&);                 \
  PREFIX template void group_norm_backward_sums<T>(operand<T, 4>, operand<T, 4>, index_t, block<double const, 1>,      \
                                                   block<double const, 1>, operand<T, 1>, block<T, 1>, block<T, 1>,    \
                                                   block<T, 1>, workspace&);                                           \
  PREFIX template void group_norm_backward_input<T>(operand<T, 4>, operand<T, 4>, index_t, block<double const, 1>,     \
                                                    block<double const, 1>, operand<T, 1>, operand<T, 1>, double,      \
                                                    block<T, 4>, workspace&);                                          \
  PREFIX template void embedding_forward<T>(block<std::int64_t const, 1>, operand<T, 2>, index_t, block<T, 2>);        \
  PREFIX template void embedding_backward<T>(block<std::int64_t const, 1>, operand<T, 2>, index_t, std::int64_t,       \
                                             block<T, 2>, workspace&);                                                 \
  PREFIX template void dropout<T>(operand<T, 1>, philox const&, index_t, double, block<T, 1>);                         \
  PREFIX template void attention_forward<T>(head_operand<T>, head_operand<T>, head_operand<T>, head_rows<T>,           \
                                            block<double, 3>, attention_geometry const&, bool, head_operand<T>,        \
                                            workspace&);                                                               \
  PREFIX template void attention_delta<T>(head_rows<T const>, head_rows<T const>, block<double, 3>,                    \
                                          attention_geometry const&);                                                  \
  PREFIX template void attention_backward<T>(head_operand<T>, head_operand<T>, head_operand<T>, head_operand<T>,       \
                                             block<double const, 3>, block<double const, 3>, head_rows<T>,             \
                                             head_rows<T>, head_rows<T>, attention_geometry const&, head_operand<T>,   \
                                             workspace&);                                                              \
  PREFIX template void adam_update<T>(block<T, 1>, operand<T, 1>, block<T, 1>, block<T, 1>, adam_step);                \
  PREFIX template double square_sum<T>(block<T const, 1>);                                                             \
  PREFIX template void sgd_update<T>(block<T, 1>, operand<T, 1>, block<T, 1>, sgd_step);

#ifdef TESSERA_PRECOMPILED_KERNELS
namespace tessera::detail::eigen_kernels {
TESSERA_EIGEN_KERNELS(extern, float)
TESSERA_EIGEN_KERNELS(extern, double)
}  // namespace tessera::detail::eigen_kernels
#endif
