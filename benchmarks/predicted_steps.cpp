// Training steps of two models under plans of two ranks: what the cost model says of them on this machine, calibrated
// in the same run, and what they take.

#include "support/calibration.hpp"

#include <tessera/comm/mpi_environment.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/step_price.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace ts = tessera;
using ts::index_t;

struct two : ts::axis<2> {};
using pair = ts::mesh<two>;

/// A model with its team, data and trainer, which all refer to each other.
template <class Model, int Rank>
class work {
  using team_type = ts::team<pair, ts::mpi_comm>;
  using network_type = ts::network<Model, team_type>;

 public:
  work(ts::shape<Rank> const& extents, index_t targets)
      : network_(team_, ts::seed{1}), trainer_(network_, ts::cross_entropy{}, optimizer), x_(team_, extents) {
    for (index_t i = 0; i < x_.local().size(); ++i) x_.local().data()[i] = static_cast<float>(i % 17) / 17;
    // The loss takes the rows that this rank has, be its classes cut or not.
    constexpr auto rows = network_type::output_type::placements.shard_axes(0);
    labels_.assign(static_cast<std::size_t>(targets / pair::group_size(rows)), 3);
  }
  void step() { trainer_.step(x_, labels_); }

  static double predicted(ts::machine_description const& machine, index_t rows) {
    const ts::step_settings settings{
        .unknown = rows, .remembered = optimizer.values_per_element(), .overlap = false};  // ranks reduce themselves
    return ts::price_step<Model, pair>(machine, ts::costs_on(pair::value, machine), settings).total();
  }

 private:
  static constexpr ts::momentum optimizer{.learning_rate = 1e-3, .momentum = 0.9};
  team_type team_{ts::mpi_comm()};
  network_type network_;
  ts::trainer<network_type, ts::cross_entropy, ts::momentum> trainer_;
  typename network_type::input_type x_;
  std::vector<std::int64_t> labels_;
};

struct plan {
  char const* name;
  double predicted;
  std::function<void()> step;
  double measured = 0;
};

/// `targets`: rows of the output, those of all ranks together.
template <class Model, int Rank>
plan plan_of(char const* name, ts::machine_description const& machine, ts::shape<Rank> const& extents,
             index_t targets) {
  using steps = work<Model, Rank>;
  const auto held = std::make_shared<steps>(extents, targets);
  return {name, steps::predicted(machine, extents[0]), [held] { held->step(); }};
}

/// Plans take turns; each gets the lower quartile over rounds of the time of the slower rank, as calibration does:
/// other programs on the machine make times longer, never shorter.
void measure(std::vector<plan>& plans, double seconds) {
  std::vector<std::vector<double>> times(plans.size());
  double spent = 0;
  for (int round = 0; round < 6 || spent < seconds; ++round)
    for (std::size_t p = 0; p < plans.size(); ++p) {
      MPI_Barrier(MPI_COMM_WORLD);
      double time = -MPI_Wtime();
      plans[p].step();
      time += MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      spent += time;
      if (round > 0) times[p].push_back(time);
    }
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const auto quarter = times[p].begin() + static_cast<std::ptrdiff_t>(times[p].size() / 4);
    std::nth_element(times[p].begin(), quarter, times[p].end());
    plans[p].measured = *quarter;
  }
}

void print(char const* model, std::vector<plan> const& plans) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  const auto place = [&](plan const& of, double plan::*time) {
    return 1 + std::count_if(plans.begin(), plans.end(), [&](plan const& other) { return other.*time < of.*time; });
  };
  for (plan const& p : plans)
    std::printf("%-12s %-28s %10.2f %10.2f %7.2f %7d %7d\n", model, p.name, 1e3 * p.predicted, 1e3 * p.measured,
                p.predicted / p.measured, static_cast<int>(place(p, &plan::predicted)),
                static_cast<int>(place(p, &plan::measured)));
}

