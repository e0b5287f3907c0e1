#pragma once

#include "support/golden.hpp"
#include "support/worlds.hpp"

#include <tessera/core/error.hpp>
#include <tessera/redistribute/to.hpp>

#include <optional>
#include <type_traits>

/// Runs reference cases on the meshes that this test run has ranks for, with every cut of an operator.
namespace golden {

template <int Size>
struct first_axis : tessera::axis<Size> {};
template <int Size>
struct second_axis : tessera::axis<Size> {};

using single_mesh = tessera::mesh<>;
using pair_mesh = tessera::mesh<first_axis<2>>;
using line_mesh = tessera::mesh<first_axis<4>>;
using square_mesh = tessera::mesh<first_axis<2>, second_axis<2>>;

/// What each axis of a mesh cuts: a letter of the operator's dimensions, or `-` for nothing.
template <tessera::device_mesh Mesh, char... By>
struct cuts {
  static_assert(sizeof...(By) == Mesh::axes);
  using mesh = Mesh;
  static constexpr char by[sizeof...(By) + 1] = {By..., 0};

  /// Into how many parts a letter is cut.
  static constexpr index_t parts(char letter) {
    index_t n = 1;
    for (int a = 0; a < Mesh::axes; ++a)
      if (by[a] == letter) n *= Mesh::sizes[static_cast<std::size_t>(a)];
    return n;
  }

  /// The layout of a tensor whose dimensions have these letters.
  template <char... Dims>
  static constexpr tessera::placements<Mesh::axes> value = [] {
    constexpr char dims[] = {Dims..., 0};
    tessera::placements<Mesh::axes> out;
    for (int a = 0; a < Mesh::axes; ++a)
      for (int d = 0; d < static_cast<int>(sizeof...(Dims)); ++d)
        if (dims[d] == by[a]) out[a] = tessera::shard_placement(d);
    return out.normalized();
  }();
  template <char... Dims>
  using of = tessera::layout_of<Mesh, value<Dims...>>;
};

/// Calls `f(multi-index)` for each element in C order.
template <int Rank, class F>
void walk(tessera::shape<Rank> const& extents, F f) {
  std::array<index_t, static_cast<std::size_t>(Rank)> at{};
  for (index_t i = 0; i < extents.size(); ++i) {
    f(at);
    for (int d = Rank - 1; d >= 0; --d) {
      if (++at[static_cast<std::size_t>(d)] < extents[d]) break;
      at[static_cast<std::size_t>(d)] = 0;
    }
  }
}

template <int Rank>
tessera::shape<Rank> extents_of(array const& a) {
  if (a.extents.size() != Rank)
    throw tessera::error("an array of " + std::to_string(a.extents.size()) + " dimensions", std::to_string(Rank),
                         "choose the run of the case by its rank");
  tessera::shape<Rank> s;
  for (int d = 0; d < Rank; ++d) s[d] = a.extents[static_cast<std::size_t>(d)];
  return s;
}

/// A whole array of a case.
template <class T, int Rank>
tessera::tensor<T, Rank> whole(array const& a) {
  tessera::tensor<T, Rank> out(extents_of<Rank>(a));
  std::size_t i = 0;
  walk(out.extents(), [&](auto const& at) {
    std::apply([&](auto... along) { out(along...) = static_cast<T>(a.values[i]); }, at);
    ++i;
  });
  return out;
}

/// This rank's block of an array.
template <class T, int Rank, tessera::layout_word Layout, class Team>
auto put(Team& team, array const& a) {
  return tessera::distribute<Layout>(team, whole<T, Rank>(a));
}

/// An array in the layout of the gradient of `Y`: cut alike, replicated where `Y` is partial.
template <class Y, class Team>
auto put_gradient(Team& team, array const& a) {
  using layout = tessera::layout_of<typename Y::mesh, tessera::dual(Y::placements)>;
  return put<typename Y::value_type, Y::rank, layout>(team, a);
}

/// A tensor's values in C order, gathered from all ranks.
template <tessera::sharded_tensor Y>
std::vector<double> values_of(Y const& y) {
  const auto all = tessera::gather(y);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(all.size()));
  walk(all.extents(), [&](auto const& at) {
    std::apply([&](auto... along) { values.push_back(static_cast<double>(all(along...))); }, at);
  });
  return values;
}

