#include "shared_parameters.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

// Slices of the parameters of models with states, side branches, blocks that are computed again, and tied weights.

namespace {

using namespace shared_parameters;

template <class Dp, class Tp, class... Policies>
using images = parallel<chain<conv2d<1, 6, window<3, 1, 1>, split_output<Tp>>, batch_norm2d<6>, relu,
                              residual<chain<conv2d<6, 5, window<3, 1, 1>, split_input<Tp>>, batch_norm2d<5>>,
                                       conv2d<6, 5, window<1>, split_input<Tp>>>,
                              flatten<>, linear<80, 3>>,
                        input<dynamic, 1, 4, 4>, data_parallel<Dp>, fuse::at<3, 6>, Policies...>;

struct words;
template <class Tp>
struct block : residual<chain<linear<6, 9, split_output<Tp>>, relu, linear<9, 7>, relu, linear<7, 6>>> {};
template <class Dp, class Tp, class... Policies>
using language =
    parallel<chain<embedding<11, 6, split_vocabulary<Tp>, tied<words>>, recompute<block<Tp>>, recompute<block<Tp>>,
                   linear<6, 6>, linear<6, 11, split_output<Tp>, no_bias, tied<words>>>,
             input<dynamic>, data_parallel<Dp>, fuse::each, Policies...>;

}  // namespace

TEST_CASE("convolutions, batch norm and its states, two sides of a residual, by Adam") {
  const shape<4> extents{{13, 1, 4, 4}};
  compare_levels<images, 2, 1, double>(extents, 3, adam{.learning_rate = 0.01}, {}, 1e-9);
  compare_levels<images, 4, 1, double>(extents, 3, adam{.learning_rate = 0.01}, {}, 1e-9);
  compare_levels<images, 2, 2, double>(extents, 3, adam{.learning_rate = 0.01}, {}, 1e-9);
}

TEST_CASE("tied weights and blocks that are computed again, clipped, in parts, by AdamW") {
  const shape<1> extents{{13}};
  const plan_of_run how{4, 3, {.clip_norm = 0.5}};
  compare_levels<language, 2, 1, double>(extents, 11, adamw{.learning_rate = 0.01}, how, 1e-9);
  compare_levels<language, 2, 2, double>(extents, 11, adamw{.learning_rate = 0.01}, how, 1e-9);
}
