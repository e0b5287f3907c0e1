#pragma once

#include <tessera/backend/ascend/cross_entropy_members.hpp>

#include <aclnnop/aclnn_batch_norm_backward_reduce.h>
#include <aclnnop/aclnn_batch_norm_elemt.h>
#include <aclnnop/aclnn_batch_norm_elemt_backward.h>
#include <aclnnop/aclnn_batch_norm_gather_stats_with_counts.h>
#include <aclnnop/aclnn_batch_norm_stats.h>
#include <aclnnop/aclnn_reciprocal.h>

#include <cstddef>
#include <limits>
#include <span>

namespace tessera::detail::ascend_kernels {

/// Batch norm of images [N, C, H, W], by the operators that CANN has for batches on several devices: the ranks' means
/// and deviations are gathered. Empty gamma means 1, empty beta 0.
class batch_norm_members : public cross_entropy_members {
 public:
  using cross_entropy_members::cross_entropy_members;

  /// own [2, C]: mean and 1 / sqrt(variance + epsilon) of this rank's values; zeros where it has none.
  void batch_norm_local(read_images x, double epsilon, block<float, 2> own) {
    const index_t channels = own.extents[1];
    if (own.empty()) return;
    if (x.empty()) return fill_with(own.data, own.size(), 0);
    run<TESSERA_ACLNN(BatchNormStats)>(view(x), epsilon, view(own.data, {channels}),
                                       view(own.data + channels, {channels}));
  }
  /// Mean and 1 / deviation of all ranks' values, and running statistics r = (1 - momentum) r + momentum * batch, the
  /// variance unbiased.
  void batch_norm_gathered(block<float const, 3> all, std::span<index_t const> counts, double momentum, double epsilon,
                           out running_mean, out running_variance, out mean, out inv_std) {
    const index_t channels = mean.size();
    if (channels == 0) return;
    index_t ranks = 0;
    for (const index_t count : counts) ranks += count > 0 ? 1 : 0;
    if (ranks == 0) {
      fill(mean, 0);
      return fill(inv_std, std::numeric_limits<float>::quiet_NaN());
    }
    const auto of_ranks = scratch(static_cast<index_t>(counts.size()));
    float const* statistics = all.data;
    temporary<float> with_values;
    if (ranks < all.extents[0]) {
      // What ranks without values gathered means nothing.
      with_values = scratch(ranks * 2 * channels);
      statistics = with_values.data;
    }
    index_t rank = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] == 0) continue;
      fill_with(of_ranks.data + rank, 1, static_cast<float>(counts[r]));
      if (ranks < all.extents[0])
        copy(in{all.data + static_cast<index_t>(r) * 2 * channels, {{2 * channels}}},
             out{with_values.data + rank * 2 * channels, {{2 * channels}}});
      ++rank;
    }
    // Of the images only type and channels are looked at.
    run<TESSERA_ACLNN(BatchNormGatherStatsWithCounts)>(
        view(all.data, {1, channels, 1, 1}, ACL_FORMAT_NCHW), view(statistics, {ranks, channels}, {2 * channels, 1}),
        view(statistics + channels, {ranks, channels}, {2 * channels, 1}), view_or_null(running_mean),
        view_or_null(running_variance), momentum, epsilon, view(of_ranks.data, {ranks}), view(mean), view(inv_std));
  }
  /// Mean and 1 / sqrt(variance + epsilon).
  void batch_norm_from_running(in running_mean, in running_variance, double epsilon, out mean, out inv_std) {
    copy(running_mean, mean);
    copy(running_variance, inv_std);
    inverse_root(inv_std, epsilon);
  }
  /// y = (x - mean) * inv_std * gamma + beta.
  void batch_norm_normalize(read_images x, in mean, in inv_std, in gamma, in beta, images y) {
    if (y.empty()) return;
    apart(x.data == y.data, y, [&](tensor_handle const& to) {
      run<TESSERA_ACLNN(BatchNormElemt)>(view(x), view_or_null(gamma), view_or_null(beta), view(mean), view(inv_std),
                                         0.0, to);
    });
  }
  /// sums [2 * C]: sum of dy, then sum of dy * xhat.
  void batch_norm_backward_sums(read_images x, read_images dy, in mean, in inv_std, out sums) {
    if (sums.empty()) return;
    if (x.empty()) return fill(sums, 0);
    const index_t channels = mean.size();
    run<TESSERA_ACLNN(BatchNormReduceBackward)>(view(dy), view(x), view(mean), view(inv_std), nullptr, false, true,
                                                true, nullptr, nullptr, view(sums.data + channels, {channels}),
                                                view(sums.data, {channels}));
  }
  /// dx from `sums` and `count` of the whole batch.
  void batch_norm_backward_input(read_images x, read_images dy, in mean, in inv_std, in gamma, in sums, double count,
                                 images dx) {
    if (dx.empty()) return;
    const index_t channels = mean.size();
    const auto numbers = scratch(channels + 1);
    // The operator takes sums of dy * (x - mean).
    const out by_difference{numbers.data, {{channels}}};
    div({sums.data + channels, {{channels}}}, inv_std, by_difference);
    fill_with(numbers.data + channels, 1, static_cast<float>(count));
    apart(dx.data == dy.data || dx.data == x.data, dx, [&](tensor_handle const& to) {
      run<TESSERA_ACLNN(BatchNormElemtBackward)>(view(dy), view(x), view(mean), view(inv_std), view_or_null(gamma),
                                                 view(sums.data, {channels}), view(by_difference),
                                                 view(numbers.data + channels, {1}), to);
    });
  }
  /// dx = dy * gamma * inv_std: the statistics are constants.
  void batch_norm_backward_input_evaluation(read_images dy, in inv_std, in gamma, images dx) {
    if (dx.empty()) return;
    const index_t channels = inv_std.size();
    const auto slopes = scratch(channels);
    const out slope{slopes.data, {{channels}}};
    if (gamma.empty())
      copy(inv_std, slope);
    else
      mul(inv_std, gamma, slope);
    run<TESSERA_ACLNN(Mul)>(view(dy), view(slope.data, {1, channels, 1, 1}, ACL_FORMAT_NCHW), view(dx));
  }

 protected:
  static tensor_handle view_or_null(in b) { return b.empty() ? tensor_handle{} : view(b); }
  /// y = 1 / sqrt(y + epsilon).
  void inverse_root(out y, double epsilon) {
    if (y.empty()) return;
    run<TESSERA_ACLNN(InplaceAdds)>(view(y), number(static_cast<float>(epsilon)), number(1.0f));
    run<TESSERA_ACLNN(InplaceSqrt)>(view(y));
    run<TESSERA_ACLNN(Reciprocal)>(view(y), view(y));
  }
  /// Calls `with(to)` to write y, elsewhere first where an input lies there: only flat operators are known to allow it.
  template <int Rank, storage_order Order, class With>
  void apart(bool in_place, block<float, Rank, Order> y, With with) {
    if (!in_place) return with(view(y));
    const auto elsewhere = scratch(y.size());
    with(view(block<float, Rank, Order>{elsewhere.data, y.extents}));
    copy(in{elsewhere.data, {{y.size()}}}, out{y.data, {{y.size()}}});
  }
};

}  // namespace tessera::detail::ascend_kernels
