#include "on_ranks.hpp"

#include <tessera/op/dropout.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace on_ranks;

/// A cut of any dimension drops what the whole drops.
template <class Axis, class Team, class T, int Rank>
void check_cuts(Team& team, tensor<T, Rank> const& x) {
  CAPTURE(to_string(x.extents()));
  const philox draw(11, 4);
  const auto wanted = op::dropout(distribute<replicated>(team, x), 0.7, draw).local();
  const auto check = [&]<int D>(std::integral_constant<int, D>) {
    CHECK(same_bits(gather(op::dropout(distribute<shard<D, Axis>>(team, x), 0.7, draw)), wanted));
  };
  [&]<int... D>(std::integer_sequence<int, D...>) { (check(std::integral_constant<int, D>{}), ...); }
  (std::make_integer_sequence<int, Rank>{});
  for (index_t i = 0; i < x.size(); ++i) {
    const T scaled = x.data()[i] * static_cast<T>(1 / 0.7);
    CHECK((wanted.data()[i] == 0 || wanted.data()[i] == scaled));
  }
}

}  // namespace

TEST_CASE("every cut drops the elements that the whole drops") {
  run([]<int N>(auto& team) {
    check_cuts<all<N>>(team, worlds::values<float>(shape<1>{300}, 1));
    check_cuts<all<N>>(team, worlds::values<double>(shape<2>{7, 130}, 1));
    check_cuts<all<N>>(team, worlds::values<float>(shape<3>{3, 5, 9}, 1));
    check_cuts<all<N>>(team, worlds::values<float>(shape<4>{2, 6, 5, 3}, 1));
    check_cuts<all<N>>(team, worlds::values<float>(shape<2>{2, 3}, 1));  // some ranks hold nothing
  });
}

TEST_CASE("a partial sum may be dropped from: the sum of its parts is") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    const auto x = worlds::values<double>(shape<2>{6, 50}, 2);
    sharded<double, 2, partial<axis>, std::remove_reference_t<decltype(team)>> part(team, x.extents());
    for (index_t i = 0; i < x.size(); ++i) part.local().data()[i] = x.data()[i] / N;
    const philox draw(3, 3);
    const auto found = gather(op::dropout(part, 0.5, draw));
    CHECK(worlds::difference(found, op::dropout(distribute<replicated>(team, x), 0.5, draw).local()) < 1e-15);
  });
}

TEST_CASE("a share outside (0, 1] is an error; all are kept by 1") {
  run([]<int N>(auto& team) {
    const auto x = distribute<row<all<N>>>(team, worlds::values<float>(shape<1>{5}, 1));
    const philox draw(1, 1);
    CHECK(same_bits(op::dropout(x, 1, draw).local(), x.local()));
    for (const double keep : {0.0, -0.5, 1.5, std::nan("")})
      CHECK_THROWS_WITH_AS(op::dropout(x, keep, draw), doctest::Contains("a share above 0"), error);
  });
}
