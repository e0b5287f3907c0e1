#include "listed_calls.hpp"

#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/rms_norm.hpp>

namespace {

using namespace against_serial;

// 11 features over 2 or 4 ranks: uneven blocks.
template <class A, class B>
using rows = parallel<chain<linear<6, 11, split_output<B>>, layer_norm<11>, relu, rms_norm<11, split_features<B>>,
                            layer_norm<11, no_affine>, rms_norm<11, no_affine>, linear<11, 4, split_input<B>>>,
                      data_parallel<A>>;
// The gradients of parameters that are whole under a cut sequence are partial.
template <class A, class B>
using sequences =
    parallel<chain<linear<6, 10>, shard<1, B>, layer_norm<10>, rms_norm<10>, layer_norm_over<last<7, 10>>>,
             input<dynamic, 7, 6>, data_parallel<A>>;

}  // namespace

TEST_CASE("layer norm and root-mean-square norm of split features equal the serial ones") {
  on_meshes<rows>(shape<2>{7, 6});
  check_all_calls<rows>(shape<2>{7, 6});
}

TEST_CASE("normalisations of split sequences equal the serial ones") {
  on_meshes<sequences>(shape<3>{3, 7, 6});
  check_all_calls<sequences>(shape<3>{3, 7, 6});
}
