// The batch cut over the ranks: one word more, and the losses of the serial run.
//
// run: 2

#include "tutorial.hpp"

namespace ts = tessera;

struct mlp : ts::chain<ts::linear<16, 32>, ts::relu, ts::linear<32, 64>, ts::relu, ts::linear<64, 10>> {};

// [split]
struct dp : ts::axis<2> {};
using world = ts::mesh<dp>;

using split_mlp = ts::parallel<mlp, ts::data_parallel<dp>>;
// [split]

// [collectives]
constexpr auto calls = ts::collectives<split_mlp, world>;
static_assert(calls.size() == 1);  // all gradients in one bucket
static_assert(calls[0].when == ts::phase::gradient && calls[0].kind == ts::collective::all_reduce);
static_assert(calls.bytes(0, 49) == 4 * (16 * 32 + 32 + 32 * 64 + 64 + 64 * 10 + 10));
// [collectives]

int main(int argc, char** argv) {
  // [main]
  ts::session<world> session{argc, argv};
  const auto split = tutorial::train<split_mlp>(session);

  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto serial = tutorial::train<mlp>(alone);
  return tutorial::equal(serial, split, session.rank()) ? 0 : 1;
  // [main]
}
