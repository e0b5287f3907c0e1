#include "listed_calls.hpp"

#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/relu.hpp>

namespace {

using namespace against_serial;

// A normalisation undoes the scales of one over a part of its own dimensions, whose gradients are then zero: such a
// pair compares nothing.
template <class A, class B>
using heights = parallel<chain<layout<shard<0, A>, shard<2, B>>, layer_norm_over<last<5, 3>>, relu, group_norm<4, 8>,
                               relu, layer_norm_over<last<8, 5, 3>>, relu, group_norm<2, 8, no_affine>, layer_norm<3>>,
                         input<dynamic, 8, 5, 3>>;
template <class A, class B>
using channels =
    parallel<chain<group_norm<4, 8, split_channels<B>>, relu, layer_norm_over<last<8, 5, 3>>, relu, group_norm<8, 8>>,
             input<dynamic, 8, 5, 3>, data_parallel<A>>;

}  // namespace

TEST_CASE("group norm and layer norm of images cut by height equal the serial ones") {
  on_meshes<heights>(shape<4>{3, 8, 5, 3});
  check_all_calls<heights>(shape<4>{3, 8, 5, 3});
}

TEST_CASE("group norm and layer norm of images cut by channels equal the serial ones") {
  on_meshes<channels>(shape<4>{3, 8, 5, 3});
  check_all_calls<channels>(shape<4>{3, 8, 5, 3});
}
