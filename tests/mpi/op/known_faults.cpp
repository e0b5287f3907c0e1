#include "on_ranks.hpp"

#include <tessera/op/elementwise.hpp>
#include <tessera/op/reduce.hpp>
#include <tessera/redistribute/to.hpp>

// Faults that were found in other libraries, of layouts, reductions and changes of layout.

namespace {

using namespace on_ranks;
using on_ranks::index_t;

/// A value that is partial over all ranks: rank r holds (r + 1) times the values.
template <int Size, class Team, class Whole>
auto partial_of(Team& team, Whole const& values) {
  sharded<float, 2, partial<all<Size>>, Team> x(team, values.extents());
  for (index_t i = 0; i < values.size(); ++i)
    x.local().data()[i] = static_cast<float>(team.rank() + 1) * values.data()[i];
  return x;
}

TEST_CASE("C01: five rows that are cut and gathered are five rows again") {
  run([]<int Size>(auto& team) {
    const auto whole = worlds::values<float>(shape<2>{{5, 10}}, 1);
    const auto x = distribute<row<all<Size>>>(team, whole);
    CHECK(x.extents() == whole.extents());
    const auto back = x | to<replicated>;
    CHECK(back.extents() == whole.extents());
    CHECK(same_bits(back.local(), whole));
  });
}

TEST_CASE("C02: the global extent is no multiple of the local one") {
  run([]<int Size>(auto& team) {
    const auto x = distribute<row<all<Size>>>(team, worlds::values<float>(shape<2>{{10, 1}}, 1));
    CHECK(x.extent(0) == 10);
    const index_t rows = x.local().extent(0);
    std::vector<index_t> of_each(Size);
    team.group(1).all_gather(&rows, of_each.data(), std::vector<index_t>(Size, 1));
    index_t sum = 0;
    for (const index_t r : of_each) sum += r;
    CHECK(sum == 10);
    if constexpr (Size == 4) CHECK(of_each == std::vector<index_t>{3, 3, 2, 2});
  });
}

TEST_CASE("C04: the mean over uneven blocks is that of all elements") {
  run([]<int Size>(auto& team) {
    tensor<float, 1> whole(shape<1>{{5}});
    for (index_t i = 0; i < 5; ++i) whole(i) = static_cast<float>(i + 1);
    const auto mean = op::mean(distribute<row<all<Size>>>(team, whole)) | to<replicated>;
    CHECK(*mean.read().data == doctest::Approx(3.0).epsilon(1e-6));
  });
}

TEST_CASE("C05: blocks that are not the library's are refused, with rank and extents") {
  run([]<int Size>(auto& team) {
    using matrix = sharded<float, 2, row<all<Size>>, std::remove_reference_t<decltype(team)>>;
    const index_t wanted = cut({0, 5}, Size, team.rank()).size;
    const std::string text = "tessera: rank " + std::to_string(team.rank()) + " has a block of [" +
                             std::to_string(wanted + 1) + ", 2] of a tensor of [5, 2]; wanted [" +
                             std::to_string(wanted) +
                             ", 2] (floor/ceil blocks, larger ones first); cut the tensor with tessera::distribute, or "
                             "pass the extents that tessera::local_box gives";
    typename matrix::local_type block(shape<2>{{wanted + 1, 2}});
    CHECK_THROWS_WITH_AS(matrix(team, {{5, 2}}, block), text.c_str(), error);
  });
}

TEST_CASE("C06: a rank without elements does not disturb a maximum") {
  run([]<int Size>(auto& team) {
    tensor<float, 1> whole(shape<1>{{3}});
    for (index_t i = 0; i < 3; ++i) whole(i) = static_cast<float>(-3 - i);
    const auto most = op::reduce_max(distribute<row<all<Size>>>(team, whole)) | to<replicated>;
    CHECK(*most.read().data == -3.0f);
    const auto sum = op::reduce_sum(distribute<row<all<Size>>>(team, whole)) | to<replicated>;
    CHECK(*sum.read().data == -12.0f);
  });
}

TEST_CASE("C08: ranks without elements take part in exchanges, gathers and scatters") {
  run([]<int Size>(auto& team) {
    const auto whole = worlds::values<float>(shape<2>{{1, 2}}, 1);
    const auto x = distribute<row<all<Size>>>(team, whole);
    const auto y = x | to<column<all<Size>>>;
    CHECK(same_bits(y.local(), distribute<column<all<Size>>>(team, whole).local()));
    CHECK(same_bits((y | to<row<all<Size>>>).local(), x.local()));
    CHECK(same_bits(gather(y), whole));
    const auto scattered = partial_of<Size>(team, whole) | to<row<all<Size>>>;
    for (index_t i = 0; i < scattered.local().size(); ++i)
      CHECK(scattered.local().data()[i] == doctest::Approx(whole.data()[i] * Size * (Size + 1) / 2));
  });
}

TEST_CASE("C09: tensors without elements are reduced, gathered and exchanged") {
  run([]<int Size>(auto& team) {
    const tensor<float, 2> none(shape<2>{{0, 4}});
    const auto x = partial_of<Size>(team, none);
    CHECK((x | to<replicated>).local().size() == 0);
    CHECK((x | to<column<all<Size>>>).extents() == none.extents());
    CHECK((distribute<row<all<Size>>>(team, none) | to<column<all<Size>>>).local().size() == 0);
    CHECK(*(op::reduce_sum(distribute<row<all<Size>>>(team, none)) | to<replicated>).read().data == 0);
  });
}

struct outer : axis<2> {};
struct inner : axis<2> {};
using square = mesh<outer, inner>;

// Words apart cut in mesh order however they are spelled; one word says another order.
static_assert(std::is_same_v<canonical<square, layout<shard<0, outer>, shard<0, inner>>>,
                             canonical<square, layout<shard<0, inner>, shard<0, outer>>>>);
static_assert(std::is_same_v<canonical<square, layout<shard<0, inner>, shard<0, outer>>>,
                             canonical<square, shard<0, outer, inner>>>);
static_assert(!std::is_same_v<canonical<square, shard<0, inner, outer>>, canonical<square, shard<0, outer, inner>>>);

template <class Layout, class Team, class Whole>
void check_two_axes(Team& team, Whole const& whole, index_t first_row) {
  const auto x = distribute<Layout>(team, whole);
  CHECK(x.part()[0] == interval{first_row, 2});
  CHECK(same_bits(gather(x), whole));
}

TEST_CASE("C10: two axes on one dimension cut and gather in the order of the layout") {
  if (worlds::size() != square::devices) return;
  worlds::parallel_team<square> team{mpi_comm{}};
  const auto whole = worlds::values<float>(shape<2>{{8, 8}}, 1);
  const auto [o, i] = team.coordinates();
  check_two_axes<layout<shard<0, inner>, shard<0, outer>>>(team, whole, 4 * o + 2 * i);
  check_two_axes<shard<0, outer, inner>>(team, whole, 4 * o + 2 * i);
  check_two_axes<shard<0, inner, outer>>(team, whole, 4 * i + 2 * o);
  const auto turned = distribute<shard<0, outer, inner>>(team, whole) | to<shard<0, inner, outer>>;
  CHECK(same_bits(turned.local(), distribute<shard<0, inner, outer>>(team, whole).local()));
}

TEST_CASE("C45: a NaN on any rank makes the maximum NaN on all") {
  run([]<int Size>(auto& team) {
    for (index_t at = 0; at < Size; ++at) {
      CAPTURE(at);
      auto whole = worlds::values<float>(shape<1>{{Size}}, 1);
      whole(at) = NAN;
      const auto most = op::reduce_max(distribute<row<all<Size>>>(team, whole)) | to<replicated>;
      CHECK(std::isnan(*most.read().data));
    }
  });
}

TEST_CASE("C57: a sum has the same bits on all ranks and each time") {
  run([]<int Size>(auto& team) {
    const auto x = partial_of<Size>(team, worlds::values<float>(shape<2>{{8, 8}}, 1));
    const auto first = (x | to<replicated>).local();
    auto others = first.clone();
    team.group(1).broadcast(others.data(), others.size(), 0);
    CHECK(same_bits(first, others));
    for (int again = 0; again < 20; ++again) CHECK(same_bits((x | to<replicated>).local(), first));
  });
}

}  // namespace
