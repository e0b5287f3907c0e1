#pragma once

#include "support/worlds.hpp"

#include <tessera/backend/transfer.hpp>
#include <tessera/plan/parallel.hpp>
#include <tessera/train/batches.hpp>
#include <tessera/train/trainer.hpp>

#include <map>

/// Training a model split in every way against the serial run.
namespace equal_to_serial {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct data_axis : axis<Size> {};
template <int Size>
struct tensor_axis : axis<Size> {};

constexpr index_t rows = 13;  // not divisible by any axis
constexpr index_t steps = 20;

/// The losses of some steps, and the whole parameters after them.
struct run_result {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> parameters;
};

template <class Team, class Net>
auto whole_parameters(Team& team, Net& net) {
  std::map<std::string, std::vector<double>> all;
  eigen host;
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto whole = from_host(host, to_host(team.kernels(), gather(value)));
    all[name].assign(whole.read().begin(), whole.read().end());
  });
  return all;
}

template <class T, class Model, class Team, int Rank, class Optimizer>
run_result train(Team& team, shape<Rank> const& extents, index_t classes, Optimizer optimizer, options choice) {
  auto net = team.template make<Model, T>(seed{7});
  trainer fit(net, cross_entropy{}, optimizer, choice);
  using input_type = typename decltype(net)::input_type;
  run_result result;
  for (index_t s = 0; s < steps; ++s) {
    const auto images = worlds::values<T>(extents, static_cast<std::uint64_t>(s));
    const auto x = distribute<typename input_type::layout_type>(team, images);
    const auto labels =
        worlds::rows_of(worlds::labels(rows, classes, static_cast<std::uint64_t>(s)), output_rows(net, rows));
    result.losses.push_back(fit.step(x, labels));
  }
  result.parameters = whole_parameters(team, net);
  return result;
}

inline void compare(run_result const& found, run_result const& wanted, double bound) {
  REQUIRE(found.losses.size() == wanted.losses.size());
  for (std::size_t s = 0; s < wanted.losses.size(); ++s) {
    CAPTURE(s);
    CHECK(std::abs(found.losses[s] - wanted.losses[s]) <= bound * (1 + std::abs(wanted.losses[s])));
  }
  CHECK(wanted.losses.front() != wanted.losses.back());
  REQUIRE(found.parameters.size() == wanted.parameters.size());
  for (auto const& entry : wanted.parameters) {
    std::string const& name = entry.first;
    CAPTURE(name);
    std::vector<double> const& other = found.parameters.at(name);
    REQUIRE(other.size() == entry.second.size());
    double most = 0.1;  // weights are of this size or larger
    double apart = 0;
    for (std::size_t i = 0; i < other.size(); ++i) {
      most = std::max(most, std::abs(entry.second[i]));
      apart = std::max(apart, std::abs(entry.second[i] - other[i]));
    }
    CHECK(apart <= bound * most);
  }
}

/// Trains `Model<Dp, Tp>` on a mesh of these sizes if this run has as many ranks.
template <class T, template <class, class> class Model, int Dp, int Tp, int Rank, class Optimizer>
void on_mesh(run_result const& wanted, shape<Rank> const& extents, index_t classes, Optimizer optimizer, double bound,
             options const& choice = {}) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  worlds::parallel_team<mesh<data_axis<Dp>, tensor_axis<Tp>>> team{mpi_comm{}};
  compare(train<T, Model<data_axis<Dp>, tensor_axis<Tp>>>(team, extents, classes, optimizer, choice), wanted, bound);
}

/// The serial run that the others are compared with: one rank, no message passing.
template <class T, template <class, class> class Model, int Rank, class Optimizer>
run_result serial(shape<Rank> const& extents, index_t classes, Optimizer optimizer, options const& choice = {}) {
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> alone{serial_comm{}};
  return train<T, Model<data_axis<1>, tensor_axis<1>>>(alone, extents, classes, optimizer, choice);
}

template <class T, template <class, class> class Model, int Rank, class Optimizer = momentum>
void on_all_meshes(shape<Rank> const& extents, index_t classes, Optimizer optimizer, double bound,
                   options const& choice = {}) {
  const auto wanted = serial<T, Model>(extents, classes, optimizer, choice);
  on_mesh<T, Model, 1, 1>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 2, 1>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 1, 2>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 4, 1>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 1, 4>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 2, 2>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 8, 1>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 1, 8>(wanted, extents, classes, optimizer, bound, choice);
  on_mesh<T, Model, 2, 4>(wanted, extents, classes, optimizer, bound, choice);
}

}  // namespace equal_to_serial
