#pragma once

#include "support/golden_worlds.hpp"

#include <tessera/op/softmax.hpp>

struct softmax_functions {
  template <int Dim, class X>
  static auto forward(X const& x) {
    return tessera::op::softmax<Dim>(x);
  }
  template <int Dim, class Y>
  static auto backward(Y const& y, Y const& dy) {
    return tessera::op::softmax_backward<Dim>(y, dy);
  }
};

struct log_softmax_functions {
  template <int Dim, class X>
  static auto forward(X const& x) {
    return tessera::op::log_softmax<Dim>(x);
  }
  template <int Dim, class Y>
  static auto backward(Y const& y, Y const& dy) {
    return tessera::op::log_softmax_backward<Dim>(y, dy);
  }
};

/// `Functions` along dimension `Dim` of tensors whose dimensions have the letters `Dims`.
template <class Functions, int Dim, char... Dims>
struct softmax_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    constexpr int rank = static_cast<int>(sizeof...(Dims));
    using layout = typename Cuts::template of<Dims...>;
    const auto y = Functions::template forward<Dim>(golden::put<T, rank, layout>(team, t["x"]));
    golden::expect(t, "out", y);
    const auto dy = golden::put<T, rank, layout>(team, t["grad_out"]);
    golden::expect(t, "grad_x", Functions::template backward<Dim>(y, dy));
  }
};

/// Runs a case of an operator along one dimension. Every dimension may be cut; of rank 4 the first and that one are.
template <class Functions>
bool run_softmax(golden::teams& all, golden::test_case const& c) {
  const int rank = static_cast<int>(c["x"].extents.size());
  const int given = static_cast<int>(c.given.number("dim"));
  switch (10 * rank + (given < 0 ? rank + given : given)) {
    case 10: return golden::run_cuts<softmax_case<Functions, 0, 'a'>, 'a'>(all, c);
    case 20: return golden::run_cuts<softmax_case<Functions, 0, 'a', 'b'>, 'a', 'b'>(all, c);
    case 21: return golden::run_cuts<softmax_case<Functions, 1, 'a', 'b'>, 'a', 'b'>(all, c);
    case 30: return golden::run_cuts<softmax_case<Functions, 0, 'a', 'b', 'c'>, 'a', 'b', 'c'>(all, c);
    case 31: return golden::run_cuts<softmax_case<Functions, 1, 'a', 'b', 'c'>, 'a', 'b', 'c'>(all, c);
    case 32: return golden::run_cuts<softmax_case<Functions, 2, 'a', 'b', 'c'>, 'a', 'b', 'c'>(all, c);
    case 41: return golden::run_cuts<softmax_case<Functions, 1, 'a', 'b', 'c', 'd'>, 'a', 'b'>(all, c);
    case 43: return golden::run_cuts<softmax_case<Functions, 3, 'a', 'b', 'c', 'd'>, 'a', 'd'>(all, c);
    default: return false;
  }
}
