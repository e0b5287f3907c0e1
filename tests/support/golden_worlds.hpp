#pragma once

#include "support/golden.hpp"
#include "support/worlds.hpp"

#ifdef TESSERA_TESTS_ON_ASCEND
#include "ascend/devices.hpp"
#endif

#include <tessera/backend/transfer.hpp>
#include <tessera/core/error.hpp>
#include <tessera/redistribute/to.hpp>

#include <algorithm>
#include <optional>
#include <type_traits>

/// Runs reference cases on the meshes that this test run has ranks for, with every cut of an operator.
namespace golden {

#ifdef TESSERA_TESTS_ON_ASCEND
inline constexpr bool on_devices = true;
template <class Mesh>
using serial_team = job::devices<Mesh>;
template <class Mesh>
using parallel_team = job::devices<Mesh>;
inline auto serial_world() { return job::team_world(); }
inline auto parallel_world() { return job::team_world(); }
#else
inline constexpr bool on_devices = false;
using worlds::parallel_team;
using worlds::serial_team;
inline auto serial_world() { return tessera::serial_comm{}; }
inline auto parallel_world() { return tessera::mpi_comm{}; }
#endif

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
  const auto all = tessera::to_host(y.where().kernels(), tessera::gather(y));
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

/// Elements in the memory of the backend, for the host.
template <class Team, class T>
std::vector<T> on_host(Team& team, T const* elements, index_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  team.kernels().download(elements, values.data(), count);
  return values;
}

/// Gives a tensor's block other elements of the backend's memory.
template <tessera::sharded_tensor Y, class T>
void assign(Y& y, T const* elements) {
  const auto from = on_host(y.where(), elements, y.local().size());
  tessera::detail::write_on_host(y.where().kernels(), y.local(), [&](auto to) {
    std::transform(from.begin(), from.end(), to.data, [](T v) { return static_cast<typename Y::value_type>(v); });
  });
}

/// The meshes that fit the ranks of this test run.
struct teams {
  std::optional<serial_team<single_mesh>> single{};
  std::optional<parallel_team<pair_mesh>> pair{};
  std::optional<parallel_team<line_mesh>> line{};
  std::optional<parallel_team<square_mesh>> square{};

  teams() {
    const int ranks = worlds::size();
    if (ranks == 1) single.emplace(serial_world());
    if (ranks == 2) pair.emplace(parallel_world());
    if (ranks == 4) {
      if constexpr (!on_devices) line.emplace(parallel_world());
      square.emplace(parallel_world());
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

template <class Op, char... Letters>
void run_cuts_on_devices(teams& all, test_case const& c) {
  if (all.single) run_once<Op, float, cuts<single_mesh>>(*all.single, c);
  if (all.pair) (run_once<Op, float, cuts<pair_mesh, Letters>>(*all.pair, c), ...);
  if (!all.square) return;
  constexpr char letters[] = {Letters..., '-'};
  constexpr int neighbours = std::max(1, static_cast<int>(sizeof...(Letters)) - 1);
  [&]<int... I>(std::integer_sequence<int, I...>) {
    if constexpr (sizeof...(Letters) > 0)
      (run_once<Op, float, cuts<square_mesh, letters[I], letters[I + 1]>>(*all.square, c), ...);
  }(std::make_integer_sequence<int, neighbours>{});
}

}  // namespace detail

/// Runs a case with every assignment of the letters to the axes of the meshes at hand: on one rank in float and double,
/// on lines of ranks in float, on the square in double; on devices in float, on the square each letter beside the next.
///
/// `Op::run<T, Cuts>(team, trial)` computes and compares; `Op::takes<Cuts>()`, where it exists, says whether the
/// operator has this cut.
template <class Op, char... Letters>
bool run_cuts(teams& all, test_case const& c) {
  if constexpr (on_devices) {
    detail::run_cuts_on_devices<Op, Letters...>(all, c);
  } else {
    detail::run_cuts<Op, float, Letters...>(all, c);
    detail::run_cuts<Op, double, Letters...>(all, c);
  }
  return true;
}

}  // namespace golden
