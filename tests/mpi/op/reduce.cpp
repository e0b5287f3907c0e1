#include "on_ranks.hpp"

#include "support/finite_differences.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/reduce.hpp>

#include <limits>

namespace {

using namespace on_ranks;
using finite_differences::weighted_sum;
using on_ranks::index_t;

// Images: channels last in memory, so that rows are not in the order of places. Some ranks have nothing of a dimension.
constexpr shape<4> images{{3, 2, 5, 4}};

/// A value of few digits, so that many are equal.
template <class T>
tensor<T, 4> coarse(std::uint64_t stream) {
  auto t = worlds::values<T>(images, stream);
  for (T& v : t.view()) v = std::round(v * 2);
  return t;
}

/// Whether a dimension is among those that are reduced.
template <int... Dims>
constexpr bool reduced(int dim) {
  return sizeof...(Dims) == 0 || ((dim == Dims) || ...);
}

/// Calls `f(element, number of its result, place among what is reduced to it)` in logical row-major order.
template <int... Dims, class F>
void walk(F f) {
  for (index_t element = 0; element < images.size(); ++element) {
    index_t rest = element;
    index_t result = 0;
    index_t place = 0;
    index_t results = 1;
    index_t places = 1;
    std::array<index_t, 4> at{};
    for (int d = 3; d >= 0; --d) {
      const index_t i = rest % images[d];
      rest /= images[d];
      at[static_cast<std::size_t>(d)] = i;
      if (reduced<Dims...>(d)) {
        place += i * places;
        places *= images[d];
      } else {
        result += i * results;
        results *= images[d];
      }
    }
    f(at, static_cast<std::size_t>(result), place);
  }
}

template <class T>
T& at(tensor<T, 4>& t, std::array<index_t, 4> const& i) {
  return t(i[0], i[1], i[2], i[3]);
}
template <class T>
T at(tensor<T, 4> const& t, std::array<index_t, 4> const& i) {
  return t(i[0], i[1], i[2], i[3]);
}

/// The layout in which backward takes the gradient of Y.
template <class Y>
using dual_layout = layout_of<typename Y::mesh, dual(Y::placements)>;

template <class Layout, int... Dims, class Team>
void check_sums(Team& team) {
  const auto x = worlds::values<double>(images, 1);
  const auto here = distribute<Layout>(team, x);
  const auto sum = op::sum<Dims...>(here);
  const auto mean = op::mean<Dims...>(here);
  const auto whole_sum = gather(sum);
  const auto whole_mean = gather(mean);
  const double count = static_cast<double>(images.size()) / static_cast<double>(whole_sum.size());
  std::vector<double> wanted(static_cast<std::size_t>(whole_sum.size()));
  walk<Dims...>([&](auto const& i, std::size_t r, index_t) { wanted[r] += at(x, i); });
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    CHECK(whole_sum.data()[r] == doctest::Approx(wanted[r]));
    CHECK(whole_mean.data()[r] == doctest::Approx(wanted[r] / count));
  }
  using y_type = std::remove_const_t<decltype(sum)>;
  const auto weights = worlds::values<double>(whole_sum.extents(), 3);
  const auto dy = distribute<dual_layout<y_type>>(team, weights);
  finite_differences::check(
      [&](auto const& v) { return weighted_sum(op::sum<Dims...>(distribute<Layout>(team, v)), weights); }, x,
      gather(op::sum_backward<Dims...>(here, dy)));
  const auto dx = gather(op::mean_backward<Dims...>(here, dy));
  walk<Dims...>(
      [&](auto const& i, std::size_t r, index_t) { CHECK(at(dx, i) == doctest::Approx(weights.data()[r] / count)); });
}

template <class Layout, int... Dims, class Team>
void check_maximum(Team& team) {
  auto x = coarse<float>(1);
  x(0, 1, 3, 2) = x(2, 1, 4, 0) = std::numeric_limits<float>::quiet_NaN();
  const auto here = distribute<Layout>(team, x);
  const auto y = op::max<Dims...>(here);
  using y_type = std::remove_const_t<decltype(y)>;
  const auto most = redistribute<dual_layout<y_type>>(y);
  const auto weights = worlds::values<float>(y.extents(), 3);
  const auto dx = gather(op::max_backward<Dims...>(here, most, distribute<dual_layout<y_type>>(team, weights)));
  const auto whole = gather(most);

  const auto count = static_cast<std::size_t>(whole.size());
  std::vector<float> wanted(count, -std::numeric_limits<float>::infinity());
  std::vector<index_t> first(count, -1);
  walk<Dims...>([&](auto const& i, std::size_t r, index_t place) {
    const float v = at(x, i);
    if (std::isnan(wanted[r]) || !(v > wanted[r] || std::isnan(v))) return;
    wanted[r] = v;
    first[r] = place;
  });
  bool right = true;
  for (std::size_t r = 0; r < count; ++r)
    right = right && (whole.data()[r] == wanted[r] || (std::isnan(whole.data()[r]) && std::isnan(wanted[r])));
  CHECK(right);
  walk<Dims...>([&](auto const& i, std::size_t r, index_t place) {
    right = right && at(dx, i) == (place == first[r] ? weights.data()[r] : 0.0f);
  });
  CHECK(right);
}

