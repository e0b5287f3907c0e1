#include "against_serial.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/plan/collectives.hpp>

// Faults of convolutions and batch normalisation that were found in other libraries.

namespace {

using namespace against_serial;
using against_serial::index_t;

template <class A, class B>
using normalised = parallel<chain<conv2d<3, 4, window<1>, no_bias>, layout<shard<0, A>, shard<2, B>>, batch_norm2d<4>>,
                            data_parallel<A>>;
template <class A, class B>
using normalised_rows = parallel<batch_norm2d<4>, data_parallel<A, B>>;

/// Whether all ranks hold the same bits of each parameter's gradient and each state.
template <class Model, class Team, int Rank>
void check_equal_on_ranks(Team& team, shape<Rank> const& extents) {
  for (auto& entry : pass<Model, float>(team, extents).parameters) {
    CAPTURE(entry.first);
    auto of_first = entry.second;
    team.group(Team::mesh::all).broadcast(of_first.data(), static_cast<index_t>(of_first.size()), 0);
    CHECK(entry.second == of_first);
  }
}

TEST_CASE("C19: gradients of whole parameters are equal on all ranks, wherever the activations are cut") {
  on_meshes<normalised>(shape<4>{{3, 3, 5, 2}});
  if (worlds::size() != 4) return;
  worlds::parallel_team<mesh<first<2>, second<2>>> square{mpi_comm{}};
  check_equal_on_ranks<normalised<first<2>, second<2>>>(square, shape<4>{{3, 3, 5, 2}});
  worlds::parallel_team<mesh<first<1>, second<4>>> line{mpi_comm{}};
  check_equal_on_ranks<normalised<first<1>, second<4>>>(line, shape<4>{{3, 3, 5, 2}});
}

template <class A, class B>
using stem = parallel<conv2d<3, 64, window<7, 2, 3>>, data_parallel<A, B>>;

TEST_CASE("C22: a batch cut of a 7 x 7 convolution of stride 2 needs no neighbours") {
  using square = mesh<first<2>, second<2>>;
  static_assert(collectives<stem<first<2>, second<2>>, square>.count(phase::forward) == 0);
  static_assert(collectives<stem<first<2>, second<2>>, square>.count(phase::backward) == 0);
  on_meshes<stem>(shape<4>{{5, 3, 14, 13}});
}

template <class A, class B>
using strided =
    parallel<chain<conv2d<16, 6, window<3, 2, 1>, split_output<B>>, conv2d<6, 5, window<3, 2>, split_output<B>>>,
             data_parallel<A>>;

TEST_CASE("C23: a stride above 1 under cuts of batch and output channels") {
  on_meshes<strided>(shape<4>{{8, 16, 8, 8}});
}

template <class A, class B>
using depthwise =
    parallel<chain<conv2d<8, 8, window<3, 1, 1>, groups<8>, split_channels<B>>, conv2d<8, 16, window<3>, groups<4>>>,
             data_parallel<A>>;

TEST_CASE("C28: groups are cut whole, and what comes out is cut by channel") {
  using square = mesh<first<2>, second<2>>;
  using bound = plan<depthwise<first<2>, second<2>>, square>::bound;
  static_assert(bound::at<0>::output::layout == placements_of<square, layout<shard<0, first<2>>, shard<1, second<2>>>>);
  static_assert(bound::at<1>::output::layout == placements_of<square, layout<shard<0, first<2>>, shard<1, second<2>>>>);
  on_meshes<depthwise>(shape<4>{{3, 8, 6, 5}});
}

TEST_CASE("C32: one value a channel and rank is enough where the whole batch has more") {
  if (worlds::size() == 1) return;
  const shape<4> one_each{{worlds::size(), 4, 1, 1}};
  on_mesh<normalised_rows, 2, 1>(one_each);
  on_mesh<normalised_rows, 2, 2>(one_each);
  on_mesh<normalised_rows, 4, 1>(one_each);
}

TEST_CASE("C34: running statistics are weighted by count, and equal on all ranks") {
  on_meshes<normalised_rows>(shape<4>{{5, 4, 3, 1}});
  on_meshes<normalised_rows>(shape<4>{{3, 4, 2, 2}});
  if (worlds::size() != 4) return;
  worlds::parallel_team<mesh<first<2>, second<2>>> square{mpi_comm{}};
  check_equal_on_ranks<normalised_rows<first<2>, second<2>>>(square, shape<4>{{5, 4, 3, 1}});
  check_equal_on_ranks<normalised_rows<first<2>, second<2>>>(square, shape<4>{{3, 4, 2, 2}});
}

template <int Size>
void check_variances() {
  if (worlds::size() != Size) return;
  worlds::parallel_team<mesh<first<Size>>> team{mpi_comm{}};
  const auto x = worlds::values<double>(shape<4>{{4, 2, 1, 1}}, 1);
  auto net = team.template make<parallel<batch_norm2d<2>, data_parallel<first<Size>>>, double>();
  const auto y = gather(net.forward(distribute<row<first<Size>>>(team, x)));
  for (index_t c = 0; c < 2; ++c) {
    double mean = 0;
    for (index_t n = 0; n < 4; ++n) mean += x(n, c, 0, 0) / 4;
    double squares = 0;
    for (index_t n = 0; n < 4; ++n) squares += (x(n, c, 0, 0) - mean) * (x(n, c, 0, 0) - mean);
    for (index_t n = 0; n < 4; ++n)
      CHECK(y(n, c, 0, 0) == doctest::Approx((x(n, c, 0, 0) - mean) / std::sqrt(squares / 4 + 1e-5)).epsilon(1e-12));
    net.for_each_parameter([&](std::string const& name, auto const& value) {
      const double found = static_cast<double>(value.read().data[c]);
      if (name.find("running_mean") != name.npos) CHECK(found == doctest::Approx(0.1 * mean).epsilon(1e-12));
      if (name.find("running_var") != name.npos)
        CHECK(found == doctest::Approx(0.9 + 0.1 * squares / 3).epsilon(1e-12));
    });
  }
}

TEST_CASE("C35: the biased variance normalises, the unbiased one is kept") {
  check_variances<1>();
  check_variances<2>();
  check_variances<4>();
}

}  // namespace