/// Compares a tensor, brought to every rank, with an output or gradient of the case.
template <tessera::sharded_tensor Y>
void expect(trial& t, std::string const& name, Y const& y) {
  t.expect(name, {y.extents().extents.begin(), y.extents().extents.end()}, values_of(y));
}

/// The meshes that fit the ranks of this test run.
struct teams {
  std::optional<worlds::serial_team<single_mesh>> single{};
  std::optional<worlds::parallel_team<pair_mesh>> pair{};
  std::optional<worlds::parallel_team<line_mesh>> line{};
  std::optional<worlds::parallel_team<square_mesh>> square{};

  teams() {
    const tessera::mpi_comm world;
    if (world.size() == 1) single.emplace(tessera::serial_comm{});
    if (world.size() == 2) pair.emplace(world);
    if (world.size() == 4) {
      line.emplace(world);
      square.emplace(world);
    }
  }
};

/// Runs the cases of an operator in every folder. `f(teams, case)` returns false where the library lacks what the case
/// needs; those cases are counted and reported.
template <class F>
void run(std::string const& op, F const& f) {
  teams all;
  for (folder const& from : folders()) {
    int compared = 0;
    int lacking = 0;
    for (test_case const& c : from.cases) {
      if (c.op != op) continue;
      CAPTURE(c.name);
      ++(f(all, c) ? compared : lacking);
    }
    if (compared > 0) say(op + ": " + std::to_string(compared) + " cases of " + from.path);
    if (lacking > 0) say("not built yet: " + std::to_string(lacking) + " cases of " + op + " of " + from.path);
  }
}

namespace detail {

template <class Op, class Cuts>
constexpr bool takes() {
  if constexpr (requires { Op::template takes<Cuts>(); })
    return Op::template takes<Cuts>();
  else
    return true;
}

/// One run, with one element type on one mesh with one cut.
template <class Op, class T, class Cuts, class Team>
void run_once(Team& team, test_case const& c) {
  if constexpr (takes<Op, Cuts>())
    attempt(c, {std::is_same_v<T, float> ? "float" : "double", Cuts::mesh::devices, Cuts::by},
            [&](trial& t) { Op::template run<T, Cuts>(team, t); });
}

template <class Op, class T, char Letter, char... Others>
void run_square(teams& all, test_case const& c) {
  (run_once<Op, T, cuts<square_mesh, Letter, Others>>(*all.square, c), ...);
}

/// Each letter with itself, with those after it, and with an axis that cuts nothing.
template <class Op, class T>
void run_squares(teams&, test_case const&) {}
template <class Op, class T, char First, char... Rest>
void run_squares(teams& all, test_case const& c) {
  run_square<Op, T, First, First, Rest..., '-'>(all, c);
  run_squares<Op, T, Rest...>(all, c);
}

template <class Op, class T, char... Letters>
void run_cuts(teams& all, test_case const& c) {
  if (all.single) run_once<Op, T, cuts<single_mesh>>(*all.single, c);
  // Each mesh with one element type, to compile in time: cuts and kernels do not depend on each other, and the square
  // mesh has all cuts of the others.
  if constexpr (std::is_same_v<T, float>) {
    if (all.pair) (run_once<Op, T, cuts<pair_mesh, Letters>>(*all.pair, c), ...);
    if (all.line) (run_once<Op, T, cuts<line_mesh, Letters>>(*all.line, c), ...);
  } else if (all.square) {
    run_squares<Op, T, Letters...>(all, c);
  }
}

}  // namespace detail

/// Runs a case with every assignment of the letters to the axes of the meshes at hand: on one rank in float and double,
/// on lines of ranks in float, on the square in double.
///
/// `Op::run<T, Cuts>(team, trial)` computes and compares; `Op::takes<Cuts>()`, where it exists, says whether the
/// operator has this cut.
template <class Op, char... Letters>
bool run_cuts(teams& all, test_case const& c) {
  detail::run_cuts<Op, float, Letters...>(all, c);
  detail::run_cuts<Op, double, Letters...>(all, c);
  return true;
}

}  // namespace golden
