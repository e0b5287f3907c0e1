#pragma once

#include <tessera/backend/ascend/normalization_members.hpp>
#include <tessera/backend/eigen/dropout.hpp>
#include <tessera/backend/eigen/embedding.hpp>
#include <tessera/core/random.hpp>

#include <aclnnop/aclnn_embedding_dense_backward.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera::detail::ascend_kernels {

/// Embeddings and dropout.
class embedding_members : public normalization_members {
 public:
  using normalization_members::normalization_members;

  index_t first_bad_index(indices all, index_t count) {
    const auto values = on_host(all.data, all.size());
    return eigen_kernels::first_bad_index({values.data(), all.extents}, count);
  }
  /// y [places, features]: the row of `weight` that each index names. `weight` has the rows from `first` on; an index
  /// of another row gives zeros.
  void embedding_forward(indices all, matrix weight, index_t first, matrix_out y) {
    if (y.empty()) return;
    if (weight.empty()) return fill_with(y.data, y.size(), 0);
    const auto mine = indices_within(all, first, weight.extents[0]);
    run<TESSERA_ACLNN(GatherV2)>(view(weight), index_t{0}, view(mine.rows.data, {all.size()}), view(y));
    fill_where(view(y), view(mine.elsewhere.data, {all.size(), 1}), 0);
  }
  /// dweight: for each row from `first` on the sum of dy over the places that name it; 0 for `padding`. Where aclnn is
  /// not told to be deterministic, the order of the sums may differ from run to run.
  void embedding_backward(indices all, matrix dy, index_t first, std::int64_t padding, matrix_out dweight) {
    if (dweight.empty()) return;
    if (dy.empty()) return fill_with(dweight.data, dweight.size(), 0);
    const index_t count = all.size();
    const auto mine = indices_within(all, first, dweight.extents[0]);
    const auto skipped = equal_to(all, padding);
    // What is not wanted is added to the first row as zeros.
    const auto wanted = scratch(dy.size());
    const matrix_out d{wanted.data, dy.extents};
    copy(in{dy.data, {{dy.size()}}}, out{wanted.data, {{dy.size()}}});
    fill_where(view(d), view(mine.elsewhere.data, {count, 1}), 0);
    fill_where(view(d), view(skipped.data, {count, 1}), 0);
    constexpr auto no_padding = static_cast<std::uint64_t>(-1);
    run<TESSERA_ACLNN(EmbeddingDenseBackward)>(view(d), view(mine.rows.data, {count}),
                                               static_cast<std::uint64_t>(dweight.extents[0]), no_padding, false,
                                               view(dweight));
  }
  /// y = x / keep with probability `keep`, else 0. Which elements are kept depends on `draw` and their numbers as
  /// everywhere, which no generator of aclnn gives: the host draws, and the device gets a byte for each element.
  void dropout(in x, philox const& draw, index_t first, double keep, out y) {
    if (y.empty()) return;
    constexpr index_t most = index_t{1} << 20;
    const index_t some = std::min(most, x.size());
    const std::vector<float> ones(static_cast<std::size_t>(some), 1.0f);
    std::vector<float> drawn(ones.size());
    std::vector<std::uint8_t> bytes(ones.size());
    const auto kept = scratch<bool>(some);
    const auto zero = scratch(1);
    fill_with(zero.data, 1, 0);
    scale(x, static_cast<float>(1 / keep), y);
    for (index_t at = 0; at < x.size(); at += most) {
      const index_t count = std::min(most, x.size() - at);
      eigen_kernels::dropout<float>({ones.data(), {{count}}}, draw, first + at, keep,
                                    block<float, 1>{drawn.data(), {{count}}});
      std::transform(drawn.begin(), drawn.begin() + count, bytes.begin(),
                     [](float value) { return static_cast<std::uint8_t>(value != 0); });
      upload(bytes.data(), reinterpret_cast<std::uint8_t*>(kept.data), count);
      const auto part = view(y.data + at, {count});
      run<TESSERA_ACLNN(SWhere)>(view(kept.data, {count}), part, view(zero.data, {1}), part);
    }
  }
};

}  // namespace tessera::detail::ascend_kernels
