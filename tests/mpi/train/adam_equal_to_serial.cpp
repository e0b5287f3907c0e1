#include "equal_to_serial.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

namespace {

using namespace equal_to_serial;

template <class Dp, class Tp>
using mlp = parallel<
    chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu, linear<9, 7, split_output<Tp>>>,
    data_parallel<Dp>, fuse::at<2>>;

}  // namespace

// Bounds: Adam divides by the size of the gradient, so that elements with gradients near rounding move by as much as
// others. In double that is seldom seen; the norm of all gradients is a sum in another order as well.
TEST_CASE("twenty steps of Adam, clipped and with a schedule, equal the serial run") {
  on_all_meshes<double, mlp>(shape<2>{{rows, 12}}, 7, adam{.weight_decay = 0.01}, 1e-11,
                             {.clip_norm = 0.5, .schedule = warm_up{5, cosine_rate{.rate = 0.02, .steps = 10}}});
}

TEST_CASE("twenty steps of AdamW equal the serial run") {
  on_all_meshes<double, mlp>(shape<2>{{rows, 12}}, 7, adamw{.learning_rate = 0.02}, 1e-11);
}
