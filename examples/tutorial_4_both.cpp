// Batch and weights cut on a 2 x 2 mesh.
//
// run: 4

#include "tutorial.hpp"

// [program]
namespace ts = tessera;

struct dp : ts::axis<2> {};  // two pairs of ranks, each with its half of the batch
struct tp : ts::axis<2> {};  // two ranks in a pair, each with its half of the weights
using world = ts::mesh<dp, tp>;

struct mlp : ts::chain<ts::linear<16, 32>, ts::relu,
                       ts::linear<32, 64, ts::split_output<tp>>, ts::relu,
                       ts::linear<64, 10, ts::split_input<tp>>> {};
using model_type = ts::parallel<mlp, ts::data_parallel<dp>>;

// Two all-reduces of activations along tp and one of gradients along dp; checked while compiling.
static_assert(ts::collectives<model_type, world>.size() == 3);

int main(int argc, char** argv) {
  ts::session<world> session{argc, argv};
  auto model = session.make<model_type>(ts::seed{1});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::momentum{.learning_rate = 0.05, .momentum = 0.9}};

  const tutorial::points all;  // 49 rows: 25 for one pair of ranks, 24 for the other
  const auto x = ts::distribute<ts::row<dp>>(session, all.x);
  const auto labels = all.labels_of(x.part()[0]);
  double loss = 0;  // of all 49 rows, the same on all ranks
  for (int step = 0; step < 20; ++step) loss = trainer.step(x, labels);
  // [program]
  if (session.rank() == 0) std::printf("loss %.4f\n", loss);

  // [collectives]
  constexpr auto calls = ts::collectives<model_type, world>;
  static_assert(calls[0].when == ts::phase::forward && calls[0].group == world::set_of<tp>);
  static_assert(calls[1].when == ts::phase::backward && calls[1].group == world::set_of<tp>);
  static_assert(calls[2].when == ts::phase::gradient && calls[2].group == world::set_of<dp>);
  static_assert(calls.bytes(0, 49) == 4 * 25 * 10);  // on the ranks that have 25 rows
  static_assert(calls.bytes(2, 49) == 4 * (16 * 32 + 32 + (32 * 64 + 64) / 2 + 64 * 10 / 2 + 10));
  // [collectives]

  const auto split = tutorial::train<model_type>(session);
  using serial_mlp =
      ts::chain<ts::linear<16, 32>, ts::relu, ts::linear<32, 64>, ts::relu, ts::linear<64, 10>>;
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto serial = tutorial::train<serial_mlp>(alone);
  return tutorial::equal(serial, split, session.rank()) ? 0 : 1;
}
