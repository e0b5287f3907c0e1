#pragma once

#include <tessera/op/rules.hpp>

namespace tessera {

namespace detail {

/// Index rules of merging dimensions `Start` to `End`; `whole` is the extent of the first of them where a cut of it
/// must come out even, else 0.
constexpr index_rules flatten_rules(int rank, int start, int end, index_t whole) {
  index_rules r("", {}, linearity::each);
  constexpr std::string_view letters = "nchwde";
  constexpr std::string_view words[] = {"batch", "channels", "height", "width", "dim4", "dim5"};
  for (int d = 0; d < rank; ++d) {
    r.text[r.length++] = letters[static_cast<std::size_t>(d)];
    if (d <= start || d > end)
      r.cuts[r.count++] = {letters[static_cast<std::size_t>(d)], words[d], true, false, d == start ? whole : 0};
  }
  r.text[r.length++] = '-';
  r.text[r.length++] = '>';
  for (int d = 0; d < rank; ++d)
    if (d <= start || d > end) r.text[r.length++] = letters[static_cast<std::size_t>(d)];
  return r;
}

template <int Rank, int Start, int End>
struct flatten_op {
  static constexpr index_rules rules = flatten_rules(Rank, Start, End, 0);
};

/// Copies a block into one of another shape with the same elements in logical row-major order.
template <class T, int From, int To, class Memory, storage_order Order, class Kernels>
void reshape_block(Kernels& kernels, tensor<T, From, Memory, Order> const& x, tensor<T, To, Memory, Order>& y) {
  constexpr bool images_in = From == 4 && Order == storage_order::channels_last;
  constexpr bool images_out = To == 4 && Order == storage_order::channels_last;
  const auto rows_of = [](shape<4> const& s) { return shape<2>{{s[0], s[1] * s[2] * s[3]}}; };
  if constexpr (images_in && !images_out)
    kernels.flatten(x.read(), reinterpret_shape(y.view(), rows_of(x.extents())));
  else if constexpr (!images_in && images_out)
    kernels.unflatten(reinterpret_shape(x.read(), rows_of(y.extents())), y.view());
  else
    std::copy(x.read().begin(), x.read().end(), y.view().begin());
}

}  // namespace detail

namespace op {

/// Merges dimensions `Start` to `End` (-1: the last) into one, in logical row-major order.
///
/// Splits: every dimension but those after `Start` inside the range; a cut of `Start` itself must be even unless the
/// others have extent 1 (throws otherwise). Linear, so x may be partial. No collectives.
template <int Start = 1, int End = -1, sharded_tensor X>
auto flatten(X const& x) {
  constexpr int end = End < 0 ? X::rank + End : End;
  static_assert(0 <= Start && Start <= end && end < X::rank,
                "tessera: flatten merges dimensions from Start to End; name dimensions that the tensor has");
  constexpr int rank = X::rank - (end - Start);
  shape<rank> extents;
  index_t inner = 1;
  for (int d = 0; d < X::rank; ++d) {
    if (d > Start && d <= end) {
      extents[Start] *= x.extent(d);
      inner *= x.extent(d);
    } else {
      extents[d <= Start ? d : d - (end - Start)] = x.extent(d);
    }
  }
  constexpr int parts = X::mesh::group_size(X::placements.shard_axes(Start));
  if (inner != 1 && x.extent(Start) % parts != 0)
    throw error("flatten of dimension " + std::to_string(Start) + " of extent " + std::to_string(x.extent(Start)) +
                    " cut into " + std::to_string(parts) + " parts",
                "an extent that divides evenly", "gather the dimension first with x | tessera::to<...>");
  result_of<detail::flatten_op<X::rank, Start, end>, rank, X> y(x.where(), extents);
  detail::reshape_block(x.where().kernels(), x.local(), y.local());
  return y;
}

/// Gradient of `flatten`: dy with the extents and dimensions of the input. `Dx` is the input's type.
template <sharded_tensor Dx, sharded_tensor Dy>
Dx flatten_backward(Dy const& dy, shape<Dx::rank> const& extents) {
  static_assert(Dx::placements.partial_axes() == Dy::placements.partial_axes(),
                "tessera: flatten needs the gradient partial along the axes that its input's gradient is partial "
                "along; redistribute it first");
  Dx dx(dy.where(), extents);
  detail::require_extent(dx.local().size(), dy.local().size(), "size of this rank's block of the input of flatten");
  detail::reshape_block(dy.where().kernels(), dy.local(), dx.local());
  return dx;
}

}  // namespace op

}  // namespace tessera
