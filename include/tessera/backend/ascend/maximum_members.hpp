#pragma once

#include <tessera/backend/ascend/attention_members.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <span>

namespace tessera::detail::ascend_kernels {

/// Where maxima over dimensions are, and their gradients: comparisons of the numbers and places of all elements, which
/// are made for each call.
class maximum_members : public attention_members {
 public:
  using attention_members::attention_members;
  using numbers6 = block<std::int64_t, 6>;
  using read_numbers6 = block<std::int64_t const, 6>;

  /// For each maximum in y, which may be over more blocks than x: `at`, the number of the first element of x that
  /// equals it (NaN equals NaN), -1 where there is none; `rank`, minus its place, which is `first` plus the sum of
  /// `weights` times its indices, the least number where there is none.
  void first_maximum(in6 x, in6 y, std::array<index_t, 6> const& weights, index_t first, numbers6 at, numbers6 rank) {
    constexpr auto nowhere = std::numeric_limits<std::int64_t>::min();
    if (at.empty()) return;
    if (x.empty()) {
      fill_with(at.data, at.size(), -1);
      return fill_with(rank.data, rank.size(), nowhere);
    }
    const auto made = scratch<std::int64_t>(3 * x.size() + 2);
    const auto truths = scratch<bool>(2 * x.size() + y.size());
    const auto of_x = [&](auto* data) { return view(data, std::span<index_t const>(x.extents.extents)); };
    std::int64_t* const constants = made.data + 3 * x.size();
    fill_with(constants, 1, nowhere);
    fill_with(constants + 1, 1, -1);
    const auto least = view(constants, {1});
    const auto none = view(constants + 1, {1});
    const auto places = of_x(made.data);
    const auto candidates = of_x(made.data + x.size());
    const auto found = of_x(made.data + 2 * x.size());
    const auto equal = of_x(truths.data);
    const auto is_number = of_x(truths.data + x.size());
    const auto is_number_in_y = view(truths.data + 2 * x.size(), std::span<index_t const>(y.extents.extents));
    places_of(x.extents, weights, first, made.data);
    run<TESSERA_ACLNN(EqTensor)>(view(x), view(y), equal);
    run<TESSERA_ACLNN(EqTensor)>(view(x), view(x), is_number);
    run<TESSERA_ACLNN(EqTensor)>(view(y), view(y), is_number_in_y);
    run<TESSERA_ACLNN(SWhere)>(is_number_in_y, least, places, candidates);
    run<TESSERA_ACLNN(SWhere)>(is_number, least, candidates, candidates);
    run<TESSERA_ACLNN(SWhere)>(equal, places, candidates, candidates);
    largest(made.data + x.size(), x.extents, rank);
    number_elements(x.extents, made.data);
    run<TESSERA_ACLNN(EqTensor)>(candidates, view(rank), equal);
    run<TESSERA_ACLNN(SWhere)>(equal, places, none, found);
    run<TESSERA_ACLNN(EqScalar)>(candidates, number(nowhere), equal);
    run<TESSERA_ACLNN(SWhere)>(equal, none, found, found);
    largest(made.data + 2 * x.size(), x.extents, at);
  }
  /// dx = dy at the elements numbered `at` where `rank` equals `first_rank`, the largest of all blocks; 0 elsewhere.
  void max_backward(in6 dy, read_numbers6 at, read_numbers6 rank, read_numbers6 first_rank, out6 dx) {
    if (dx.empty()) return;
    if (dy.empty()) return fill_with(dx.data, dx.size(), 0);
    const auto made = scratch<std::int64_t>(dx.size() + at.size() + 1);
    const auto zero = scratch(1);
    const auto truths = scratch<bool>(dx.size());
    std::int64_t* const elements = made.data + dx.size();
    fill_with(elements + at.size(), 1, -1);
    fill_with(zero.data, 1, 0);
    const auto of_y = [&](auto* data) { return view(data, std::span<index_t const>(dy.extents.extents)); };
    const auto is_first = of_y(truths.data);
    run<TESSERA_ACLNN(EqTensor)>(view(rank), view(first_rank), is_first);
    run<TESSERA_ACLNN(SWhere)>(is_first, view(at), view(elements + at.size(), {1}), of_y(elements));
    number_elements(dx.extents, made.data);
    const auto of_x = [&](auto* data) { return view(data, std::span<index_t const>(dx.extents.extents)); };
    run<TESSERA_ACLNN(EqTensor)>(of_x(made.data), of_y(elements), of_x(truths.data));
    run<TESSERA_ACLNN(SWhere)>(of_x(truths.data), view(dy), view(zero.data, {1}), view(dx));
  }

 private:
  /// Minus the place of each element.
  void places_of(shape<6> const& extents, std::array<index_t, 6> const& weights, index_t first, std::int64_t* places) {
    fill_with(places, extents.size(), -first);
    for (int d = 0; d < 6; ++d) {
      const index_t weight = weights[static_cast<std::size_t>(d)];
      if (weight == 0 || extents[d] == 1) continue;
      const auto indices = scratch<std::int64_t>(extents[d]);
      number_elements({{1, 1, 1, 1, 1, extents[d]}}, indices.data);
      shape<6> along{{1, 1, 1, 1, 1, 1}};
      along[d] = extents[d];
      run<TESSERA_ACLNN(InplaceAdd)>(view(places, std::span<index_t const>(extents.extents)),
                                     view(indices.data, std::span<index_t const>(along.extents)), number(-weight));
    }
  }
  void number_elements(shape<6> const& extents, std::int64_t* numbered) {
    run<TESSERA_ACLNN(Arange)>(number(index_t{0}), number(extents.size()), number(index_t{1}),
                               view(numbered, {extents.size()}));
  }
  /// The largest of x over the dimensions in which y has the extent 1.
  void largest(std::int64_t const* x, shape<6> const& extents, numbers6 y) {
    std::array<index_t, 6> dims{};
    std::size_t count = 0;
    for (int d = 0; d < 6; ++d)
      if (y.extents[d] == 1 && extents[d] != 1) dims[count++] = d;
    if (count == 0)
      return copy(block<std::int64_t const, 1>{x, {{y.size()}}}, block<std::int64_t, 1>{y.data, {{y.size()}}});
    run<TESSERA_ACLNN(Amax)>(view(x, std::span<index_t const>(extents.extents)),
                             integers(std::span<index_t const>(dims.data(), count)), true, view(y));
  }
};

}  // namespace tessera::detail::ascend_kernels
