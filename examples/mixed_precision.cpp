// A model whose products are computed in float16, with a loss scale that is found while training, against float.
//
// run: 4

#include "tutorial.hpp"

// [session]
namespace ts = tessera;

struct dp : ts::axis<2> {};
struct tp : ts::axis<2> {};
using world = ts::mesh<dp, tp>;
using session_type = ts::session<world, ts::rounded<ts::eigen, ts::float16>>;
// [session]

static_assert(ts::computes_in<session_type::backend, ts::float16>);

template <class... Split>
using mlp = ts::chain<ts::linear<16, 32, Split...>, ts::relu, ts::linear<32, 10>>;
using split_model = ts::parallel<mlp<ts::split_output<tp>>, ts::data_parallel<dp>>;

namespace {

/// Some updates on the same points.
template <class Model, class Team>
double train(Team& team, ts::options const& options) {
  const tutorial::points all;
  auto model = team.template make<Model>(ts::seed{1});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::momentum{.learning_rate = 0.05}, options};
  using input_type = typename decltype(model)::input_type;
  const auto x = ts::distribute<typename input_type::layout_type>(team, all.x);
  double loss = 0;
  while (trainer.optimizer_state().steps < 30) loss = trainer.step(x, all.labels_of(x.part()[0]));
  // [scale]
  auto const& scale = trainer.loss_scale();
  if (scale.on() && team.rank() == 0)
    std::printf("loss scale %g after %lld skipped steps\n", scale.factor(),
                static_cast<long long>(scale.state().skipped));
  // [scale]
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  session_type session{argc, argv};
  // [options]
  const ts::options options{.loss_scale = ts::dynamic_scale{.initial = 65536, .every = 2000}};
  // [options]
  const double mixed = train<split_model>(session, options);
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const double in_float = train<mlp<>>(alone, {});
  if (session.rank() == 0) std::printf("loss %.4f, in float %.4f\n", mixed, in_float);
  return std::abs(mixed - in_float) < 0.02 * in_float ? 0 : 1;
}
