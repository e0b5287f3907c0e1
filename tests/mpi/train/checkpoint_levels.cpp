#include "support/checkpoints.hpp"

#include <tessera/train/weights.hpp>

// Checkpoints of models whose ranks own slices, in models of other levels and meshes.

namespace {

using namespace checkpoints;

template <class Dp, class Tp, class... Policies>
using split_model = parallel<chain<conv2d<1, 6, window<3, 1, 1>, split_output<Tp>>, batch_norm2d<6>, relu,
                                   conv2d<6, 5, window<3, 1, 1>, split_input<Tp>>, flatten<>, linear<80, 3>>,
                             input<dynamic, 1, 4, 4>, data_parallel<Dp>, fuse::at<2, 4>, Policies...>;
/// One bucket, in which blocks of different sizes lie beside parameters that ranks hold alike.
template <class Dp, class Tp, class... Policies>
using uneven_model =
    parallel<chain<flatten<>, linear<16, 20>, relu, linear<20, 7, split_output<Tp>>, linear<7, 3, split_input<Tp>>>,
             input<dynamic, 1, 4, 4>, data_parallel<Dp>, fuse::all, Policies...>;
template <template <class, class, class...> class Model, int Dp, int Tp, int Level>
using shared = Model<dp<Dp>, tp<Tp>, optimizer_parallel<dp<Dp>, Level>>;

constexpr adam optimizer{.learning_rate = 0.01, .weight_decay = 0.01};

template <class Net>
auto trainer_of(Net& net) {
  return trainer(net, cross_entropy{}, optimizer);
}

/// Parameters and states, whole, and the moments of the optimizer, which another step shows.
template <class Trainer>
auto all_of(Trainer& trainer) {
  auto all = whole(trainer.model());
  trainer.fit({images(), 36, 0.5f, 1, {.seed = 5}}, epochs{1});
  for (auto& [name, values] : whole(trainer.model())) all["then " + name] = values;
  return all;
}

/// Loads a checkpoint into a model of another kind, trains a step, and compares within rounding; loading itself is
/// exact.
template <class Model, class Team>
void loads(Team& team, std::filesystem::path const& checkpoint,
           std::map<std::string, std::vector<double>> const& wanted) {
  auto net = team.template make<Model>(seed{5});
  whole(net);  // values that are gathered before are not those that count
  auto other = trainer_of(net);
  load_checkpoint(other, checkpoint);
  CHECK(other.steps() == 4);
  const auto found = all_of(other);
  REQUIRE(found.size() == wanted.size());
  for (auto const& entry : wanted) {
    std::string const& name = entry.first;
    auto const& values = entry.second;
    CAPTURE(name);
    auto const& mine = found.at(name);
    REQUIRE(mine.size() == values.size());
    if (!name.starts_with("then ")) {
      CHECK(mine == values);
      continue;
    }
    double apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i) apart = std::max(apart, std::abs(values[i] - mine[i]));
    CHECK(apart < 2e-4);  // a step of Adam moves by 0.01
  }
}

template <template <class, class, class...> class Saved, int Dp, int Tp, int Level>
void save_and_load() {
  const mpi_comm world;
  if (world.size() != Dp * Tp) return;
  CAPTURE(Level);
  const shared_folder folder;
  worlds::parallel_team<mesh<dp<Dp>, tp<Tp>>> team{mpi_comm{}};
  auto net = team.template make<shared<Saved, Dp, Tp, Level>>(seed{4});
  auto first = trainer_of(net);
  first.fit(batches(), epochs{1});
  save_checkpoint(first, folder.path(), {});
  export_weights(net, folder.path() / "weights.safetensors");
  const auto weights = whole(net);
  const auto checkpoint = *newest_checkpoint(folder.path());
  const auto wanted = all_of(first);

  loads<shared<Saved, Dp, Tp, Tp == 1 ? 1 : 3>>(team, checkpoint, wanted);
  loads<Saved<dp<Dp>, tp<Tp>>>(team, checkpoint, wanted);
  if (world.rank() == 0) {
    worlds::serial_team<mesh<dp<1>, tp<1>>> alone{serial_comm{}};
    loads<shared<Saved, 1, 1, 2>>(alone, checkpoint, wanted);
  }
  mpi_comm().barrier();
  auto imported = team.template make<shared<Saved, Dp, Tp, Level>>(seed{6});
  import_weights(imported, folder.path() / "weights.safetensors");
  CHECK(whole(imported) == weights);
}

}  // namespace

TEST_CASE("a checkpoint of any level loads into any other, to the bit, and training goes on") {
  save_and_load<split_model, 2, 1, 3>();
  save_and_load<split_model, 2, 2, 3>();
  save_and_load<uneven_model, 2, 2, 1>();
  save_and_load<uneven_model, 2, 2, 3>();
}

TEST_CASE("a checkpoint of four ranks with slices loads into two without and with others") {
  const mpi_comm world;
  if (world.size() != 4) return;
  const shared_folder folder;
  worlds::parallel_team<mesh<dp<4>, tp<1>>> team{mpi_comm{}};
  auto net = team.make<shared<split_model, 4, 1, 3>>(seed{4});
  auto first = trainer_of(net);
  first.fit(batches(), epochs{1});
  save_checkpoint(first, folder.path(), {});
  const auto checkpoint = *newest_checkpoint(folder.path());
  const auto wanted = all_of(first);
  const mpi_comm two = world.split(world.rank() < 2 ? 0 : 1, world.rank());
  if (world.rank() < 2) {
    worlds::parallel_team<mesh<dp<2>, tp<1>>> pair{two};
    loads<split_model<dp<2>, tp<1>>>(pair, checkpoint, wanted);
    loads<shared<split_model, 2, 1, 3>>(pair, checkpoint, wanted);
  }
}
