// Stages on two pairs of ranks, the batch cut in each pair, against the serial run.
//
// run: 4

#include "tutorial.hpp"

// [model]
namespace ts = tessera;

struct pp : ts::axis<2> {};  // two stages
struct dp : ts::axis<2> {};  // two ranks in each, with half of the batch each
using world = ts::mesh<pp, dp>;

struct mlp : ts::chain<ts::linear<16, 64>, ts::relu,
                       ts::stage<1>,
                       ts::linear<64, 64>, ts::relu, ts::linear<64, 10>> {};
using model_type = ts::parallel<mlp, ts::data_parallel<dp>, ts::pipeline<pp>>;
// [model]

// [figures]
using plan = ts::pipeline_plan<model_type, world>;
static_assert(plan::bubble(8) < 0.112);     // 1 / 9 of a step of 8 parts
static_assert(plan::peak_live(0, 8) == 2);  // parts of which a rank of the first stage keeps activations
static_assert(ts::peak_live<ts::gpipe>(2, 0, 8) == 8);
static_assert(ts::bubble<ts::interleaved<2>>(2, 8) < 0.059);  // 1 / 17
// [figures]

// [balance]
struct unmarked : ts::chain<ts::linear<16, 64>, ts::relu, ts::linear<64, 64>, ts::relu,
                            ts::linear<64, 10>> {};
using balanced = ts::pipeline_plan<ts::parallel<unmarked, ts::pipeline<pp>>, world>;
static_assert(balanced::begins == std::array{0, 2});  // the second linear layer has most of the work
// [balance]

namespace {

/// Twenty steps on batches in eight parts.
template <class Model, class Team>
std::vector<double> train(Team& team) {
  const tutorial::points all;
  // [train]
  auto model = team.template make<Model>(ts::seed{1});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::momentum{.learning_rate = 0.05, .momentum = 0.9}};

  using input_type = typename decltype(model)::input_type;
  std::vector<input_type> parts;
  std::vector<std::vector<std::int64_t>> labels;
  for (int i = 0; i < 8; ++i) {
    const ts::interval rows = ts::cut({0, 49}, 8, i);
    ts::tensor<float, 2> x({rows.size, 16});
    std::copy_n(all.x.data() + rows.begin * 16, x.size(), x.data());
    parts.push_back(ts::distribute<typename input_type::layout_type>(team, x));
    auto mine = parts.back().part()[0];
    mine.begin += rows.begin;
    labels.push_back(all.labels_of(mine));
  }
  std::vector<double> losses;  // the same on all ranks
  for (int step = 0; step < 20; ++step) losses.push_back(trainer.step(parts, labels));
  // [train]
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  ts::session<world> session{argc, argv};
  const auto staged = train<model_type>(session);
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto serial = train<mlp>(alone);
  const double apart = tutorial::worst_difference(serial, staged);
  if (session.rank() == 0)
    std::printf("loss %.6f, serial %.6f; largest difference %.1e\n", staged.back(), serial.back(), apart);
  return apart < 1e-5 ? 0 : 1;
}
