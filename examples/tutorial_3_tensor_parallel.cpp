// The weights cut over the ranks: the last word of a layer's line says how.
//
// run: 2

#include "tutorial.hpp"

namespace ts = tessera;

struct mlp : ts::chain<ts::linear<16, 32>, ts::relu, ts::linear<32, 64>, ts::relu, ts::linear<64, 10>> {};

// [split]
struct tp : ts::axis<2> {};
using world = ts::mesh<tp>;

struct split_mlp : ts::chain<ts::linear<16, 32>, ts::relu,
                             ts::linear<32, 64, ts::split_output<tp>>, ts::relu,
                             ts::linear<64, 10, ts::split_input<tp>>> {};
// [split]

// [layouts]
template <int I>
using layer = ts::plan<split_mlp, world>::bound::at<I>;
template <class Layout>
constexpr auto is = ts::placements_of<world, Layout>;

static_assert(layer<1>::output::layout == is<ts::replicated>);
static_assert(layer<2>::output::layout == is<ts::column<tp>>);   // each rank has half of the 64 features
static_assert(layer<3>::output::layout == is<ts::column<tp>>);   // relu takes any cut
static_assert(layer<4>::output::layout == is<ts::partial<tp>>);  // the sum of both ranks is the result
// [layouts]

// [collectives]
constexpr auto calls = ts::collectives<split_mlp, world>;
static_assert(calls.size() == 2);
static_assert(calls[0].when == ts::phase::forward && calls[0].kind == ts::collective::all_reduce);
static_assert(calls.bytes(0, 49) == 4 * 49 * 10);  // the partial output of the last layer
static_assert(calls[1].when == ts::phase::backward && calls[1].kind == ts::collective::all_reduce);
static_assert(calls.bytes(1, 49) == 4 * 49 * 32);  // the partial gradient of the second layer's input
// [collectives]

int main(int argc, char** argv) {
  ts::session<world> session{argc, argv};
  const auto split = tutorial::train<split_mlp>(session);

  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto serial = tutorial::train<mlp>(alone);
  return tutorial::equal(serial, split, session.rank()) ? 0 : 1;
}
