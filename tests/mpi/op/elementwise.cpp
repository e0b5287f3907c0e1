#include "on_ranks.hpp"

#include "support/finite_differences.hpp"

#include <tessera/op/activation.hpp>
#include <tessera/op/broadcast.hpp>
#include <tessera/op/elementwise.hpp>

namespace {

using namespace on_ranks;
using finite_differences::weighted_sum;
using on_ranks::index_t;

// Five rows on up to four ranks: uneven; three columns on four: one rank has none.
constexpr shape<2> extents{{5, 3}};

/// Positive values, for logarithms and divisors.
template <int Rank>
tensor<double, Rank> positive(shape<Rank> const& s, std::uint64_t stream) {
  auto t = worlds::values<double>(s, stream);
  for (double& v : t.view()) v = 1.5 + v;
  return t;
}

template <class Layout, class Team, class Forward, class Backward>
void check_function(Team& team, tensor<double, 2> const& x, Forward forward, Backward backward) {
  const auto dy = worlds::values<double>(extents, 7);
  const auto here = distribute<Layout>(team, x);
  const auto dx = backward(here, forward(here), distribute<Layout>(team, dy));
  finite_differences::check([&](auto const& at) { return weighted_sum(forward(distribute<Layout>(team, at)), dy); }, x,
                            gather(dx));
}

template <class Layout, class Team>
void check_functions(Team& team) {
  const auto x = worlds::values<double>(extents, 1);
  const auto check = [&](auto const& at, auto forward, auto backward) {
    check_function<Layout>(team, at, forward, backward);
  };
  check(
      x, [](auto const& v) { return op::gelu(v); },
      [](auto const& v, auto const&, auto const& dy) { return op::gelu_backward(v, dy); });
  check(
      x, [](auto const& v) { return op::gelu<gelu_form::tanh_approximation>(v); },
      [](auto const& v, auto const&, auto const& dy) {
        return op::gelu_backward<gelu_form::tanh_approximation>(v, dy);
      });
  check(
      x, [](auto const& v) { return op::silu(v); },
      [](auto const& v, auto const&, auto const& dy) { return op::silu_backward(v, dy); });
  check(
      x, [](auto const& v) { return op::sigmoid(v); },
      [](auto const&, auto const& y, auto const& dy) { return op::sigmoid_backward(y, dy); });
  check(
      x, [](auto const& v) { return op::tanh(v); },
      [](auto const&, auto const& y, auto const& dy) { return op::tanh_backward(y, dy); });
  check(
      x, [](auto const& v) { return op::exp(v); },
      [](auto const&, auto const& y, auto const& dy) { return op::exp_backward(y, dy); });
  check(
      positive(extents, 1), [](auto const& v) { return op::log(v); },
      [](auto const& v, auto const&, auto const& dy) { return op::log_backward(v, dy); });
}

/// A value that is partial over all ranks, with the sum `values`.
template <int Size, class Team, class T, int Rank>
auto partial_of(Team& team, tensor<T, Rank> const& values) {
  sharded<T, Rank, partial<all<Size>>, Team> x(team, values.extents());
  const double share = (team.rank() + 1) / (Size * (Size + 1) / 2.0);
  for (index_t i = 0; i < values.size(); ++i) x.local().data()[i] = static_cast<T>(share) * values.data()[i];
  return x;
}

}  // namespace

TEST_CASE("gradients of functions of each element are those of finite differences, however cut") {
  run([]<int N>(auto& team) {
    check_functions<row<all<N>>>(team);
    check_functions<column<all<N>>>(team);
  });
}

TEST_CASE("gradients of differences and quotients are compositions") {
  run([]<int N>(auto& team) {
    using layout = row<all<N>>;
    const auto a = worlds::values<double>(extents, 1);
    const auto b = positive(extents, 2);
    const auto dy = worlds::values<double>(extents, 3);
    const auto here_a = distribute<layout>(team, a);
    const auto here_b = distribute<layout>(team, b);
    const auto here_dy = distribute<layout>(team, dy);
    finite_differences::check([&](auto const& v) { return weighted_sum(here_a - distribute<layout>(team, v), dy); }, b,
                              gather(op::scale(here_dy, -1)));
    finite_differences::check([&](auto const& v) { return weighted_sum(distribute<layout>(team, v) / here_b, dy); }, a,
                              gather(here_dy / here_b));
    finite_differences::check([&](auto const& v) { return weighted_sum(here_a / distribute<layout>(team, v), dy); }, b,
                              gather(op::scale(here_dy / here_b * (here_a / here_b), -1)));
  });
}

TEST_CASE("differences and quotients of repeated operands") {
  run([]<int N>(auto& team) {
    const auto a = worlds::values<double>(extents, 1);
    const auto b = positive(shape<1>{{3}}, 2);
    const auto rows = distribute<row<all<N>>>(team, a);
    const auto whole = distribute<replicated>(team, b);
    const auto less = gather(rows - along<1>(whole));
    const auto shares = gather(rows / along<1>(whole));
    const auto inverse = gather(along<1>(whole) / rows);
    for (index_t r = 0; r < 5; ++r)
      for (index_t c = 0; c < 3; ++c) {
        CHECK(less(r, c) == a(r, c) - b(c));
        CHECK(shares(r, c) == a(r, c) / b(c));
        CHECK(inverse(r, c) == b(c) / a(r, c));
      }
  });
}

TEST_CASE("what is linear takes partial sums") {
  run([]<int N>(auto& team) {
    const auto x = worlds::values<double>(extents, 1);
    const auto b = positive(extents, 2);
    const auto sum = partial_of<N>(team, x);
    const auto divisor = distribute<replicated>(team, b);
    const auto less = gather(sum - partial_of<N>(team, b));
    const auto shares = gather(sum / divisor);
    const auto gradient = gather(op::gelu_backward(divisor, sum));
    const auto expected = op::gelu_backward(divisor, distribute<replicated>(team, x)).local();
    static_assert(decltype(sum / divisor)::placements.partial_axes() != 0);
    for (index_t i = 0; i < x.size(); ++i) {
      CHECK(less.data()[i] == doctest::Approx(x.data()[i] - b.data()[i]));
      CHECK(shares.data()[i] == doctest::Approx(x.data()[i] / b.data()[i]));
      CHECK(gradient.data()[i] == doctest::Approx(expected.data()[i]));
    }
  });
}

TEST_CASE("activations of split tensors have the bits of the whole ones") {
  run([]<int N>(auto& team) {
    const auto x = worlds::values<float>(shape<2>{{7, 37}}, 1);
    const auto whole = distribute<replicated>(team, x);
    CHECK(same_bits(gather(op::gelu(distribute<column<all<N>>>(team, x))), op::gelu(whole).local()));
    CHECK(same_bits(gather(op::tanh(distribute<row<all<N>>>(team, x))), op::tanh(whole).local()));
  });
}
