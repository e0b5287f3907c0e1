#pragma once

#include "support/listed_calls.hpp"

#include <tessera/plan/parallel.hpp>

#include <map>
#include <type_traits>

/// One forward and backward pass of a model, split over the ranks of the run and on one rank.
namespace against_serial {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct first : axis<Size> {};
template <int Size>
struct second : axis<Size> {};

/// Whole values: the output, and the gradient of each parameter and the value of each state by name.
template <class T>
struct outcome {
  std::vector<T> output;
  std::map<std::string, std::vector<T>> parameters;
};

template <class T, class Tensor>
std::vector<T> list(Tensor const& whole) {
  return {whole.read().begin(), whole.read().end()};
}

template <class Model, class T, class Team, int Rank>
outcome<T> pass(Team& team, shape<Rank> const& extents) {
  auto net = team.template make<Model, T>(seed{5});
  using net_type = decltype(net);
  const auto x = distribute<typename net_type::input_type::layout_type>(team, worlds::values<T>(extents, 1));
  const auto y = net.forward(x);
  net.backward(distribute<typename net_type::output_type::layout_type>(team, worlds::values<T>(y.extents(), 2)));
  // A gradient has the layout of its parameter, so that it is gathered in its place.
  for (auto const& p : net.parameters())
    if (p.trainable) std::copy(p.gradient.begin(), p.gradient.end(), p.value.begin());
  outcome<T> result{list<T>(gather(y)), {}};
  net.for_each_parameter(
      [&](std::string const& name, auto const& value) { result.parameters[name] = list<T>(gather(value)); });
  return result;
}

template <class T>
void compare(std::vector<T> const& found, std::vector<T> const& wanted, double bound) {
  REQUIRE(found.size() == wanted.size());
  double most = 1e-30;
  double apart = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(wanted[i])));
    apart = std::max(apart, std::abs(static_cast<double>(found[i]) - static_cast<double>(wanted[i])));
  }
  CHECK(apart <= bound * most);
}

template <class T>
void compare(outcome<T> const& found, outcome<T> const& wanted, double bound) {
  compare(found.output, wanted.output, bound);
  REQUIRE(found.parameters.size() == wanted.parameters.size());
  for (auto const& entry : wanted.parameters) {
    CAPTURE(entry.first);
    compare(found.parameters.at(entry.first), entry.second, bound);
  }
}

/// `Model<A, B>` on a mesh of A x B, if the run has as many ranks, in double, against one rank. Returns what the
/// single rank gave.
template <template <class, class> class Model, int A, int B, int Rank>
void on_mesh(shape<Rank> const& extents) {
  if (worlds::size() != A * B) return;
  CAPTURE(A);
  CAPTURE(B);
  worlds::serial_team<mesh<first<1>, second<1>>> alone{serial_comm{}};
  const recording<mpi_comm> all{mpi_comm{}};
  worlds::recorded_team<mesh<first<A>, second<B>>> team{all};
  compare(pass<Model<first<A>, second<B>>, double>(team, extents),
          pass<Model<first<1>, second<1>>, double>(alone, extents), 1e-12);
}

/// On all meshes of two axes of 2 and 4 ranks.
template <template <class, class> class Model, int Rank>
void on_meshes(shape<Rank> const& extents) {
  on_mesh<Model, 2, 1>(extents);
  on_mesh<Model, 1, 2>(extents);
  on_mesh<Model, 4, 1>(extents);
  on_mesh<Model, 1, 4>(extents);
  on_mesh<Model, 2, 2>(extents);
}

}  // namespace against_serial
