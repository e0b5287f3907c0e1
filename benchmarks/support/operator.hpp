#pragma once

#include "program.hpp"

#include <tuple>
#include <utility>

namespace comparison {

/// The results of an operator by hand: one array for each of the library's, of the same size.
using arrays = std::vector<array>;

template <ts::sharded_tensor X>
Eigen::Map<array const> flat(X const& x) {
  return {x.read().data, x.read().size()};
}
/// A result by hand as a matrix with so many columns.
inline matrix_map as_matrix(array& a, ts::index_t columns) { return {a.data(), a.size() / columns, columns}; }
/// A result by hand in the shape of a tensor's block.
template <ts::sharded_tensor X>
matrix_map shaped_as(X const& x, array& a) {
  return as_matrix(a, map(x).cols());
}

/// Adds the rows of a matrix up, neighbours in memory at a time.
inline void add_rows(const_matrix_map const& x, array& sums) {
  sums.setZero();
  for (ts::index_t r = 0; r < x.rows(); ++r) sums += x.row(r).transpose().array();
}

namespace detail {

template <ts::sharded_tensor X>
std::vector<std::span<float const>> blocks_of(X const& x) {
  return {values(x)};
}
template <class... Xs>
std::vector<std::span<float const>> blocks_of(std::tuple<Xs...> const& all) {
  return std::apply([](auto const&... x) { return results{values(x)...}; }, all);
}

}  // namespace detail

/// Registers an operator beside the same work by hand.
///
/// `prepare()` is a tuple of operands; `ours(operands...)` returns a tensor or a tuple of tensors, for which memory is
/// taken in each run; `by_hand(arrays&, operands...)` fills arrays that are there already.
template <class Prepare, class Ours, class ByHand>
void add_operator(std::string const& name, Prepare prepare, Ours ours, ByHand by_hand, double tolerance = 1e-4) {
  add(
      name,
      [=] {
        using operands = decltype(prepare());
        struct memory {
          operands in;
          decltype(std::apply(ours, std::declval<operands const&>())) out;
          arrays hand;
        };
        operands in = prepare();
        auto out = std::apply(ours, std::as_const(in));
        const auto m = std::make_shared<memory>(memory{std::move(in), std::move(out), {}});
        for (auto const& block : detail::blocks_of(m->out))
          m->hand.emplace_back(static_cast<Eigen::Index>(block.size()));
        return std::vector<way>{{"ours",
                                 [=] {
                                   m->out = {};
                                   m->out = std::apply(ours, std::as_const(m->in));
                                   return detail::blocks_of(m->out);
                                 }},
                                {"by_hand", [=] {
                                   std::apply([&](auto const&... x) { by_hand(m->hand, x...); }, m->in);
                                   results all;
                                   for (array const& a : m->hand)
                                     all.emplace_back(a.data(), static_cast<std::size_t>(a.size()));
                                   return all;
                                 }}};
      },
      tolerance);
}

}  // namespace comparison
