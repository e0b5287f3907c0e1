#include "support/listed_calls.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/softmax.hpp>
#include <tessera/model/resnet.hpp>

// A run makes exactly the collectives that the type of the model lists, and no other.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct data_axis : axis<Size> {};
template <int Size>
struct tensor_axis : axis<Size> {};

template <template <class, class> class Model, int Dp, int Tp, int Rank>
void compare(shape<Rank> const& extents) {
  using world = mesh<data_axis<Dp>, tensor_axis<Tp>>;
  worlds::check_listed_calls<world, Model<data_axis<Dp>, tensor_axis<Tp>>>(
      extents, [](shape<Rank> const& whole) { return worlds::values<float>(whole, 5); });
}

template <class Dp, class Tp>
using mlp = parallel<chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, softmax<>,
                           linear<9, 7, split_output<Tp>>, log_softmax<>>,
                     data_parallel<Dp>, fuse::at<2>>;

// A gather, an exchange between dimensions, and a reduce-scatter.
template <class Dp, class Tp>
using relaid_mlp = parallel<chain<linear<12, 20, split_output<Tp>>, relu, shard<0, Dp, Tp>, linear<20, 11>, relu,
                                  linear<11, 10, split_input<Tp>>, shard<1, Tp>, relu, linear<10, 3>>,
                            data_parallel<Dp>>;

// A side of a residual that learns nothing, first in its model: backward leaves it out.
template <class Dp, class Tp>
using idle_branch = parallel<residual<chain<relu, batch_norm2d<3, no_affine>>, conv2d<3, 3, window<1>>>,
                             input<dynamic, 3, 4, 4>, data_parallel<Dp>>;
// Exchanges in which device 0 keeps all it has.
template <class Dp, class Tp>
using reordered = parallel<chain<linear<6, 5>, shard<0, Dp, Tp>, shard<0, Tp, Dp>, linear<5, 3>>, data_parallel<Dp>>;

template <class Dp, class Tp>
using resnet = parallel<model::resnet_small<10, Tp>, input<dynamic, 1, 12, 12>, data_parallel<Dp>>;

// Height cut by one axis and batch or width by the other: convolutions, poolings and batch norm of images in pieces.
template <class Dp, class Tp>
using pieces = parallel<chain<conv2d<2, 4, window<3, 1, 1>, split_height<Tp>, split_width<Dp>>, batch_norm2d<4>, relu,
                              max_pool2d<window<3, 2, 1>>, conv2d<4, 3, window2d<5, 3, 2, 1, 1, 2>>,
                              avg_pool2d<window<2, 2>, ceil_mode>, global_avg_pool<>, flatten<>, linear<3, 5>>,
                        input<dynamic, 2, 13, 11>>;

// Each axis cut or not, in two and more.
template <template <class, class> class Model, int Rank>
void compare_cuts(shape<Rank> const& extents) {
  compare<Model, 2, 1>(extents);
  compare<Model, 1, 2>(extents);
  compare<Model, 2, 2>(extents);
  compare<Model, 2, 4>(extents);
}
template <template <class, class> class Model, int Rank>
void compare_all(shape<Rank> const& extents) {
  compare_cuts<Model>(extents);
  compare<Model, 1, 1>(extents);
  compare<Model, 1, 4>(extents);
}

}  // namespace

TEST_CASE("an MLP makes exactly the collectives that its type lists") {
  compare_all<mlp>(shape<2>{{13, 12}});
  compare_all<relaid_mlp>(shape<2>{{13, 12}});
  compare_all<reordered>(shape<2>{{13, 6}});
}

TEST_CASE("a residual with an idle side makes exactly the collectives that its type lists") {
  compare_all<idle_branch>(shape<4>{{13, 3, 4, 4}});
}

TEST_CASE("the ResNet makes exactly the collectives that its type lists") {
  compare_cuts<resnet>(shape<4>{{13, 1, 12, 12}});
}

TEST_CASE("a network over images in pieces makes exactly the messages that its type lists") {
  compare_cuts<pieces>(shape<4>{{3, 2, 13, 11}});
}
