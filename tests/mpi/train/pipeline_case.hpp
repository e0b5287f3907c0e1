#pragma once

#include "support/worlds.hpp"

#include <tessera/plan/pipeline.hpp>
#include <tessera/train/trainer.hpp>

#include <map>

/// Training a model in stages against the serial run of the same parts of each batch.
namespace pipeline_case {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct pipe_axis : axis<Size> {};
template <int Size>
struct data_axis : axis<Size> {};
template <int Size>
struct tensor_axis : axis<Size> {};

constexpr std::uint64_t steps = 4;

/// The losses of some steps, and the whole parameters and states of this rank after them.
struct run_result {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> parameters;
};

/// A few steps on batches whose parts have so many rows of these extents.
template <class Net, class Team, int Rank>
run_result train(Net& net, Team& team, shape<Rank> extents, index_t classes, std::vector<index_t> const& parts,
                 options const& choice) {
  using input_type = typename Net::input_type;
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.05, .momentum = 0.9}, choice);
  run_result result;
  for (std::uint64_t s = 0; s < steps; ++s) {
    std::vector<input_type> x;
    std::vector<std::vector<std::int64_t>> targets;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      extents[0] = parts[i];
      const std::uint64_t stream = 100 * s + i;
      const auto values = worlds::values<double>(extents, stream);
      x.push_back(distribute<typename input_type::layout_type>(team, values));
      targets.push_back(worlds::rows_of(worlds::labels(parts[i], classes, stream), x.back().part()[0]));
    }
    result.losses.push_back(fit.step(x, targets));
  }
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto whole = gather(value);
    result.parameters[name].assign(whole.read().begin(), whole.read().end());
  });
  return result;
}

/// Trains `Model<Dp, Tp>` in stages on a mesh of these sizes, if this run has as many ranks, and compares it with the
/// serial run. `Level` is that of `optimizer_parallel`, 0 for none.
template <template <class, class> class Model, class Schedule, int Pp, int Dp, int Tp, int Level = 0, int Rank>
void compare(shape<Rank> const& extents, index_t classes, std::vector<index_t> const& parts,
             options const& choice = {}) {
  if (worlds::size() != Pp * Dp * Tp) return;
  CAPTURE(Pp);
  CAPTURE(Dp);
  CAPTURE(Tp);
  CAPTURE(parts.size());
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> alone{serial_comm{}};
  auto serial = alone.template make<Model<data_axis<1>, tensor_axis<1>>, double>(seed{7});
  const run_result wanted = train(serial, alone, extents, classes, parts, choice);

  using world = mesh<data_axis<Dp>, pipe_axis<Pp>, tensor_axis<Tp>>;
  using shared = std::conditional_t<Level == 0, fuse::bytes<(index_t{4} << 20)>, optimizer_parallel<data_axis<Dp>, Level>>;
  using model = parallel<Model<data_axis<Dp>, tensor_axis<Tp>>, data_parallel<data_axis<Dp>>, shared,
                         pipeline<pipe_axis<Pp>, Schedule>>;
  worlds::parallel_team<world> team{mpi_comm{}};
  auto net = team.template make<model, double>(seed{7});
  const run_result found = train(net, team, extents, classes, parts, choice);

  REQUIRE(found.losses.size() == wanted.losses.size());
  for (std::size_t s = 0; s < steps; ++s)
    CHECK(std::abs(found.losses[s] - wanted.losses[s]) < 1e-12 * (1 + std::abs(wanted.losses[s])));
  CHECK(wanted.losses.front() != wanted.losses.back());
  for (auto const& [name, values] : found.parameters) {
    std::vector<double> const& other = wanted.parameters.at(name);
    REQUIRE(values.size() == other.size());
    double apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i) apart = std::max(apart, std::abs(values[i] - other[i]));
    CHECK(apart < 1e-11);
  }
  // Together the stages have each parameter once.
  auto count = static_cast<std::int64_t>(found.parameters.size());
  team.group(world::template set_of<pipe_axis<Pp>>).all_reduce(&count, 1, reduction::sum);
  CHECK(count == static_cast<std::int64_t>(wanted.parameters.size()));

  using plan = pipeline_plan<model, world>;
  const int device = team.coordinates()[1];
  CHECK(net.peak_live() == plan::peak_live(device, static_cast<int>(parts.size())));
}

}  // namespace pipeline_case