template <class... Policies>
using resnet = ts::parallel<ts::model::resnet_small<10>, ts::input<ts::dynamic, 1, 28, 28>, Policies...>;
using split_resnet = ts::parallel<ts::model::resnet_small<10, two>, ts::input<ts::dynamic, 1, 28, 28>>;
struct again_resnet
    : ts::chain<ts::recompute<ts::model::conv_unit<1, 16, 1>>, ts::max_pool2d<ts::window<2, 2>>,
                ts::recompute<ts::model::residual_block<16>>, ts::recompute<ts::model::conv_unit<16, 32, 2>>,
                ts::recompute<ts::model::residual_block<32>>, ts::recompute<ts::model::conv_unit<32, 64, 2>>,
                ts::recompute<ts::model::residual_block<64>>, ts::global_avg_pool<>, ts::flatten<>,
                ts::linear<64, 10>> {};

void compare_resnets(ts::machine_description const& machine, double seconds) {
  constexpr ts::shape<4> images{{256, 1, 28, 28}};
  const auto of = [&]<class Model>(std::type_identity<Model>, char const* name) {
    return plan_of<Model>(name, machine, images, 256);
  };
  std::vector<plan> plans{
      of(std::type_identity<resnet<>>{}, "each rank all"),
      of(std::type_identity<resnet<ts::data_parallel<two>>>{}, "data"),
      of(std::type_identity<split_resnet>{}, "channels"),
      of(std::type_identity<resnet<ts::input_layout<ts::shard<2, two>>>>{}, "height"),
      of(std::type_identity<resnet<ts::data_parallel<two>, ts::optimizer_parallel<two, 2>>>{},
         "data, shared optimizer"),
      of(std::type_identity<ts::parallel<again_resnet, ts::input<ts::dynamic, 1, 28, 28>, ts::data_parallel<two>>>{},
         "data, computed again")};
  measure(plans, seconds);
  print("small ResNet", plans);
}

constexpr int features = 256;
constexpr index_t positions = 64;
using sequences = ts::input<ts::dynamic, positions, features>;
using head = ts::chain<ts::layer_norm<features>, ts::linear<features, 64>, ts::flatten<0, 1>>;
template <class... Tp>
using block = ts::model::decoder_block<features, 4, 4 * features, Tp...>;
template <class Block, class... Policies>
using language = ts::parallel<ts::chain<Block, Block, head>, sequences, Policies...>;

void compare_transformers(ts::machine_description const& machine, double seconds) {
  constexpr ts::shape<3> extents{{32, positions, features}};
  const auto of = [&]<class Model>(std::type_identity<Model>, char const* name) {
    return plan_of<Model>(name, machine, extents, 32 * positions);
  };
  using by_positions =
      ts::parallel<ts::chain<ts::cut_along<1, two>, block<two>, block<two>, ts::whole_along<two>, head>, sequences>;
  std::vector<plan> plans{
      of(std::type_identity<language<block<>>>{}, "each rank all"),
      of(std::type_identity<language<block<>, ts::data_parallel<two>>>{}, "data"),
      of(std::type_identity<language<block<two>>>{}, "heads"),
      of(std::type_identity<by_positions>{}, "heads and positions"),
      of(std::type_identity<language<block<>, ts::data_parallel<two>, ts::optimizer_parallel<two, 2>>>{},
         "data, shared optimizer"),
      of(std::type_identity<language<ts::recompute<block<>>, ts::data_parallel<two>>>{}, "data, computed again")};
  measure(plans, seconds);
  print("transformer", plans);
}

}  // namespace

/// An argument, `resnet` or `transformer`, names the only model to compare.
int main(int argc, char** argv) {
  const ts::mpi_environment mpi(argc, argv);
  try {
    int size = 0;
    int rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size != 2) throw ts::error(std::to_string(size) + " ranks", "2", "start it with mpirun -n 2");
    char const* const limit = std::getenv("TESSERA_BENCHMARK_SECONDS");
    const double seconds = limit != nullptr ? std::atof(limit) : 1;
    const auto machine = calibration::measure(0.3 * seconds);
    if (rank == 0)
      std::printf("%-12s %-28s %10s %10s %7s %7s %7s\n", "step", "plan", "predict ms", "measure ms", "ratio", "place",
                  "really");
    const std::string only = argc > 1 ? argv[1] : "";
    if (only != "transformer") compare_resnets(machine, 8 * seconds);
    if (only != "resnet") compare_transformers(machine, 8 * seconds);
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
}
