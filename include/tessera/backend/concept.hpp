#pragma once

#include <tessera/backend/geometry.hpp>
#include <tessera/backend/settings.hpp>
#include <tessera/core/tensor.hpp>

#include <concepts>
#include <cstdint>

namespace tessera {

namespace detail {

/// Blocks of one backend, for the requirements below.
template <class B, class T, int Rank>
using block_of = block<T, Rank, B::order>;
template <class B, class T, int Rank>
using read_block_of = block<T const, Rank, B::order>;

/// Memory that `tensor` can take its blocks from.
template <class M>
concept tensor_memory = requires(std::size_t bytes) {
  { M::allocate(bytes) } -> std::convertible_to<memory_handle>;
};

template <class B, class T>
concept matrix_kernels = requires(B b, read_block_of<B, T, 2> in, block_of<B, T, 2> out, block_of<B, T, 1> row) {
  b.matmul(in, true, in, true, out);        // product of optionally transposed matrices
  b.matmul(in, true, in, true, out, true);  // the same, added to the output
  b.add_bias(out, row);                     // a row added to every row, in place
  b.sum_rows(in, row);                      // the sum of all rows
};

template <class B, class T>
concept convolution_kernels = requires(B b, read_block_of<B, T, 4> in, block_of<B, T, 4> out, conv2d_geometry g) {
  b.conv2d_forward(in, in, out, g);          // (x, w) to y
  b.conv2d_backward_input(in, in, out, g);   // (w, dy) to dx
  b.conv2d_backward_weight(in, in, out, g);  // (x, dy) to dw
};

template <class B, class T>
concept flat_kernels = requires(B b, read_block_of<B, T, 1> in, block_of<B, T, 1> out, T factor, sgd_step step) {
  b.relu_forward(in, out);           // (x) to y, NaN kept
  b.relu_backward(in, in, out);      // (y, dy) to dx
  b.add(in, in, out);                // sum of two blocks
  b.sub(in, in, out);                // difference
  b.mul(in, in, out);                // product by element
  b.scale(in, factor, out);          // product with a number
  b.axpy(factor, in, out);           // y += factor * x
  b.exp(in, out);                    // exponential
  b.log(in, out);                    // natural logarithm
  b.sgd_update(out, in, out, step);  // (parameter, gradient, momentum buffer), both states in place
};

template <class B, class T>
concept broadcast_kernels = requires(B b, read_block_of<B, T, 6> in, block_of<B, T, 6> out) {
  b.add_broadcast(in, in, out);  // sum, dimensions of extent 1 repeated
  b.mul_broadcast(in, in, out);  // product, likewise
  b.sum_broadcast(in, out);      // sum over the dimensions in which the output has the extent 1
};

template <class B, class T>
concept softmax_kernels = requires(B b, read_block_of<B, T, 3> in, block_of<B, T, 3> out, block_of<B, T, 2> rows) {
  b.softmax_forward(in, out);                        // (x) to y, whole rows
  b.softmax_backward(in, in, out);                   // (y, dy) to dx
  b.log_softmax_forward(in, out);                    // (x) to y
  b.log_softmax_backward(in, in, out);               // (y, dy) to dx
  b.row_max(in, rows);                               // largest of each row, NaN kept, -inf if empty
  b.row_sum_exp(in, rows, rows);                     // (x, maximum) to the sum of exp(x - maximum)
  b.softmax_finish(in, rows, rows, out);             // (x, maximum, sum) to y
  b.log_softmax_finish(in, rows, rows, out);         // (x, maximum, sum) to y
  b.row_dot(in, in, rows);                           // (y, dy) to the sum of their product
  b.row_sum(in, rows);                               // sum of each row
  b.softmax_backward_finish(in, in, rows, out);      // (y, dy, dot) to dx
  b.log_softmax_backward_finish(in, in, rows, out);  // (y, dy, sum) to dx
};

template <class B, class T>
concept cross_entropy_kernels = requires(B b, read_block_of<B, T, 2> in, block_of<B, T, 2> out, block_of<B, T, 1> row,
                                         read_block_of<B, std::int64_t, 1> labels, cross_entropy_part<T> part,
                                         double scale) {
  b.row_max(in, row);                                                                 // maximum of each row of a matrix
  { b.first_bad_label(labels, index_t{}, std::int64_t{}) } -> std::same_as<index_t>;  // -1: all labels are right
  b.cross_entropy_sums(in, labels, row, part, out);  // local part of the packed sums of each row
  { b.cross_entropy_loss(in, labels, part, row) } -> std::same_as<cross_entropy_totals>;  // from reduced sums
  b.cross_entropy_gradient(in, labels, row, in, part, scale, row, out);                   // of the local logits
  b.cross_entropy_probability_sums(in, in, row, part, out);  // the same for probability targets
  { b.cross_entropy_probability_loss(in, row) } -> std::same_as<cross_entropy_totals>;
  b.cross_entropy_probability_gradient(in, in, row, in, part, scale, row, out);
};

template <class B, class T>
concept batch_norm_kernels = requires(B b, read_block_of<B, T, 2> in, block_of<B, T, 2> out, block_of<B, T, 1> row,
                                      read_block_of<B, T, 1> read, block_of<B, double, 2> moments,
                                      block_of<B, double, 1> statistic, double number) {
  b.batch_norm_moments(in, moments);                                    // count, mean, squared deviations by channel
  b.batch_norm_finish(moments, number, statistic, statistic);           // mean and 1 / deviation
  b.batch_norm_update_running(moments, number, row, row);               // running mean and variance
  b.batch_norm_from_running(read, read, number, statistic, statistic);  // mean and 1 / deviation of these
  b.batch_norm_normalize(in, statistic, statistic, row, row, out);      // (x, mean, inv_std, gamma, beta) to y
  b.batch_norm_backward_sums(in, in, statistic, statistic, row);        // sums of dy and of dy * xhat
  b.batch_norm_backward_input(in, in, statistic, statistic, row, row, number, out);  // dx from these
  b.batch_norm_backward_input_evaluation(in, statistic, row, out);                   // dx with constant statistics
};

template <class B, class T>
concept pooling_kernels = requires(B b, read_block_of<B, T, 4> in, block_of<B, T, 4> out, block_of<B, T, 2> flat,
                                   block_of<B, std::int32_t, 4> argmax, pool2d_geometry g, index_t count) {
  b.max_pool2d_forward(in, out, argmax, g);    // (x) to y and the place of each maximum
  b.max_pool2d_backward(in, argmax, out, g);   // (dy, places) to dx
  b.avg_pool2d_forward(in, out, g);            // (x) to y
  b.avg_pool2d_backward(in, out, g);           // (dy) to dx
  b.global_avg_pool_forward(in, out, count);   // (x) to y of height and width 1
  b.global_avg_pool_backward(in, out, count);  // (dy) to dx
  b.flatten(in, flat);                         // images to channel-major rows
  b.unflatten(flat, out);                      // and back
};

}  // namespace detail

/// What a backend supplies for elements of type T: see each requirement.
template <class B, class T>
concept backend_for = detail::matrix_kernels<B, T> && detail::convolution_kernels<B, T> && detail::flat_kernels<B, T> &&
    detail::broadcast_kernels<B, T> && detail::softmax_kernels<B, T> && detail::cross_entropy_kernels<B, T> &&
    detail::batch_norm_kernels<B, T> && detail::pooling_kernels<B, T>;

/// Memory, a storage order and kernels on one rank's blocks. Nothing above this room knows how they are made.
///
/// `eigen` documents what each kernel computes. All backends accept empty blocks, overwrite outputs, and let flat
/// kernels and batch norm work in place.
template <class B>
concept backend = detail::tensor_memory<typename B::memory> &&            // where tensors get their blocks
    std::same_as<std::remove_cv_t<decltype(B::order)>, storage_order> &&  // how rank-4 blocks lie
    backend_for<B, float> && backend_for<B, double>;

}  // namespace tessera
