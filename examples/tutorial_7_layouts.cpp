// What layouts mean, checked by the compiler.
//
// run: 1

#include <tessera/layer/linear.hpp>

#include <cstdio>

namespace ts = tessera;

// [world]
struct dp : ts::axis<2> {};
struct tp : ts::axis<4> {};
using world = ts::mesh<dp, tp>;  // 8 devices
// [world]

// [same]
template <class A, class B>
constexpr bool same = std::is_same_v<ts::canonical<world, A>, ts::canonical<world, B>>;

static_assert(same<ts::row<dp>, ts::layout<ts::shard<0, dp>>>);
static_assert(same<ts::layout<ts::row<dp>, ts::column<tp>>, ts::layout<ts::column<tp>, ts::row<dp>>>);
// [same]

// [order]
static_assert(!same<ts::shard<0, dp, tp>, ts::shard<0, tp, dp>>);
// Written apart, axes cut in mesh order.
static_assert(same<ts::layout<ts::shard<0, tp>, ts::shard<0, dp>>, ts::shard<0, dp, tp>>);
// [order]

// [uneven]
static_assert(ts::cut({0, 10}, 4, 0) == ts::interval{0, 3});  // begin and size
static_assert(ts::cut({0, 10}, 4, 1) == ts::interval{3, 3});
static_assert(ts::cut({0, 10}, 4, 2) == ts::interval{6, 2});
static_assert(ts::cut({0, 10}, 4, 3) == ts::interval{8, 2});
static_assert(ts::cut({0, 3}, 4, 3).size == 0);               // a rank may hold nothing
// [uneven]

// [box]
// What the device at dp = 1, tp = 0 holds of a 10 x 6 matrix that dp cuts by rows and tp by columns.
constexpr auto cut_both = ts::placements_of<world, ts::layout<ts::row<dp>, ts::column<tp>>>;
constexpr auto part = ts::local_box<world>(cut_both, ts::shape<2>{{10, 6}}, {1, 0});
static_assert(part[0] == ts::interval{5, 5} && part[1] == ts::interval{0, 2});
// [box]

// [gradients]
template <class... Words>
constexpr auto layout = ts::placements_of<world, ts::layout<Words...>>;

// A linear layer cut by outputs, whose input is cut by batch.
using input = ts::flow<ts::shape<2>{{ts::dynamic, 32}}, layout<ts::row<dp>>>;
using bound = ts::bind<ts::linear<32, 64, ts::split_output<tp>>, world, input>;
static_assert(bound::output::layout == layout<ts::row<dp>, ts::column<tp>>);

constexpr auto resolved = bound::resolved;  // operands: 0 the input, 1 the weight [64, 32], 2 the bias [64]
static_assert(resolved.operand[1] == layout<ts::row<tp>>);
static_assert(resolved.operand[2] == layout<ts::row<tp>>);
// Of the input's gradient each rank along tp has the terms of its own outputs.
static_assert(resolved.gradient[0] == layout<ts::row<dp>, ts::partial<tp>>);
// Of the weight's gradient each rank along dp has the terms of its own rows of the batch.
static_assert(resolved.gradient[1] == layout<ts::row<tp>, ts::partial<dp>>);
static_assert(resolved.gradient[2] == layout<ts::row<tp>, ts::partial<dp>>);
// [gradients]

// [dual]
static_assert(ts::dual(layout<ts::row<dp>, ts::partial<tp>>) == layout<ts::row<dp>>);
// [dual]

// [routes]
template <class From, class To>
constexpr auto route = ts::route_between<world, layout<From>, layout<To>, 2>;
template <class From, class To>
constexpr bool is_one = route<From, To>.count == 1;

static_assert(is_one<ts::partial<tp>, ts::column<tp>> &&
              route<ts::partial<tp>, ts::column<tp>>.steps[0].kind == ts::step_kind::reduce_scatter);
static_assert(is_one<ts::row<tp>, ts::column<tp>> &&
              route<ts::row<tp>, ts::column<tp>>.steps[0].kind == ts::step_kind::exchange);
// [routes]

// [machine]
// What a message costs along each axis: seconds for itself, and seconds for each byte.
struct cluster {
  template <class Axis>
  static constexpr ts::link_cost along{1e-6, 1e-10};
};
constexpr ts::shape<2> small{{8, 8}};
// Rows to columns over all eight devices: two steps of three messages, where one step would take seven.
template <class From, class To>
constexpr auto quickest = ts::cheapest_route(world::value, ts::links_of<world, cluster>, small, sizeof(float),
                                             layout<From>, layout<To>);
static_assert(quickest<ts::shard<0, dp, tp>, ts::shard<1, dp, tp>>.count == 2);
// In a program: x | ts::to<ts::shard<1, dp, tp>, cluster, small>
// [machine]

int main() {
  for (int rank = 0; rank < world::devices; ++rank) {
    const auto at = world::coordinates(rank);
    const auto box = ts::local_box<world>(ts::placements_of<world, ts::shard<0, dp, tp>>, ts::shape<1>{{10}}, at);
    const auto turned = ts::local_box<world>(ts::placements_of<world, ts::shard<0, tp, dp>>, ts::shape<1>{{10}}, at);
    std::printf("rank %d (dp %d, tp %d): %lld to %lld, %lld to %lld\n", rank, at[0], at[1],
                static_cast<long long>(box[0].begin), static_cast<long long>(box[0].end()),
                static_cast<long long>(turned[0].begin), static_cast<long long>(turned[0].end()));
  }
}
