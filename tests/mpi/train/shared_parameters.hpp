#pragma once

#include "equal_to_serial.hpp"

#include <tessera/plan/training_memory.hpp>

#include <utility>

/// What tests of `optimizer_parallel` share: a run at any level, its losses, parameters and memory.
namespace shared_parameters {

using namespace equal_to_serial;

template <int Dp, int Tp>
using world_of = mesh<data_axis<Dp>, tensor_axis<Tp>>;
/// Memory of a communicator that `host_memory` counts.
template <class Mesh>
struct counted_team : worlds::parallel_team<Mesh> {
  counted_team() : worlds::parallel_team<Mesh>{mpi_comm{MPI_COMM_WORLD, {.shared_memory = false}}} {}
};

/// Bytes of tensors: with the network, after its first step, and after the first that came in parts.
struct bytes_held {
  index_t made = 0;
  index_t trained = 0;
  index_t accumulated = 0;
};

template <class T>
struct outcome {
  std::vector<double> losses{};
  std::map<std::string, std::vector<T>> parameters{};
  double norm = 0;  ///< of the gradients of the last step
  bytes_held bytes{};
};

struct plan_of_run {
  index_t steps = 4;
  index_t parts = 1;
  options choice{};
};

inline index_t live() { return static_cast<index_t>(host_memory::used().live); }

/// All rows of step `s`.
template <class T>
tensor<T, 2> batch_of(shape<2> const& extents, std::uint64_t s) {
  return worlds::values<T>(extents, s);
}
template <class T>
tensor<T, 4> batch_of(shape<4> const& extents, std::uint64_t s) {
  return worlds::values<T>(extents, s);
}
/// Indices, below 11.
template <class T>
tensor<std::int64_t, 1> batch_of(shape<1> const& extents, std::uint64_t s) {
  tensor<std::int64_t, 1> out(extents);
  const auto drawn = worlds::labels(extents[0], 11, s);
  std::copy(drawn.begin(), drawn.end(), out.data());
  return out;
}

/// Some of the rows of a batch.
template <class T, int Rank>
tensor<T, Rank> rows_of(tensor<T, Rank> const& all, interval rows) {
  auto part = box<Rank>{};
  for (int d = 0; d < Rank; ++d) part[d] = {0, all.extent(d)};
  part[0] = rows;
  tensor<T, Rank> some(part.extents());
  copy_box<T>(all.read(), part, some.view(), {});
  return some;
}

template <class Model, class T, class Team, int Rank, class Optimizer>
outcome<T> train(Team& team, shape<Rank> const& extents, index_t classes, Optimizer optimizer, plan_of_run const& how) {
  outcome<T> result;
  const index_t before = live();
  auto net = team.template make<Model, T>(seed{7});
  result.bytes.made = live() - before;
  using input_type = typename decltype(net)::input_type;
  trainer fit(net, cross_entropy{}, optimizer, how.choice);
  const auto step = [&](std::uint64_t s, index_t parts) {
    const auto all = batch_of<T>(extents, s);
    const auto labels = worlds::labels(extents[0], classes, s + 50);
    std::vector<input_type> x;
    std::vector<std::vector<std::int64_t>> targets;
    for (int p = 0; p < parts; ++p) {
      const interval some = cut({0, extents[0]}, static_cast<int>(parts), p);
      x.push_back(distribute<typename input_type::layout_type>(team, rows_of(all, some)));
      targets.push_back(worlds::rows_of(worlds::rows_of(labels, some), x.back().part()[0]));
    }
    result.losses.push_back(fit.step(x, targets));
  };
  step(100, 1);
  result.bytes.trained = live() - before;
  for (index_t s = 0; s < how.steps; ++s) step(static_cast<std::uint64_t>(s), how.parts);
  result.bytes.accumulated = live() - before;
  result.norm = global_norm(team, net.parameters());
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto whole = gather(value);
    result.parameters[name].assign(whole.read().begin(), whole.read().end());
  });
  return result;
}

/// Whether two runs differ by this much at most; 0: not in a bit.
template <class T>
void compare(outcome<T> const& found, outcome<T> const& wanted, double bound) {
  REQUIRE(found.losses.size() == wanted.losses.size());
  for (std::size_t s = 0; s < wanted.losses.size(); ++s)
    CHECK(std::abs(found.losses[s] - wanted.losses[s]) <= bound * (1 + std::abs(wanted.losses[s])));
  // The norm is a sum over slices, in another order.
  CHECK(std::abs(found.norm - wanted.norm) <= (bound + 1e-13) * wanted.norm);
  REQUIRE(found.parameters.size() == wanted.parameters.size());
  for (auto const& [name, values] : wanted.parameters) {
    auto const& other = found.parameters.at(name);
    REQUIRE(other.size() == values.size());
    double apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      apart = std::max(apart, std::abs(static_cast<double>(values[i]) - static_cast<double>(other[i])));
    CHECK(apart <= bound);
  }
}

/// Trains `Model<Dp, Tp>` without and with each level, if this run has as many ranks: the runs are alike, and their
/// memory is what `training_memory` says.
template <template <class, class, class...> class Model, int Dp, int Tp, class T, int Rank, class Optimizer>
void compare_levels(shape<Rank> const& extents, index_t classes, Optimizer optimizer, plan_of_run const& how = {},
                    double bound = 1e-12) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  using world = world_of<Dp, Tp>;
  counted_team<world> team;
  using dp = data_axis<Dp>;
  using tp = tensor_axis<Tp>;
  // Kernels keep memory from their first run on, which the others then find.
  const auto wanted = train<Model<dp, tp>, T>(team, extents, classes, optimizer, how);
  const auto run = [&]<class Tested>(std::type_identity<Tested>, double apart) {
    const auto found = train<Tested, T>(team, extents, classes, optimizer, how);
    const auto bytes = training_memory<Tested, world, T>(optimizer, team.coordinates());
    CHECK(found.bytes.made == bytes.parameters + bytes.gradients);
    CHECK(found.bytes.trained == bytes.total());
    CHECK(found.bytes.accumulated == bytes.total() + (how.parts > 1 ? bytes.accumulated : 0));
    compare(found, wanted, apart);
  };
  run(std::type_identity<Model<dp, tp>>{}, 0);
  run(std::type_identity<Model<dp, tp, optimizer_parallel<dp, 1>>>{}, how.choice.clip_norm > 0 ? bound : 0);
  run(std::type_identity<Model<dp, tp, optimizer_parallel<dp, 2>>>{}, bound);
  run(std::type_identity<Model<dp, tp, optimizer_parallel<dp, 3>>>{}, bound);
}

}  // namespace shared_parameters
