#include "on_ranks.hpp"

#include <tessera/op/flatten.hpp>
#include <tessera/op/reshape.hpp>
#include <tessera/op/transpose.hpp>

namespace {

using namespace on_ranks;
using on_ranks::index_t;

/// The elements in logical row-major order, whatever lies how in memory.
template <class T, int Rank>
std::vector<T> in_order(tensor<T, Rank> const& t) {
  std::vector<T> out;
  std::array<index_t, static_cast<std::size_t>(Rank)> at{};
  for (index_t i = 0; i < t.size(); ++i) {
    out.push_back(std::apply([&](auto... along) { return t(along...); }, at));
    for (int d = Rank - 1; d >= 0; --d) {
      if (++at[static_cast<std::size_t>(d)] < t.extent(d)) break;
      at[static_cast<std::size_t>(d)] = 0;
    }
  }
  return out;
}

/// Reshapes to `to` and back: the elements keep their order, the gradient is in the layout of its input.
template <class Layout, class... Words, class Team, int From, int To>
auto check_reshape(Team& team, shape<From> const& from, shape<To> const& to) {
  const auto whole = worlds::values<float>(from, 1);
  const auto x = distribute<Layout>(team, whole);
  const auto y = op::reshape<Words...>(x, to);
  CHECK(in_order(gather(y)) == in_order(whole));
  const auto back = op::reshape_backward<Words...>(y, from);
  static_assert(std::is_same_v<decltype(back), decltype(x)>);
  CHECK(same_bits(back.local(), x.local()));
  return y;
}

template <int... Perm, class Layout, class Team, int Rank>
void check_transpose(std::type_identity<Layout>, Team& team, shape<Rank> const& extents) {
  const auto whole = worlds::values<float>(extents, 1);
  const auto x = distribute<Layout>(team, whole);
  const auto y = op::transpose<Perm...>(x);
  const auto all_y = gather(y);
  constexpr std::array<int, sizeof...(Perm)> perm{Perm...};
  bool right = true;
  std::array<index_t, sizeof...(Perm)> at{};
  for (index_t i = 0; i < whole.size(); ++i) {
    index_t rest = i;
    for (std::size_t d = perm.size(); d-- > 0;) {
      at[d] = rest % extents[static_cast<int>(d)];
      rest /= extents[static_cast<int>(d)];
    }
    std::array<index_t, sizeof...(Perm)> moved{};
    for (std::size_t d = 0; d < perm.size(); ++d) moved[d] = at[static_cast<std::size_t>(perm[d])];
    right = right && std::apply([&](auto... to) { return all_y(to...); }, moved) ==
                         std::apply([&](auto... from) { return whole(from...); }, at);
  }
  CHECK(right);
  const auto back = op::transpose_backward<Perm...>(y);
  static_assert(std::is_same_v<decltype(back), decltype(x)>);
  CHECK(same_bits(back.local(), x.local()));
}

}  // namespace

TEST_CASE("dimensions and their cuts change places") {
  run([]<int N>(auto& team) {
    const auto cut = []<int Dim>(std::integral_constant<int, Dim>) { return std::type_identity<shard<Dim, all<N>>>{}; };
    using first = std::integral_constant<int, 0>;
    using second = std::integral_constant<int, 1>;
    using third = std::integral_constant<int, 2>;
    check_transpose<1, 0>(cut(first{}), team, shape<2>{{5, 7}});
    check_transpose<1, 0>(cut(second{}), team, shape<2>{{1, 3}});
    check_transpose<2, 0, 1>(cut(first{}), team, shape<3>{{5, 2, 3}});
    check_transpose<0, 2, 1>(cut(third{}), team, shape<3>{{5, 2, 3}});
    check_transpose<0, 2, 1, 3>(cut(second{}), team, shape<4>{{2, 3, 4, 5}});
    check_transpose<3, 2, 1, 0>(cut(third{}), team, shape<4>{{2, 3, 4, 5}});
    check_transpose<0, 2, 3, 1>(cut(first{}), team, shape<4>{{2, 0, 4, 5}});
    static_assert(decltype(op::transpose<1, 0>(distribute<row<all<N>>>(team, tensor<float, 2>())))::placements ==
                  placements_of<all_ranks<N>, column<all<N>>>);
  });
}

