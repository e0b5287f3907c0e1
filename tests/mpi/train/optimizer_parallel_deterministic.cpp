#include "shared_parameters.hpp"

#include <tessera/backend/deterministic.hpp>
#include <tessera/comm/ordered.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

// Slices under kernels and a communicator that add up in one order: the bits of the serial run, at every level.

namespace {

using namespace shared_parameters;

template <class Dp, class... Policies>
using mlp =
    parallel<chain<linear<12, 31>, relu, linear<31, 9>, linear<9, 5>>, data_parallel<Dp>, fuse::at<2, 4>, Policies...>;

struct shared_weight;
template <class Dp, class... Policies>
using tied_mlp =
    parallel<chain<linear<12, 12, tied<shared_weight>>, relu, linear<12, 12, tied<shared_weight>>, linear<12, 5>>,
             data_parallel<Dp>, fuse::at<2>, Policies...>;

template <template <class, class...> class Tested, int Dp>
void compare_bits() {
  if (worlds::size() != Dp) return;
  CAPTURE(Dp);
  using dp = data_axis<Dp>;
  const shape<2> extents{{32, 12}};
  const momentum optimizer{.learning_rate = 0.05};
  const plan_of_run how{};
  team<world_of<1, 1>, serial_comm, deterministic<>> alone{serial_comm{}};
  const auto wanted = train<Tested<data_axis<1>>, float>(alone, extents, 5, optimizer, how);
  team<world_of<Dp, 1>, ordered<mpi_comm>, deterministic<>> team{ordered{mpi_comm{}}};
  const auto same = [&]<class Model>(std::type_identity<Model>) {
    const auto found = train<Model, float>(team, extents, 5, optimizer, how);
    CHECK(found.losses == wanted.losses);
    CHECK(found.parameters == wanted.parameters);
  };
  same(std::type_identity<Tested<dp>>{});
  same(std::type_identity<Tested<dp, optimizer_parallel<dp, 1>>>{});
  same(std::type_identity<Tested<dp, optimizer_parallel<dp, 2>>>{});
  same(std::type_identity<Tested<dp, optimizer_parallel<dp, 3>>>{});
}

}  // namespace

TEST_CASE("with sums in one order every level gives the bits of the serial run") {
  compare_bits<mlp, 2>();
  compare_bits<mlp, 4>();
  compare_bits<tied_mlp, 2>();
  compare_bits<tied_mlp, 4>();
}
