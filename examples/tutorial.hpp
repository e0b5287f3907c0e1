#pragma once

#include <tessera/tessera.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

/// What the programs tutorial_*.cpp share: a small problem, its training, and the comparison of two runs.
namespace tutorial {

namespace ts = tessera;

// [problem]
/// 49 points of 16 numbers, each near one of ten centres. The same on every rank.
struct points {
  ts::tensor<float, 2> x{{49, 16}};
  std::vector<std::int64_t> labels;

  points() {
    const ts::philox centre(7, 0);
    const ts::philox noise(7, 1);
    for (ts::index_t n = 0; n < x.extent(0); ++n) {
      labels.push_back(n % 10);
      for (ts::index_t i = 0; i < x.extent(1); ++i) {
        const auto coordinate = static_cast<std::uint64_t>(labels.back() * x.extent(1) + i);
        const auto element = static_cast<std::uint64_t>(n * x.extent(1) + i);
        x(n, i) = static_cast<float>(centre.normal(coordinate) + 0.5 * noise.normal(element));
      }
    }
  }
  std::vector<std::int64_t> labels_of(ts::interval rows) const {
    return {labels.begin() + rows.begin, labels.begin() + rows.end()};
  }
};
// [problem]

/// What a run leaves: the loss of each step, and all elements of all parameters at the end.
struct outcome {
  std::vector<double> losses;
  std::vector<float> parameters;
};

// [train]
/// Twenty steps of a model on any mesh.
template <class Model, class Team>
outcome train(Team& team) {
  auto model = team.template make<Model>(ts::seed{1});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::momentum{.learning_rate = 0.05, .momentum = 0.9}};

  // This rank's rows of the points, and the labels of its rows of the output. In a serial run both are all.
  const points all;
  const auto x = ts::distribute<typename decltype(model)::input_type::layout_type>(team, all.x);
  const auto labels = all.labels_of(ts::output_rows(model, all.x.extent(0)));

  outcome result;
  for (int step = 0; step < 20; ++step) result.losses.push_back(trainer.step(x, labels));
  model.for_each_parameter([&](std::string const&, auto const& parameter) {
    const auto whole = ts::gather(parameter);
    result.parameters.insert(result.parameters.end(), whole.data(), whole.data() + whole.size());
  });
  return result;
}
// [train]

template <class T>
double worst_difference(std::vector<T> const& a, std::vector<T> const& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(a[i] - b[i])));
  return worst;
}

/// Whether two runs are equal but for rounding: sums over ranks are taken in another order than in one block, so losses
/// and weights, which are of the order of 1, may differ by some float roundings (6e-8) a step.
inline bool equal(outcome const& serial, outcome const& split, int rank) {
  const double losses = worst_difference(serial.losses, split.losses);
  const double parameters = worst_difference(serial.parameters, split.parameters);
  if (rank == 0)
    std::printf("loss %.6f, serial %.6f; largest difference: losses %.1e, parameters %.1e\n", split.losses.back(),
                serial.losses.back(), losses, parameters);
  return losses < 1e-5 && parameters < 1e-5;
}

}  // namespace tutorial
