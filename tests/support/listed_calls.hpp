#pragma once

#include "support/worlds.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/plan/collectives.hpp>

#include <tuple>

namespace worlds {

/// Ranks that record their calls.
template <class Mesh>
using recorded_team = tessera::team<Mesh, tessera::recording<tessera::mpi_comm>>;

/// A pass of `Model` on a team that records makes exactly the collectives that its type lists. `input(extents)` gives
/// the whole input.
template <class Model, class T = float, class Team, int Rank, class Input>
void check_listed_calls_of(Team& team, tessera::shape<Rank> const& extents, Input input) {
  using namespace tessera;
  using tessera::index_t;
  using Mesh = typename Team::mesh;
  using entry = std::tuple<collective, axis_set, reduction, index_t>;  // kind, axes, operation, elements
  CAPTURE(Mesh::sizes[0]);
  CAPTURE(Mesh::sizes[1]);
  auto net = team.template make<Model, T>(seed{3});
  const auto x = distribute<typename decltype(net)::input_type::layout_type>(team, input(extents));
  auto& log = team.group(Mesh::all);
  log.clear();
  const auto y = net.forward(x);
  const std::size_t forward = log.calls().size();
  net.backward(y);

  // Rings and halos are one entry of the list and many messages: compared by what this rank receives in each phase.
  std::vector<entry> found;
  std::ptrdiff_t found_forward = 0;
  index_t received[2] = {};
  for (std::size_t i = 0; i < log.calls().size(); ++i) {
    auto const& call = log.calls()[i];
    if (call.kind == collective::receive) received[i < forward ? 0 : 1] += call.elements;
    if (call.kind == collective::receive || call.kind == collective::send) continue;
    found.emplace_back(call.kind, call.group, call.op, call.elements);
    found_forward += i < forward;
  }
  constexpr collective_list<Model, Mesh> list;
  std::vector<entry> wanted;
  std::ptrdiff_t wanted_forward = 0;
  index_t messages[2] = {};
  for (int i = 0; i < list.size(); ++i) {
    const index_t elements = list.elements(i, extents[0], team.coordinates());
    if (list[i].kind == collective::ring || list[i].kind == collective::halo) {
      messages[list[i].when == phase::forward ? 0 : 1] += elements;
      continue;
    }
    wanted.emplace_back(list[i].kind, list[i].group, list[i].op, elements);
    wanted_forward += list[i].when == phase::forward;
  }
  CHECK(received[0] == messages[0]);
  CHECK(received[1] == messages[1]);
  REQUIRE(found.size() == wanted.size());
  // Gathers of shared parameters come between the other calls of forward.
  const auto gathers = list.count(phase::parameter);
  REQUIRE(found_forward >= wanted_forward);
  REQUIRE(found_forward <= wanted_forward + gathers);
  auto next = found.begin();
  for (std::ptrdiff_t i = 0; i < wanted_forward; ++i) {
    next = std::find(next, found.begin() + found_forward, wanted[static_cast<std::size_t>(i)]);
    REQUIRE(next != found.begin() + found_forward);
    ++next;
  }
  // Buckets are reduced during backward, as soon as they are complete: the order differs from the list's there.
  std::sort(found.begin(), found.end());
  std::sort(wanted.begin(), wanted.end());
  CHECK(found == wanted);
}

/// The same on `Mesh`, if this run has as many ranks.
template <class Mesh, class Model, class T = float, int Rank, class Input>
void check_listed_calls(tessera::shape<Rank> const& extents, Input input) {
  if (size() != Mesh::devices) return;
  const tessera::recording<tessera::mpi_comm> all{tessera::mpi_comm{}};
  recorded_team<Mesh> team{all};
  check_listed_calls_of<Model, T>(team, extents, input);
}

}  // namespace worlds