template <int N, class Team, class F>
void for_each_cut(Team& team, F f) {
  f.template operator()<shard<0, all<N>>>(team);
  f.template operator()<shard<1, all<N>>>(team);
  f.template operator()<shard<2, all<N>>>(team);
}

}  // namespace

TEST_CASE("sums and means over any dimensions, and their gradients, however cut") {
  run([]<int N>(auto& team) {
    for_each_cut<N>(team, []<class Layout>(auto& where) {
      check_sums<Layout, 1>(where);
      check_sums<Layout, 0, 2>(where);
      check_sums<Layout>(where);
    });
  });
}

TEST_CASE("a maximum sends its gradient to the first place of all, however cut") {
  run([]<int N>(auto& team) {
    for_each_cut<N>(team, []<class Layout>(auto& where) {
      check_maximum<Layout, 2>(where);
      check_maximum<Layout, 1, 3>(where);
      check_maximum<Layout, 0, 1, 2>(where);
      check_maximum<Layout>(where);
    });
  });
}

TEST_CASE("a sum of parts of a sum, and the gradient that is itself partial") {
  run([]<int N>(auto& team) {
    const auto x = worlds::values<double>(shape<2>{{4, 3}}, 1);
    sharded<double, 2, partial<all<N>>, std::remove_reference_t<decltype(team)>> parts(team, x.extents());
    for (index_t i = 0; i < x.size(); ++i) parts.local().data()[i] = (team.rank() + 1) * x.data()[i];
    const auto sums = gather(op::sum<0>(parts));
    for (index_t c = 0; c < 3; ++c)
      CHECK(sums(c) == doctest::Approx((x(0, c) + x(1, c) + x(2, c) + x(3, c)) * N * (N + 1) / 2));
    sharded<double, 1, partial<all<N>>, std::remove_reference_t<decltype(team)>> dy(team, {{3}});
    for (index_t c = 0; c < 3; ++c) dy.local()(c) = static_cast<double>(c + 1);
    const auto dx = op::sum_backward<0>(distribute<replicated>(team, x), dy);
    static_assert(decltype(dx)::placements.partial_axes() != 0);
    const auto all_dx = gather(dx);
    for (index_t r = 0; r < 4; ++r)
      for (index_t c = 0; c < 3; ++c) CHECK(all_dx(r, c) == static_cast<double>(N * (c + 1)));
    // The gradient of parts of a sum is whole: each of them counts once.
    static_assert(decltype(op::sum_backward<0>(parts, distribute<replicated>(team, sums)))::placements.partial_axes() ==
                  0);
  });
}

TEST_CASE("only the gradient of a maximum over a cut dimension sends anything") {
  const auto count = []<int N>(std::integral_constant<int, N>) {
    if (worlds::size() != N) return;
    recording<mpi_comm> log{mpi_comm{}};
    team<all_ranks<N>, recording<mpi_comm>> where{log};
    const auto x = distribute<shard<0, all<N>>>(where, coarse<float>(1));
    const auto rows = op::max<1, 2, 3>(x);
    const auto columns = op::max<0, 2, 3>(x);
    const auto most = redistribute<replicated>(columns);
    log.clear();
    CHECK(op::sum<0>(x).extents() == shape<3>{{2, 5, 4}});
    op::max_backward<1, 2, 3>(x, rows, rows);
    CHECK(log.calls().empty());
    op::max_backward<0, 2, 3>(x, most, most);
    if (N == 1) {
      CHECK(log.calls().empty());
    } else {
      CHECK(log.calls() == std::vector<recorded_call>{{collective::all_reduce, 1, 2, 8, reduction::maximum}});
    }
  };
  count(std::integral_constant<int, 1>{});
  count(std::integral_constant<int, 2>{});
  count(std::integral_constant<int, 4>{});
}
