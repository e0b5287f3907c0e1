#pragma once

#include "against_serial.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/plan/collectives.hpp>

#include <tuple>

namespace against_serial {

using listed_call = std::tuple<collective, axis_set, index_t>;  // kind, axes, elements

/// A pass of `Model<A, B>` makes exactly the collectives that its type lists. `input(extents)` gives the whole input.
template <template <class, class> class Model, int A, int B, int Rank, class Input>
void check_calls(shape<Rank> const& extents, Input input) {
  if (worlds::size() != A * B) return;
  CAPTURE(A);
  CAPTURE(B);
  using world = mesh<first<A>, second<B>>;
  using model = Model<first<A>, second<B>>;
  const recording<mpi_comm> all{mpi_comm{}};
  team<world, recording<mpi_comm>> team{all};
  auto net = team.template make<model>(seed{3});
  using layout = typename decltype(net)::input_type::layout_type;
  const auto x = distribute<layout>(team, input(extents));
  auto& log = team.group(world::all);
  log.clear();
  const auto y = net.forward(x);
  const std::size_t forward = log.calls().size();
  net.backward(y);

  // Rings and halos are one entry of the list and many messages: compared by what this rank receives in each phase.
  std::vector<listed_call> found;
  std::ptrdiff_t found_forward = 0;
  index_t received[2] = {};
  for (std::size_t i = 0; i < log.calls().size(); ++i) {
    auto const& c = log.calls()[i];
    if (c.kind == collective::receive) received[i < forward ? 0 : 1] += c.elements;
    if (c.kind == collective::receive || c.kind == collective::send) continue;
    found.emplace_back(c.kind, c.group, c.elements);
    found_forward += i < forward;
  }
  constexpr collective_list<model, world> list;
  std::vector<listed_call> wanted;
  std::ptrdiff_t wanted_forward = 0;
  index_t messages[2] = {};
  for (int i = 0; i < list.size(); ++i) {
    const index_t elements = list.elements(i, extents[0], team.coordinates());
    const bool many = list[i].kind == collective::ring || list[i].kind == collective::halo;
    if (many) messages[list[i].when == phase::forward ? 0 : 1] += elements;
    if (many) continue;
    wanted.emplace_back(list[i].kind, list[i].group, elements);
    wanted_forward += list[i].when == phase::forward;
  }
  CHECK(received[0] == messages[0]);
  CHECK(received[1] == messages[1]);
  REQUIRE(found.size() == wanted.size());
  REQUIRE(found_forward == wanted_forward);
  CHECK(std::equal(found.begin(), found.begin() + found_forward, wanted.begin()));
  // Buckets are reduced during backward, as soon as they are complete: the order differs from the list's there.
  std::sort(found.begin(), found.end());
  std::sort(wanted.begin(), wanted.end());
  CHECK(found == wanted);
}

template <template <class, class> class Model, int Rank, class Input>
void check_all_calls(shape<Rank> const& extents, Input input) {
  check_calls<Model, 2, 1>(extents, input);
  check_calls<Model, 1, 2>(extents, input);
  check_calls<Model, 2, 2>(extents, input);
}
template <template <class, class> class Model, int Rank>
void check_all_calls(shape<Rank> const& extents) {
  check_all_calls<Model>(extents, [](shape<Rank> const& whole) { return worlds::values<float>(whole, 5); });
}

}  // namespace against_serial
