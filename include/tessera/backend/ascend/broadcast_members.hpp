#pragma once

#include <tessera/backend/ascend/elementwise_members.hpp>

#include <aclnnop/aclnn_amax.h>
#include <aclnnop/aclnn_permute.h>
#include <aclnnop/aclnn_reduce_sum.h>

#include <array>
#include <limits>
#include <span>

namespace tessera::detail::ascend_kernels {

/// Blocks of six dimensions in memory order; those of extent 1 are repeated to the extents of the result.
class broadcast_members : public elementwise_members {
 public:
  using elementwise_members::elementwise_members;
  using in6 = block<float const, 6>;
  using out6 = block<float, 6>;

  void add_broadcast(in6 a, in6 b, out6 y) {
    if (!y.empty()) run<TESSERA_ACLNN(Add)>(repeated(a, y), repeated(b, y), number(1.0f), view(y));
  }
  void sub_broadcast(in6 a, in6 b, out6 y) {
    if (!y.empty()) run<TESSERA_ACLNN(Sub)>(repeated(a, y), repeated(b, y), number(1.0f), view(y));
  }
  void mul_broadcast(in6 a, in6 b, out6 y) {
    if (!y.empty()) run<TESSERA_ACLNN(Mul)>(repeated(a, y), repeated(b, y), view(y));
  }
  void div_broadcast(in6 a, in6 b, out6 y) {
    if (!y.empty()) run<TESSERA_ACLNN(Div)>(repeated(a, y), repeated(b, y), view(y));
  }
  /// y = sum of x over the dimensions in which y has the extent 1.
  void sum_broadcast(in6 x, out6 y) {
    reduce(x, y, 0.0f, [&](auto const& from, auto const& dims, auto const& to) {
      run<TESSERA_ACLNN(ReduceSum)>(from, dims, true, ACL_FLOAT, to);
    });
  }
  /// y = the largest of x over these: NaN where one is, minus infinity where there is nothing.
  void max_broadcast(in6 x, out6 y) {
    reduce(x, y, -std::numeric_limits<float>::infinity(),
           [&](auto const& from, auto const& dims, auto const& to) { run<TESSERA_ACLNN(Amax)>(from, dims, true, to); });
  }
  /// y = x with dimension `from[p]` of x as its dimension p.
  void permute(in6 x, std::array<int, 6> const& from, out6 y) {
    std::array<index_t, 6> dims{};
    for (std::size_t p = 0; p < 6; ++p) dims[p] = from[p];
    if (!y.empty()) run<TESSERA_ACLNN(Permute)>(view(x), integers(std::span<index_t const>(dims)), view(y));
  }

 private:
  /// An operand without the dimensions that are to be repeated: aclnn repeats those of extent 1 itself, but only to
  /// extents that the other operand has.
  static tensor_handle repeated(in6 x, out6 y) {
    std::array<index_t, 6> strides = strides_of<order_of_rank<6>(storage_order::row_major)>(x.extents);
    for (std::size_t d = 0; d < 6; ++d)
      if (x.extents.extents[d] == 1) strides[d] = y.extents.extents[d] == 1 ? strides[d] : 0;
    return view(x.data, std::span<index_t const>(y.extents.extents), std::span<index_t const>(strides));
  }
  template <class With>
  void reduce(in6 x, out6 y, float of_nothing, With with) {
    if (y.empty()) return;
    if (x.empty()) return fill_with(y.data, y.size(), of_nothing);
    std::array<index_t, 6> dims{};
    std::size_t count = 0;
    for (int d = 0; d < 6; ++d)
      if (y.extents[d] == 1 && x.extents[d] != 1) dims[count++] = d;
    if (count == 0) return copy(in{x.data, {{x.size()}}}, out{y.data, {{y.size()}}});
    with(view(x), integers(std::span<index_t const>(dims.data(), count)), view(y));
  }
};

}  // namespace tessera::detail::ascend_kernels
