#pragma once

#include <tessera/backend/attention.hpp>
#include <tessera/backend/geometry.hpp>
#include <tessera/backend/settings.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/strided.hpp>
#include <tessera/core/tensor.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <span>

namespace tessera {

/// Whether batch norm on several ranks gathers each rank's mean and deviation of a channel and combines them at once,
/// by the kernels `batch_norm_local` and `batch_norm_gathered`, instead of reducing sums. `B` says so by a constant
/// `gathers_statistics`.
template <class B>
concept gathers_statistics = requires {
  requires B::gathers_statistics;
};

namespace detail {

/// Blocks of one backend, for the requirements below.
template <class B, class T, int Rank>
using block_of = block<T, Rank, order_of_rank<Rank>(B::order)>;
template <class B, class T, int Rank>
using read_block_of = block_of<B, T const, Rank>;
/// Images as batch norm takes them: the matrix [pixels, channels] where channels lie innermost, else as they are.
template <class B, class T>
using pixels_of = block_of<B, T, B::order == storage_order::channels_last ? 2 : 4>;
/// Blocks of statistics.
template <class B, int Rank>
using statistics_of = block_of<B, typename B::statistic, Rank>;

/// Memory that `tensor` can take its blocks from.
template <class M>
concept tensor_memory = requires(std::size_t bytes) {
  { M::allocate(bytes) } -> std::convertible_to<memory_handle>;
  { M::on_host } -> std::convertible_to<bool>;
};

/// How elements come to the backend's memory, leave it and move in it; T is also that of indices.
template <class B, class T>
concept memory_kernels = requires(B b, T const* from, T* to, index_t count, read_block_of<B, T, 1> in,
                                  block_of<B, T, 1> out, T value, strided<T const> some, strided<T> others) {
  b.upload(from, to, count);     // from host memory to the backend's
  b.download(from, to, count);   // from the backend's memory to the host's; the elements are there when it returns
  b.fill(out, value);            // every element
  b.copy(in, out);               // a block of as many elements
  b.copy_strided(some, others);  // elements that lie apart
};

/// Returns when all kernels that were called are done.
template <class B>
concept synchronizing = requires(B b) {
  b.synchronize();
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
concept flat_kernels = requires(B b, read_block_of<B, T, 1> in, block_of<B, T, 1> out, T factor, strided<T const> some,
                                strided<T> others) {
  b.relu_forward(in, out);       // (x) to y, NaN kept
  b.relu_backward(in, in, out);  // (y, dy) to dx
  b.add(in, in, out);            // sum of two blocks
  b.sub(in, in, out);            // difference
  b.mul(in, in, out);            // product by element
  b.scale(in, factor, out);      // product with a number
  b.axpy(factor, in, out);       // y += factor * x
  b.exp(in, out);                // exponential
  b.log(in, out);                // natural logarithm
  b.add_strided(some, others);   // elements that lie apart, added to others
};

/// What every program needs of its backend.
template <class B, class T>
concept basic_kernels = memory_kernels<B, T> && flat_kernels<B, T>;

template <class B, class T>
concept optimizer_kernels = requires(B b, read_block_of<B, T, 1> in, block_of<B, T, 1> out, sgd_step sgd,
                                     adam_step adam) {
  b.sgd_update(out, in, out, sgd);               // (parameter, gradient, momentum buffer), in place
  b.adam_update(out, in, out, out, adam);        // (parameter, gradient, moments), in place
  { b.square_sum(in) } -> std::same_as<double>;  // of all elements
};

template <class B, class T>
concept broadcast_kernels = requires(B b, read_block_of<B, T, 6> in, block_of<B, T, 6> out) {
  b.add_broadcast(in, in, out);  // sum, dimensions of extent 1 repeated
  b.mul_broadcast(in, in, out);  // product, likewise
  b.sum_broadcast(in, out);      // sum over the dimensions in which the output has the extent 1
};

template <class B, class T>
concept smooth_kernels = requires(B b, read_block_of<B, T, 1> in, block_of<B, T, 1> out, read_block_of<B, T, 6> wide_in,
                                  block_of<B, T, 6> wide) {
  b.div(in, in, out);                       // quotient by element
  b.sub_broadcast(wide_in, wide_in, wide);  // difference, dimensions of extent 1 repeated
  b.div_broadcast(wide_in, wide_in, wide);  // quotient, likewise
  b.gelu_forward(in, out);                  // (x) to y
  b.gelu_backward(in, in, out);             // (x, dy) to dx
  b.gelu_tanh_forward(in, out);             // (x) to y
  b.gelu_tanh_backward(in, in, out);        // (x, dy) to dx
  b.silu_forward(in, out);                  // (x) to y
  b.silu_backward(in, in, out);             // (x, dy) to dx
  b.sigmoid_forward(in, out);               // (x) to y
  b.sigmoid_backward(in, in, out);          // (y, dy) to dx
  b.tanh_forward(in, out);                  // (x) to y
  b.tanh_backward(in, in, out);             // (y, dy) to dx
};

template <class B, class T>
concept array_kernels = requires(B b, read_block_of<B, T, 4> in, block_of<B, T, 4> out, read_block_of<B, T, 6> wide_in,
                                 block_of<B, T, 6> wide, block_of<B, std::int64_t, 6> places, std::array<int, 6> order,
                                 std::array<index_t, 6> weights, index_t first) {
  b.batch_matmul(in, true, in, true, out);                            // product of each matrix of a batch
  b.permute(wide_in, order, wide);                                    // dimensions in another order
  b.max_broadcast(wide_in, wide);                                     // maximum where the output has the extent 1
  b.first_maximum(wide_in, wide_in, weights, first, places, places);  // (x, maximum) to where it is, first of all
  b.max_backward(wide_in, places, places, places, wide);              // (dy, where) to dx
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

/// Statistics of channels that ranks bring together as sums about an origin.
template <class B, class T>
concept summed_statistics = requires(B b, pixels_of<B, T const> x, block_of<B, T, 1> row, statistics_of<B, 2> moments,
                                     double number) {
  b.batch_norm_moments(x, moments);                        // count, mean, squared deviations by channel
  b.batch_norm_update_running(moments, number, row, row);  // running mean and variance
};

/// Statistics of channels that ranks bring together by gathering them; see `gathers_statistics`.
template <class B, class T>
concept gathered_statistics = requires(B b, pixels_of<B, T const> x, block_of<B, T, 1> row, statistics_of<B, 2> own,
                                       read_block_of<B, typename B::statistic, 3> all, std::span<index_t const> counts,
                                       statistics_of<B, 1> statistic, double number) {
  b.batch_norm_local(x, number, own);  // (x, epsilon) to this rank's means [0] and 1 / deviations [1] by channel
  // (of all ranks, values a channel of each, momentum, epsilon, running mean and variance) to mean and 1 / deviation
  b.batch_norm_gathered(all, counts, number, number, row, row, statistic, statistic);
};

template <class B, class T>
concept pixel_norm_kernels = requires(B b, pixels_of<B, T const> in, pixels_of<B, T> out, block_of<B, T, 1> row,
                                      read_block_of<B, T, 1> read, statistics_of<B, 1> statistic, double number) {
  b.batch_norm_from_running(read, read, number, statistic, statistic);  // mean and 1 / deviation of these
  b.batch_norm_normalize(in, statistic, statistic, row, row, out);      // (x, mean, inv_std, gamma, beta) to y
  b.batch_norm_backward_sums(in, in, statistic, statistic, row);        // sums of dy and of dy * xhat
  b.batch_norm_backward_input(in, in, statistic, statistic, row, row, number, out);  // dx from these
  b.batch_norm_backward_input_evaluation(in, statistic, row, out);                   // dx with constant statistics
};
template <class B, class T>
concept batch_norm_kernels = pixel_norm_kernels<B, T> &&
    (gathers_statistics<B> || summed_statistics<B, T>)&&(!gathers_statistics<B> || gathered_statistics<B, T>);

/// Sums of moments over ranks, for all normalisations.
template <class B, class T>
concept moment_kernels = requires(B b, read_block_of<B, T, 2> in, block_of<B, T, 2> out, statistics_of<B, 2> moments,
                                  statistics_of<B, 1> statistic, double number) {
  b.moments_to_sums(moments, statistic, number, out);  // a rank's part of sums about an origin
  { b.moments_from_sums(in, statistic, number, number, moments) } -> std::same_as<bool>;  // all is kept
  b.batch_norm_finish(moments, number, statistic, statistic);                             // mean and 1 / deviation
};

template <class B, class T>
concept pooling_kernels = requires(B b, read_block_of<B, T, 4> in, block_of<B, T, 4> out, block_of<B, T, 2> flat,
                                   block_of<B, std::int32_t, 4> argmax, pool2d_geometry g, index_t count,
                                   image_part part) {
  b.max_pool2d_forward(in, out, argmax, g);     // (x) to y and the place of each maximum
  b.max_pool2d_backward(in, argmax, out, g);    // (dy, places) to dx
  b.avg_pool2d_forward(in, out, g);             // (x) to y
  b.avg_pool2d_backward(in, out, g);            // (dy) to dx
  b.global_avg_pool_forward(in, out, count);    // (x) to y of height and width 1
  b.global_avg_pool_backward(in, out, count);   // (dy) to dx
  b.adaptive_avg_pool_forward(in, out, part);   // (x) to this block's share of y
  b.adaptive_avg_pool_backward(in, out, part);  // (dy) to dx
  b.flatten(in, flat);                          // images to channel-major rows
  b.unflatten(flat, out);                       // and back
};

template <class B, class T>
concept row_norm_kernels = requires(B b, read_block_of<B, T, 2> in, block_of<B, T, 2> out, block_of<B, T, 1> row,
                                    read_block_of<B, T, 1> read, statistics_of<B, 2> moments,
                                    statistics_of<B, 1> statistic, double number) {
  b.layer_norm_forward(in, number, row, row, statistic, statistic, out);       // (x, epsilon, gamma, beta)
  b.rms_norm_forward(in, number, row, statistic, out);                         // (x, epsilon, gamma)
  b.row_normalize_backward(in, in, statistic, statistic, row, out, row, row);  // (x, dy) to dx, dgamma, dbeta
  b.row_moments(in, moments);                                                  // count, mean, squared deviations by row
  b.row_squares(in, row);                                                      // sums of squares by row
  b.row_squares(in, statistic);                                                // the same as statistics
  { b.rms_norm_finish(read, number, number, statistic) } -> std::same_as<bool>;  // 1 / root of their mean
  b.row_normalize(in, statistic, statistic, row, row, out);                      // (x, mean, inv_std, gamma, beta) to y
  b.row_normalize_backward_sums(in, in, statistic, statistic, row, row, row, row);      // sums of rows, dgamma, dbeta
  b.row_normalize_backward_input(in, in, statistic, statistic, row, row, number, out);  // dx from these sums
};

template <class B, class T>
concept group_norm_kernels = requires(B b, read_block_of<B, T, 4> in, block_of<B, T, 4> out, block_of<B, T, 1> row,
                                      statistics_of<B, 2> moments, statistics_of<B, 1> statistic, index_t groups,
                                      double number) {
  b.group_norm_moments(in, groups, moments);                                // count, mean, squared deviations
  b.group_norm_normalize(in, groups, statistic, statistic, row, row, out);  // (x, mean, inv_std, gamma, beta) to y
  b.group_norm_backward_sums(in, in, groups, statistic, statistic, row, row, row, row);      // sums, dgamma, dbeta
  b.group_norm_backward_input(in, in, groups, statistic, statistic, row, row, number, out);  // dx from these sums
};

template <class B, class T>
concept embedding_kernels = requires(B b, read_block_of<B, T, 2> in, block_of<B, T, 2> out, read_block_of<B, T, 1> row,
                                     block_of<B, T, 1> flat, read_block_of<B, std::int64_t, 1> indices, index_t count,
                                     philox draw, double keep) {
  { b.first_bad_index(indices, count) } -> std::same_as<index_t>;  // -1: all indices are right
  b.embedding_forward(indices, in, count, out);                    // rows of the weight
  b.embedding_backward(indices, in, count, std::int64_t{}, out);   // rows of dy summed by index
  b.dropout(row, draw, count, keep, flat);                         // x / keep, or 0
};

template <class B, class T>
concept attention_kernels = requires(B b, head_rows<T const> in, head_rows<T> out, statistics_of<B, 3> rows,
                                     attention_geometry g, shape<4> extents) {
  b.attention_forward(in, in, in, out, rows, g);                           // (q, k, v) to out and log-sums
  b.attention_forward(in, in, in, out, rows, g, true);                     // the same, added to the output
  b.attention_forward(in, in, in, out, rows, g, true, in);                 // the same with a mask
  b.attention_delta(in, in, rows, g);                                      // (out, dy) to the sum of their product
  b.attention_backward(in, in, in, in, rows, rows, out, out, out, g);      // (q, k, v, dy) added to dq, dk, dv
  b.attention_backward(in, in, in, in, rows, rows, out, out, out, g, in);  // the same with a mask
  b.copy_heads(in, out, extents);                                          // vectors in another order
};

}  // namespace detail

/// Whether the matrix products, convolutions and attention of backend `B` take operands of `Format`: those of the
/// blocks (float, double), or a format like `bfloat16` to which they are rounded. `B` says so by a constant
/// `computes<Format>`.
template <class B, class Format>
concept computes_in = B::template computes<Format>;

/// Whether backend `B` has all kernels for elements of type T; `offers` (backend/capability.hpp) tells of one group.
template <class B, class T>
concept backend_for = detail::memory_kernels<B, T> && detail::matrix_kernels<B, T> &&
    detail::convolution_kernels<B, T> && detail::flat_kernels<B, T> && detail::optimizer_kernels<B, T> &&
    detail::broadcast_kernels<B, T> && detail::smooth_kernels<B, T> && detail::array_kernels<B, T> &&
    detail::softmax_kernels<B, T> && detail::cross_entropy_kernels<B, T> && detail::moment_kernels<B, T> &&
    detail::batch_norm_kernels<B, T> && detail::pooling_kernels<B, T> && detail::row_norm_kernels<B, T> &&
    detail::group_norm_kernels<B, T> && detail::embedding_kernels<B, T> && detail::attention_kernels<B, T>;

/// Whether a backend sums over the batch in a fixed number of blocks, as `deterministic` does.
template <class B>
concept deterministic_backend = requires {
  { B::batch_blocks } -> std::convertible_to<int>;
};

/// Whether blocks of backend `B` hold elements of type T: float always, others where `B` says so by a constant
/// `holds<T>`.
template <class B, class T>
concept holds_elements = B::template holds<T>;

/// Memory, a storage order and kernels on one rank's blocks. Nothing above this room knows how they are made, or reads
/// and writes elements by their addresses: the memory need not be the host's.
///
/// - Blocks of rank 4 lie as `B::order` says, all others are row-major: `block<T, Rank>`.
/// - Kernels may return before they are done, but run in order: each sees what those before it wrote. `download` and
///   kernels that return a value wait. Memory may be given back while a kernel that uses it runs, because those that
///   get it next run after it.
/// - Statistics are blocks of `B::statistic`: the type in which sums over many elements are kept.
///
/// A backend may lack kernels other than those that move memory or work element by element (`basic_kernels`). A program
/// that calls one of those does not compile, and is told which; `with_fallback` lets another backend run it.
///
/// `eigen` documents what each kernel computes. All backends accept empty blocks, overwrite outputs, and let flat
/// kernels and batch norm work in place.
template <class B>
concept backend = detail::tensor_memory<typename B::memory> &&            // where tensors get their blocks
    std::same_as<std::remove_cv_t<decltype(B::order)>, storage_order> &&  // how rank-4 blocks lie
    std::same_as<decltype(B::template computes<float>), bool const> &&    // in which formats it multiplies
    std::floating_point<typename B::statistic> && detail::synchronizing<B> && detail::memory_kernels<B, std::int64_t> &&
    detail::memory_kernels<B, std::int32_t> && detail::memory_kernels<B, typename B::statistic> &&
    holds_elements<B, float> && detail::basic_kernels<B, float> &&
    (!holds_elements<B, double> || detail::basic_kernels<B, double>);

}  // namespace tessera
