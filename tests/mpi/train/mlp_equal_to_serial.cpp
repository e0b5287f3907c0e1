#include "equal_to_serial.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

namespace {

using namespace equal_to_serial;

template <class Dp, class Tp>
using mlp = parallel<chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu,
                           linear<9, 7, split_output<Tp>>>,
                     data_parallel<Dp>, fuse::at<2>>;

}  // namespace

// Bounds: each step sums at most a few hundred terms in another order, which moves a float sum by some 1e-6 of its size
// and a double sum by 1e-15. Twenty steps of momentum carry that along without amplifying it much.
TEST_CASE("twenty steps of an MLP with uneven cuts equal the serial run in float") {
  on_all_meshes<float, mlp>(shape<2>{{rows, 12}}, 7, {.learning_rate = 0.05}, 2e-5);
}
TEST_CASE("twenty steps of an MLP with uneven cuts equal the serial run in double") {
  on_all_meshes<double, mlp>(shape<2>{{rows, 12}}, 7, {.learning_rate = 0.05}, 1e-13);
}