TEST_CASE("dimensions that are whole, or cut first in their group, are merged and split") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    // Twelve divides by every number of ranks of this test.
    check_reshape<replicated>(team, shape<2>{{6, 10}}, shape<3>{{4, 5, dynamic}});
    check_reshape<row<axis>>(team, shape<2>{{12, 10}}, shape<3>{{24, 5, 1}});
    check_reshape<row<axis>, keep_dims<2>, regroup<1, 2>>(team, shape<3>{{5, 2, 12}}, shape<4>{{5, 2, 3, dynamic}});
    check_reshape<shard<2, axis>, keep_dims<2>, regroup<1, 2>>(team, shape<3>{{5, 2, 12}}, shape<4>{{5, 2, 12, 1}});
    check_reshape<shard<2, axis>, keep_dims<2>, regroup<1, 2>>(team, shape<3>{{5, 2, 36}}, shape<4>{{5, 2, 12, 3}});
    check_reshape<shard<1, axis>, keep_dims<1>, regroup<2, 1>, keep_dims<1>>(team, shape<4>{{2, 12, 3, 5}},
                                                                             shape<3>{{2, dynamic, 5}});
    // Images to images of other extents.
    check_reshape<row<axis>, keep_dims<1>, regroup<3, 3>>(team, shape<4>{{5, 4, 3, 2}}, shape<4>{{5, 2, 2, 6}});
    check_reshape<shard<1, axis>, keep_dims<1>, regroup<3, 3>>(team, shape<4>{{2, 12, 3, 4}}, shape<4>{{2, 24, 2, 3}});
    // Extents of 1 come and go; uneven parts stay as they are.
    check_reshape<row<axis>, keep_dims<1>, regroup<0, 1>, keep_dims<1>>(team, shape<2>{{5, 3}}, shape<3>{{5, 1, 3}});
    check_reshape<row<axis>, regroup<2, 1>, regroup<1, 0>>(team, shape<3>{{5, 1, 1}}, shape<1>{{5}});
    check_reshape<row<axis>, keep_dims<1>, regroup<1, 2>>(team, shape<2>{{0, 4}}, shape<3>{{dynamic, 2, 2}});
  });
}

TEST_CASE("a reshape of anything but images shares the block") {
  run([]<int N>(auto& team) {
    const auto x = distribute<row<all<N>>>(team, worlds::values<float>(shape<2>{{12, 6}}, 1));
    CHECK((op::reshape<keep_dims<1>, regroup<1, 2>>(x, shape<3>{{12, 2, 3}}).local().data() == x.local().data()));
    const auto images = op::reshape<keep_dims<1>, regroup<1, 3>>(x, shape<4>{{12, 3, 1, 2}});
    CHECK(images.local().data() != x.local().data());
    const auto pooled = op::reshape<keep_dims<1>, regroup<1, 3>>(x, shape<4>{{12, 6, 1, 1}});
    CHECK(pooled.local().data() == x.local().data());
    CHECK(op::flatten(pooled).local().data() == x.local().data());
  });
}

TEST_CASE("partial sums are transposed and reshaped") {
  run([]<int N>(auto& team) {
    const auto whole = worlds::values<double>(shape<2>{{4, 6}}, 1);
    sharded<double, 2, partial<all<N>>, std::remove_reference_t<decltype(team)>> x(team, whole.extents());
    for (index_t i = 0; i < whole.size(); ++i) x.local().data()[i] = whole.data()[i] / N;
    const auto y = gather(op::reshape<regroup<2, 1>>(op::transpose<1, 0>(x), shape<1>{{24}}));
    for (index_t i = 0; i < 24; ++i) CHECK(y(i) == doctest::Approx(whole(i % 4, i / 4)));
  });
}

TEST_CASE("extents that do not fit, and parts that do not come out even, are errors on every rank") {
  run([]<int N>(auto& team) {
    const auto x = distribute<row<all<N>>>(team, worlds::values<float>(shape<2>{{12, 5}}, 1));
    CHECK_THROWS_WITH_AS(op::reshape(x, shape<2>{{11, 5}}),
                         "tessera: reshape of [12, 5] to [11, 5], which differ in the group of dimension 0; wanted as "
                         "many elements in each group, and at most one extent a group that is left open; correct the "
                         "extents, or the groups in regroup<...> and keep_dims<...>",
                         error);
    CHECK_THROWS_AS(op::reshape(x, shape<3>{{dynamic, dynamic, 5}}), error);
    CHECK_THROWS_AS(op::reshape(x, shape<2>{{dynamic, 7}}), error);
    CHECK_THROWS_AS(op::reshape(x, shape<2>{{-12, -5}}), error);
    CHECK_THROWS_AS((op::reshape<keep_dims<1>, regroup<1, 1>>(x, shape<2>{{5, 12}})), error);
    if (N > 1) {
      const std::string text = "tessera: reshape of dimension 0 of extent 12 cut into " + std::to_string(N) +
                               " parts, to dimension 0 of extent 1; wanted extents that divide evenly; gather the "
                               "dimension first with x | tessera::to<...>";
      CHECK_THROWS_WITH_AS(op::reshape(x, shape<2>{{1, 60}}), text.c_str(), error);
    }
  });
}
