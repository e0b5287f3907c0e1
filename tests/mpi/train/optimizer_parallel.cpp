#include "shared_parameters.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

// Optimizer state, gradients and parameters in slices: the updates are those without, and the memory what is announced.

namespace {

using namespace shared_parameters;

/// Parameters that no number of ranks divides, and some of one element.
template <class Fusion>
struct mlp_of {
  template <class Dp, class Tp, class... Policies>
  using type = parallel<
      chain<linear<12, 103, split_output<Tp>>, relu, linear<103, 3, split_input<Tp>>, relu, linear<3, 1>, linear<1, 5>>,
      data_parallel<Dp>, Fusion, Policies...>;
};

/// Blocks of different sizes in one bucket with parameters that the ranks along `Tp` hold alike.
template <class Dp, class Tp, class... Policies>
using uneven =
    parallel<chain<linear<12, 7, split_output<Tp>>, relu, linear<7, 31, split_input<Tp>>, relu, linear<31, 5>>,
             data_parallel<Dp>, fuse::all, Policies...>;

template <class Optimizer>
void compare_all(Optimizer optimizer, plan_of_run const& how = {}) {
  const shape<2> extents{{13, 12}};
  compare_levels<mlp_of<fuse::at<2, 5>>::type, 1, 1, double>(extents, 5, optimizer, how);
  compare_levels<mlp_of<fuse::at<2, 5>>::type, 2, 1, double>(extents, 5, optimizer, how);
  compare_levels<mlp_of<fuse::each>::type, 4, 1, double>(extents, 5, optimizer, how);
  compare_levels<mlp_of<fuse::at<3>>::type, 2, 2, double>(extents, 5, optimizer, how);
  compare_levels<mlp_of<fuse::bytes<400>>::type, 4, 2, double>(extents, 5, optimizer, how);
}

}  // namespace

TEST_CASE("updates by momentum are those without slices, of any split") {
  compare_all(momentum{.learning_rate = 0.05});
}

TEST_CASE("gradients that are clipped and come in parts") {
  compare_all(momentum{.learning_rate = 0.05}, {4, 3, {.clip_norm = 0.1}});
}

TEST_CASE("ranks that hold a parameter alike own the same slices of it, whatever else lies in its bucket") {
  const shape<2> extents{{13, 12}};
  const plan_of_run how{4, 3, {.clip_norm = 0.1}};
  compare_levels<uneven, 2, 2, double>(extents, 5, momentum{.learning_rate = 0.05}, how);
  compare_levels<uneven, 2, 4, double>(extents, 5, momentum{.learning_rate = 0.05}, how);
  compare_levels<uneven, 4, 2, double>(extents, 5, momentum{.learning_rate = 0.05}, how);
  if (worlds::size() != 4) return;
  worlds::parallel_team<world_of<2, 2>> team{mpi_comm{}};
  auto net = team.make<uneven<data_axis<2>, tensor_axis<2>, optimizer_parallel<data_axis<2>, 3>>, double>(seed{7});
  for (auto const& p : net.parameters()) {
    if ((p.cut_by & world_of<2, 2>::set_of<tensor_axis<2>>) != 0) continue;
    double ends[] = {static_cast<double>(p.range->begin), -static_cast<double>(p.range->begin),
                     static_cast<double>(p.range->end()), -static_cast<double>(p.range->end())};
    team.group(world_of<2, 2>::set_of<tensor_axis<2>>).all_reduce(ends, 4, reduction::maximum);
    CHECK(ends[0] == -ends[1]);
    CHECK(ends[2] == -ends[3]);
  }
  net.broadcast_parameters();
}

TEST_CASE("each reduction and gather waited for where it starts") {
  compare_all(momentum{.learning_rate = 0.05}, {4, 3, {.overlap = false}});
}
