#pragma once

#include "support/checkpoints.hpp"
#include "support/golden_worlds.hpp"

#include <tessera/layer/recompute.hpp>
#include <tessera/train/weights.hpp>

#include <filesystem>

/// Reference networks under every policy: started from a file of weights, trained by a trainer, and given back as a
/// file, so that how parameters are held does not matter.
namespace policies {

using namespace tessera;
using tessera::index_t;

struct a : axis<2> {};
struct b : axis<2> {};
struct c : axis<2> {};

/// The whole model on one rank, from whose files the others start, and into which their weights are read.
template <class Model>
struct whole_model {
  worlds::serial_team<mesh<>> team{serial_comm{}};
  network<Model, worlds::serial_team<mesh<>>> net{team, seed{}};
  checkpoints::shared_folder folder;
  std::filesystem::path file = folder.path() / "weights.safetensors";

  whole_model() {
    const mpi_comm world;
    if (world.rank() == 0) std::filesystem::create_directories(folder.path());
  }
  void save() {
    mpi_comm world;
    if (world.rank() == 0) export_weights(net, file);
    world.barrier();
  }
  void load() { import_weights(net, file); }
};

/// Rows `[part.begin, part.end())` of an array of a case.
inline golden::array rows(golden::array const& all, interval part) {
  golden::array some = all;
  const auto size = static_cast<index_t>(all.values.size()) / all.extents.at(0);
  some.extents[0] = part.size;
  const auto begin = all.values.begin() + part.begin * size;
  some.values.assign(begin, begin + part.size * size);
  return some;
}

/// Trains `Model` on `Mesh` from the weights of `whole`, in `parts` micro-batches, which leaves its weights there.
/// Returns the losses of the steps and that after them. `targets(model, rows)` are those of a part of the batch.
template <class Model, class Mesh, int Rank, class Whole, class Loss, class Optimizer, class Targets>
std::vector<double> train(Whole& whole, golden::array const& input, int parts, index_t steps, Loss loss,
                          Optimizer optimizer, options const& choice, Targets targets) {
  worlds::parallel_team<Mesh> team{mpi_comm{}};
  auto net = team.template make<Model>(seed{9});
  using net_type = decltype(net);
  import_weights(net, whole.file);
  trainer fit(net, loss, optimizer, choice);
  std::vector<typename net_type::input_type> x;
  std::vector<decltype(targets(net, interval{}))> wanted;
  for (int i = 0; i < parts; ++i) {
    const interval part = cut({0, input.extents[0]}, parts, i);
    x.push_back(golden::put<float, Rank, typename net_type::input_type::layout_type>(team, rows(input, part)));
    wanted.push_back(targets(net, part));
  }
  std::vector<double> losses;
  for (index_t s = 0; s < steps; ++s) losses.push_back(fit.step(x, wanted));
  // The last loss is that after the last step; running statistics see it, parameters do not.
  fit.optimizer().learning_rate = 0;
  losses.push_back(fit.step(x, wanted));
  mpi_comm world;
  world.barrier();
  export_weights(net, whole.file);
  world.barrier();
  return losses;
}

}  // namespace policies
