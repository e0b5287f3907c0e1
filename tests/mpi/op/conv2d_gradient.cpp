#include "on_ranks.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/conv2d.hpp>

// The gradient of a convolution's input under cuts of height and width: the halo of it is sent back, or that of the
// output's gradient is fetched.

namespace {

using namespace on_ranks;

struct sizes {
  index_t in, out, height, width, kernel, stride, padding, dilation;
};

/// Elements that this rank receives for the gradient, and whether it equals that of whole images.
template <class Layout, class Team>
index_t received(Team& team, sizes const& s) {
  const conv2d_geometry g{{s.kernel, s.kernel},   {s.stride, s.stride},     {s.padding, s.padding},
                          {s.padding, s.padding}, {s.dilation, s.dilation}, 1};
  const shape<4> extents{2, s.in, s.height, s.width};
  const shape<4> made = detail::convolved_extents(extents, s.out, g);
  const auto whole_dy = worlds::values<double>(made, 1);
  const auto w = distribute<replicated>(team, worlds::values<double>(shape<4>{s.out, s.in, s.kernel, s.kernel}, 2));
  const auto wanted = op::conv2d_backward_input(distribute<replicated>(team, whole_dy), w, extents, g);
  const auto dy = distribute<Layout>(team, whole_dy);
  auto& log = team.group(Team::mesh::all);
  log.clear();
  const auto dx = op::conv2d_backward_input(dy, w, extents, g);
  index_t elements = 0;
  for (auto const& call : log.calls())
    if (call.kind == collective::receive) elements += call.elements;
  CHECK(worlds::difference(gather(dx), wanted.local()) <= 1e-13);
  return elements;
}

template <class Team>
index_t most(Team& team, index_t mine) {
  team.group(Team::mesh::all).all_reduce(&mine, 1, reduction::maximum);
  return mine;
}

}  // namespace

TEST_CASE("gradients of cut images are those of whole ones, whatever windows do") {
  run([]<int N>(auto&) {
    const recording<mpi_comm> log{mpi_comm{}};
    tessera::team<all_ranks<N>, recording<mpi_comm>> team{log};
    for (const sizes s : {sizes{2, 2, 12, 9, 3, 2, 1, 1},
                          {2, 3, 13, 8, 3, 2, 0, 1},
                          {3, 1, 9, 9, 3, 1, 1, 1},
                          {2, 2, 11, 12, 2, 3, 0, 1},
                          {2, 2, 12, 12, 1, 2, 0, 1},
                          {2, 1, 14, 10, 3, 2, 2, 2},
                          {2, 2, 5, 5, 5, 2, 2, 1},
                          {1, 2, 3, 3, 3, 3, 0, 1},
                          {4, 1, 16, 7, 7, 2, 3, 1}}) {
      CAPTURE(s.in);
      CAPTURE(s.height);
      CAPTURE(s.kernel);
      CAPTURE(s.stride);
      received<shard<2, all<N>>>(team, s);
      received<shard<3, all<N>>>(team, s);
    }
  });
}

TEST_CASE("two axes cut both") {
  if (worlds::size() != 4) return;
  struct tall : axis<2> {};
  struct wide : axis<2> {};
  const recording<mpi_comm> log{mpi_comm{}};
  tessera::team<mesh<tall, wide>, recording<mpi_comm>> team{log};
  for (const sizes s : {sizes{2, 2, 12, 9, 3, 2, 1, 1}, {3, 1, 9, 9, 3, 1, 1, 1}, {2, 1, 14, 10, 5, 2, 2, 1}}) {
    received<layout<shard<2, tall>, shard<3, wide>>>(team, s);
    received<shard<2, tall, wide>>(team, s);
    received<layout<shard<0, tall>, shard<2, wide>>>(team, s);
  }
}

TEST_CASE("the smaller halo travels") {
  run([]<int N>(auto&) {
    if (N == 1) return;
    const recording<mpi_comm> log{mpi_comm{}};
    tessera::team<all_ranks<N>, recording<mpi_comm>> team{log};
    using cut = shard<2, all<N>>;
    const index_t height = 8 * N;
    // One row of 2 images, as wide as the output: half as wide as the input.
    CHECK(most(team, received<cut>(team, {3, 3, height, 10, 3, 2, 1, 1})) == 2 * 3 * 5);
    // Nine channels against two: the row of the input is the smaller one.
    CHECK(most(team, received<cut>(team, {2, 9, height, 10, 3, 2, 1, 1})) == 2 * 2 * 10);
    // Without a stride that with fewer channels.
    const index_t sides = N == 2 ? 1 : 2;
    CHECK(most(team, received<cut>(team, {3, 2, height, 10, 3, 1, 1, 1})) == sides * 2 * 2 * 10);
    CHECK(most(team, received<cut>(team, {2, 3, height, 10, 3, 1, 1, 1})) == sides * 2 * 2 * 10);
  });
}
