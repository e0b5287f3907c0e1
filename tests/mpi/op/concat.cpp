#include "on_ranks.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/concat.hpp>
#include <tessera/op/slice.hpp>

namespace {

using namespace on_ranks;
using on_ranks::index_t;

/// The elements of `t` from `begin` on along a dimension.
template <int Dim, class T, int Rank>
tensor<T, Rank> part_of(tensor<T, Rank> const& t, index_t begin, index_t count) {
  box<Rank> part;
  for (int d = 0; d < Rank; ++d) part[d] = {0, t.extent(d)};
  part[Dim] = {begin, count};
  tensor<T, Rank> out(part.extents());
  copy_box<T>(t.read(), part, out.view(), {});
  return out;
}

template <int Dim, class Layout, class Team, int Rank>
void check_slice(Team& team, shape<Rank> const& extents, index_t begin, index_t count) {
  CAPTURE(begin);
  CAPTURE(count);
  const auto whole = worlds::values<double>(extents, 1);
  const auto x = distribute<Layout>(team, whole);
  const auto y = op::slice<Dim>(x, begin, count);
  CHECK(same_bits(y.local(), distribute<Layout>(team, part_of<Dim>(whole, begin, count)).local()));
  const auto dx = gather(op::slice_backward<Dim>(y, begin, extents[Dim]));
  CHECK(same_bits(part_of<Dim>(dx, begin, count), part_of<Dim>(whole, begin, count)));
  double inside = 0;
  for (double const v : part_of<Dim>(whole, begin, count).read()) inside += std::abs(v);
  double all_of_it = 0;
  for (double const v : dx.read()) all_of_it += std::abs(v);
  CHECK(all_of_it == doctest::Approx(inside));
}

/// Cuts a tensor into parts, puts them together and takes them apart again.
template <int Dim, class Layout, class Team, int Rank>
void check_concat(Team& team, shape<Rank> const& extents, std::array<index_t, 3> const& counts) {
  const auto whole = worlds::values<double>(extents, 1);
  const auto part = [&](index_t begin, index_t count) {
    return distribute<Layout>(team, part_of<Dim>(whole, begin, count));
  };
  const auto a = part(0, counts[0]);
  const auto b = part(counts[0], counts[1]);
  const auto c = part(counts[0] + counts[1], counts[2]);
  const auto y = op::concat<Dim>(a, b, c);
  CHECK(same_bits(y.local(), distribute<Layout>(team, whole).local()));
  const auto parts = op::concat_backward<Dim>(y, counts);
  CHECK(same_bits(parts[0].local(), a.local()));
  CHECK(same_bits(parts[1].local(), b.local()));
  CHECK(same_bits(parts[2].local(), c.local()));
}

struct outer : axis<2> {};
struct inner : axis<2> {};

}  // namespace

TEST_CASE("slices along any dimension are in the layout of the whole, and back come zeros around them") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    for (const index_t begin : {0, 1, 4, 9, 11})
      for (const index_t count : {0, 1, 2, 7, 11}) {
        if (begin + count > 11) continue;
        check_slice<0, row<axis>>(team, shape<2>{{11, 3}}, begin, count);
        check_slice<1, row<axis>>(team, shape<2>{{5, 11}}, begin, count);
        check_slice<1, shard<1, axis>>(team, shape<4>{{2, 11, 2, 3}}, begin, count);
      }
    check_slice<2, shard<1, axis>>(team, shape<4>{{2, 3, 6, 2}}, 2, 3);
  });
}

TEST_CASE("tensors are put together along any dimension and taken apart again") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    check_concat<0, row<axis>>(team, shape<2>{{13, 2}}, {5, 1, 7});
    check_concat<0, row<axis>>(team, shape<2>{{13, 2}}, {0, 12, 1});
    check_concat<1, row<axis>>(team, shape<2>{{5, 9}}, {2, 3, 4});
    check_concat<1, shard<1, axis>>(team, shape<4>{{2, 9, 2, 3}}, {2, 3, 4});
    check_concat<3, shard<1, axis>>(team, shape<4>{{2, 3, 2, 9}}, {2, 3, 4});
  });
}

