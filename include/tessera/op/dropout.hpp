#pragma once

#include <tessera/core/random.hpp>
#include <tessera/op/elementwise.hpp>

namespace tessera {

namespace detail {

/// Calls `with(place in the block, number in the whole, elements)` for each run of a block of neighbours that are
/// neighbours in the whole tensor too, both counted in storage order.
template <storage_order Order, int Rank, class With>
void for_each_run(box<Rank> const& part, shape<Rank> const& whole, With with) {
  if (part.size() == 0) return;
  constexpr auto dims = stored_dims<Rank, Order>();
  const auto steps = strides_of<Order>(whole);
  index_t run = 1;
  int outer = Rank;  // storage positions before `outer` are walked, the rest is one run
  while (outer > 0) {
    const int d = dims[static_cast<std::size_t>(outer - 1)];
    run *= part[d].size;
    --outer;
    if (part[d].size != whole[d]) break;
  }
  for (index_t i = 0; i < part.size(); i += run) {
    index_t rest = i / run;
    index_t number = 0;
    for (int p = Rank - 1; p >= 0; --p) {
      const int d = dims[static_cast<std::size_t>(p)];
      index_t along = part[d].begin;
      if (p < outer) {
        along += rest % part[d].size;
        rest /= part[d].size;
      }
      number += along * steps[static_cast<std::size_t>(d)];
    }
    with(i, number, run);
  }
}

}  // namespace detail

namespace op {

/// x / keep with probability `keep`, else 0, element by element (N. Srivastava, G. Hinton, A. Krizhevsky, I. Sutskever
/// and R. Salakhutdinov, JMLR 15, 2014). Its own gradient: call it with dy and the same numbers.
///
/// Which elements are kept depends on `draw` and on each element's number in the whole tensor, counted in storage
/// order, so every split keeps what the serial run keeps. Take another stream of `draw` for each step and layer. Every
/// dimension may be cut; linear, so x may be a partial sum. No collectives. Throws where `keep` is not in (0, 1].
template <sharded_tensor X>
auto dropout(X const& x, double keep, philox const& draw) {
  if (!(keep > 0 && keep <= 1))
    throw error("dropout that keeps a share of " + std::to_string(keep), "a share above 0 and up to 1",
                "pass the probability that an element is kept");
  result_of<detail::elementwise_op<X::rank, 1, linearity::each>, X::rank, X> y(x.where(), x.extents());
  const auto from = x.read();
  const auto to = y.write();
  detail::for_each_run<X::context_type::backend::order>(
      x.part(), x.extents(), [&](index_t at, index_t number, index_t count) {
        using T = typename X::value_type;
        x.where().kernels().dropout(block<T const, 1>{from.data + at, {count}}, draw, number, keep,
                                    block<T, 1>{to.data + at, {count}});
      });
  return y;
}

}  // namespace op

}  // namespace tessera
