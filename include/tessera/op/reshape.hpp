#pragma once

#include <tessera/op/rules.hpp>

#include <utility>

namespace tessera {

/// In `op::reshape`: the next `In` dimensions become `Out` dimensions, in row-major order. `regroup<1, 2>` splits one,
/// `regroup<2, 1>` merges two, `regroup<0, 1>` adds one of extent 1.
template <int In, int Out>
struct regroup {
  static_assert(In >= 0 && Out >= 0, "tessera: regroup takes numbers of dimensions, 0 or more; correct them");
};
/// In `op::reshape`: the next `Count` dimensions stay as they are.
template <int Count = 1>
struct keep_dims {
  static_assert(Count >= 0, "tessera: keep_dims takes a number of dimensions, 0 or more; correct it");
};

namespace detail {

/// The groups of a reshape, as values: how many dimensions each takes and gives.
struct dim_groups {
  struct group {
    int in = 0;
    int out = 0;
  };
  group groups[2 * max_rank] = {};
  int count = 0;

  constexpr void add(int in, int out) { groups[count++] = {in, out}; }
  constexpr int in() const {
    int n = 0;
    for (int g = 0; g < count; ++g) n += groups[g].in;
    return n;
  }
  constexpr int out() const {
    int n = 0;
    for (int g = 0; g < count; ++g) n += groups[g].out;
    return n;
  }
  /// Whether a cut of an input dimension goes over to the result: that of the first dimension of its group does.
  constexpr bool passes_cut(int dim) const {
    for (int g = 0; g < count; ++g) {
      if (dim < groups[g].in) return dim == 0 && groups[g].out > 0;
      dim -= groups[g].in;
    }
    return false;
  }
  constexpr dim_groups inverse() const {
    dim_groups r;
    for (int g = 0; g < count; ++g) r.add(groups[g].out, groups[g].in);
    return r;
  }
};

template <int In, int Out>
constexpr void append_group(dim_groups& all, regroup<In, Out>) {
  all.add(In, Out);
}
template <int Count>
constexpr void append_group(dim_groups& all, keep_dims<Count>) {
  for (int i = 0; i < Count; ++i) all.add(1, 1);
}
/// The groups that words say; without words all dimensions are one.
template <class... Words>
constexpr dim_groups groups_of(int from, int to) {
  dim_groups all;
  (append_group(all, Words{}), ...);
  if (sizeof...(Words) == 0) all.add(from, to);
  return all;
}

/// Index rules of regrouping dimensions: the first dimension of a group hands its letter on. `multiples`, for layers:
/// where not 0, the only numbers of parts that a dimension may be cut into divide it.
constexpr index_rules reshape_rules(dim_groups const& all, std::array<index_t, max_rank> const& multiples = {}) {
  index_rules r("", {}, linearity::each);
  constexpr std::string_view letters = "nchwde";
  constexpr std::string_view words[] = {"batch", "channels", "height", "width", "dim4", "dim5"};
  const int rank = all.in();
  for (int d = 0; d < rank; ++d) r.text[r.length++] = letters[static_cast<std::size_t>(d)];
  r.text[r.length++] = '-';
  r.text[r.length++] = '>';
  char fresh = 'p';
  int dim = 0;
  for (int g = 0; g < all.count; ++g) {
    const auto [in, out] = all.groups[g];
    for (int o = 0; o < out; ++o) r.text[r.length++] = o == 0 && in > 0 ? r.text[dim] : fresh++;
    if (in > 0 && out > 0)
      r.cuts[r.count++] = {r.text[dim], words[dim], true, false, multiples[static_cast<std::size_t>(dim)]};
    dim += in;
  }
  return r;
}

template <class Groups>
struct reshape_op {
  static constexpr index_rules rules = reshape_rules(Groups::value);
};

/// Fails with the number of the dimension in its name.
template <int Dimension, bool Fits>
struct reshape_of_cut_dimension {
  static_assert(Fits,
                "tessera: reshape keeps the cut of a dimension only where it is the first of its group: gather the "
                "dimension named here first, with x | tessera::to<...>, or regroup so that it comes first");
};
template <class Groups, sharded_tensor X>
constexpr void check_reshaped_cuts() {
  []<int... Dims>(std::integer_sequence<int, Dims...>) {
    (static_cast<void>(sizeof(reshape_of_cut_dimension < Dims,
                              X::placements.shard_axes(Dims) == 0 || Groups::value.passes_cut(Dims) >)),
     ...);
  }
  (std::make_integer_sequence<int, X::rank>{});
}

/// The extents asked for, with those that are `dynamic` (one a group) filled in; throws where sizes differ.
template <int From, int To>
shape<To> resolved_extents(dim_groups const& all, shape<From> const& from, shape<To> to) {
  int in = 0;
  int out = 0;
  for (int g = 0; g < all.count; ++g) {
    index_t size = 1;
    for (int i = 0; i < all.groups[g].in; ++i) size *= from[in + i];
    index_t known = 1;
    int open = -1;
    bool fits = true;
    for (int o = out; o < out + all.groups[g].out; ++o) {
      if (to[o] != dynamic) {
        fits = fits && to[o] >= 0;
        known *= to[o];
      } else {
        fits = fits && open < 0;
        open = o;
      }
    }
    if (open >= 0 && fits && known > 0 && size % known == 0) to[open] = size / known;
    if (!fits || (open >= 0 && to[open] == dynamic) || (open < 0 && known != size))
      throw error("reshape of " + to_string(from) + " to " + to_string(to) +
                      ", which differ in the group of dimension " + std::to_string(in),
                  "as many elements in each group, and at most one extent a group that is left open",
                  "correct the extents, or the groups in regroup<...> and keep_dims<...>");
    in += all.groups[g].in;
    out += all.groups[g].out;
  }
  return to;
}

/// Throws where a dimension is cut, the rest of its group changes, and the parts do not come out even on both sides.
template <sharded_tensor X, int To>
void require_even_parts(dim_groups const& all, shape<X::rank> const& from, shape<To> const& to, char const* what) {
  int in = 0;
  int out = 0;
  for (int g = 0; g < all.count; in += all.groups[g].in, out += all.groups[g].out, ++g) {
    if (all.groups[g].in == 0 || all.groups[g].out == 0) continue;
    const int parts = X::mesh::group_size(X::placements.shard_axes(in));
    index_t inner_from = 1;
    index_t inner_to = 1;
    for (int i = 1; i < all.groups[g].in; ++i) inner_from *= from[in + i];
    for (int o = 1; o < all.groups[g].out; ++o) inner_to *= to[out + o];
    if (inner_from == inner_to || (from[in] % parts == 0 && to[out] % parts == 0)) continue;
    throw error(std::string(what) + " of dimension " + std::to_string(in) + " of extent " + std::to_string(from[in]) +
                    " cut into " + std::to_string(parts) + " parts, to dimension " + std::to_string(out) +
                    " of extent " + std::to_string(to[out]),
                "extents that divide evenly", "gather the dimension first with x | tessera::to<...>");
  }
}

/// Whether `reshaped_block` leaves the elements where they are.
template <storage_order Order, int From, int To>
constexpr bool reshape_shares_block(shape<From> const& from, shape<To> const& to) {
  constexpr bool images_in = From == 4 && Order == storage_order::channels_last;
  constexpr bool images_out = To == 4 && Order == storage_order::channels_last;
  const auto row_major = [](auto const& s) { return s[1] == 1 || s[2] * s[3] == 1; };
  if constexpr (images_in && images_out) {
    return from == to || (row_major(from) && row_major(to));
  } else if constexpr (images_in) {
    return row_major(from);
  } else if constexpr (images_out) {
    return row_major(to);
  } else {
    return true;
  }
}

/// A block with other extents and the same elements in logical row-major order: the same memory where images (channels
/// last) are not involved or lie alike, else a copy.
template <class Kernels, class T, int From, int To, class Memory, storage_order Order>
auto reshaped_block(Kernels& kernels, tensor<T, From, Memory, Order> const& x, shape<To> const& to) {
  using result = tensor<T, To, Memory, Order>;
  constexpr bool images_in = From == 4 && Order == storage_order::channels_last;
  constexpr bool images_out = To == 4 && Order == storage_order::channels_last;
  const auto rows_of = [](shape<4> const& s) { return shape<2>{{s[0], s[1] * s[2] * s[3]}}; };
  if (reshape_shares_block<Order>(x.extents(), to)) return x.reshaped(to);
  if constexpr (images_in && images_out) {
    const tensor<T, 2, Memory, Order> rows = reshaped_block(kernels, x, rows_of(x.extents()));
    return reshaped_block(kernels, rows, to);
  } else if constexpr (images_in) {
    result y(to);
    kernels.flatten(x.read(), reinterpret_shape(y.view(), rows_of(x.extents())));
    return y;
  } else if constexpr (images_out) {
    result y(to);
    kernels.unflatten(reinterpret_shape(x.read(), rows_of(to)), y.view());
    return y;
  } else {
    return x.reshaped(to);
  }
}

/// A tensor with its dimensions regrouped; `Result` is its type.
template <class Result, sharded_tensor X>
Result reshaped_as(X const& x, shape<Result::rank> const& extents) {
  const auto part = local_box<typename X::mesh>(Result::placements, extents, x.where().coordinates());
  return {x.where(), extents, reshaped_block(x.where().kernels(), x.local(), part.extents())};
}

template <class Groups, sharded_tensor X, int To>
auto regrouped(X const& x, shape<To> const& extents, char const* what) {
  require_even_parts<X>(Groups::value, x.extents(), extents, what);
  return reshaped_as<tessera::result_of<reshape_op<Groups>, To, X>>(x, extents);
}

template <int From, int To, class... Words>
struct word_groups {
  static constexpr dim_groups value = groups_of<Words...>(From, To);
};
template <class Groups>
struct inverse_groups {
  static constexpr dim_groups value = Groups::value.inverse();
};

template <class Groups, sharded_tensor X, int To>
auto checked_reshape(X const& x, shape<To> const& wanted) {
  static_assert(Groups::value.in() == X::rank && Groups::value.out() == To,
                "tessera: the groups of reshape have another number of dimensions than the tensor and the extents: let "
                "regroup<In, Out> and keep_dims<Count> add up to both");
  check_reshaped_cuts<Groups, X>();
  return regrouped<Groups>(x, resolved_extents(Groups::value, x.extents(), wanted), "reshape");
}

}  // namespace detail

namespace op {

/// The same elements, in logical row-major order, with other extents. The words say which dimensions of x become which
/// of the result, in order: `reshape<keep_dims<2>, regroup<1, 2>>(x, {{n, s, heads, dynamic}})` splits the last of
/// three dimensions. Without words all dimensions are one group. One extent of each group may be `dynamic`.
///
/// Splits: the first dimension of each group may be cut, and then the first of that group in the result is, alike; a
/// cut of another dimension does not compile. Where the rest of the group changes, the parts must be even on both sides
/// (throws otherwise). Linear, so x may be partial. No collectives; the result shares the block of x where the memory
/// order allows, that is unless one of the two has images of more than one channel and pixel.
template <class... Words, sharded_tensor X, int To>
auto reshape(X const& x, shape<To> const& extents) {
  return detail::checked_reshape<detail::word_groups<X::rank, To, Words...>>(x, extents);
}

/// Gradient of `reshape` with the same words: dy with the extents of its input.
template <class... Words, sharded_tensor Dy, int To>
auto reshape_backward(Dy const& dy, shape<To> const& extents) {
  return detail::checked_reshape<detail::inverse_groups<detail::word_groups<To, Dy::rank, Words...>>>(dy, extents);
}

}  // namespace op

}  // namespace tessera