TEST_CASE("a dimension that two axes cut, in either order") {
  if (worlds::size() != 4) return;
  worlds::parallel_team<mesh<outer, inner>> team{mpi_comm{}};
  check_concat<0, shard<0, outer, inner>>(team, shape<2>{{13, 2}}, {5, 1, 7});
  check_concat<0, shard<0, inner, outer>>(team, shape<2>{{13, 2}}, {5, 1, 7});
  check_concat<0, layout<shard<0, inner>, shard<1, outer>>>(team, shape<2>{{13, 3}}, {5, 1, 7});
  check_slice<0, shard<0, inner, outer>>(team, shape<2>{{13, 2}}, 3, 6);
  check_slice<0, layout<shard<0, inner>, shard<1, outer>>>(team, shape<2>{{13, 3}}, 3, 6);
}

TEST_CASE("partial sums are put together and cut") {
  run([]<int N>(auto& team) {
    const auto whole = worlds::values<double>(shape<2>{{2, 6}}, 1);
    sharded<double, 2, partial<all<N>>, std::remove_reference_t<decltype(team)>> x(team, whole.extents());
    for (index_t i = 0; i < whole.size(); ++i) x.local().data()[i] = whole.data()[i] / N;
    const auto y = gather(op::concat<-1>(op::slice<-1>(x, 4, 2), x));
    for (index_t r = 0; r < 2; ++r)
      for (index_t c = 0; c < 8; ++c) CHECK(y(r, c) == doctest::Approx(whole(r, c < 2 ? c + 4 : c - 2)));
  });
}

TEST_CASE("only what changes its owner is sent, in one message for all parts") {
  if (worlds::size() != 2) return;
  recording<mpi_comm> log{mpi_comm{}};
  team<all_ranks<2>, recording<mpi_comm>> where{log};
  const auto x = distribute<row<all<2>>>(where, worlds::values<float>(shape<2>{{8, 3}}, 1));
  const auto messages = [&](auto change) {
    log.clear();
    change();
    return log.calls();
  };
  // Rows 0 to 3 and 4 to 7 become rows 0 to 7 and 8 to 15 of the result: each rank sends one half of what it has.
  CHECK(messages([&] { op::concat<0>(x, x); }) ==
        std::vector<recorded_call>{{collective::all_to_all, 1, 12, 4, reduction::sum}});
  CHECK(messages([&] {
          op::concat_backward<0>(x, std::array<index_t, 2>{4, 4});
        }) == std::vector<recorded_call>{{collective::all_to_all, 1, 6, 4, reduction::sum}});
  // Rows 1 to 6 are 1 to 3 and 4 to 6 of the result: nothing moves.
  CHECK(messages([&] { op::slice_backward<0>(op::slice<0>(x, 1, 6), 1, 8); }).empty());
  // Rows 0 to 3 belong to one rank and become two of each.
  CHECK(messages([&] { op::slice<0>(x, 0, 4); }) ==
        std::vector<recorded_call>{{collective::all_to_all, 1, 6, 4, reduction::sum}});
  CHECK(messages([&] { op::concat<1>(x, op::slice<1>(x, 1, 2)); }).empty());
}

TEST_CASE("parts that do not fit are errors on every rank") {
  run([]<int N>(auto& team) {
    const auto put = [&](shape<2> const& s) { return distribute<row<all<N>>>(team, worlds::values<float>(s, 1)); };
    CHECK_THROWS_WITH_AS(op::concat<0>(put({3, 2}), put({3, 4})),
                         "tessera: extent of an operand of concat is 4; wanted 2; check the extents of the operands",
                         error);
    CHECK_THROWS_AS(op::concat_backward<0>(put({5, 2}), std::array<index_t, 2>{2, 2}), error);
    CHECK_THROWS_WITH_AS(op::slice<0>(put({5, 2}), 3, 3),
                         "tessera: a slice of 3 from 3 on; wanted a part of an extent of 5; correct where the slice "
                         "begins or how long it is",
                         error);
    CHECK_THROWS_AS(op::slice<0>(put({5, 2}), -1, 3), error);
    CHECK_THROWS_AS(op::slice_backward<0>(put({5, 2}), 2, 6), error);
  });
}
