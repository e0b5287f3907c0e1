#include "against_serial.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/residual.hpp>

// Networks over images that are cut along height, width, both, and along them and the batch or channels. A bias before
// batch norm has no gradient but rounding, so there is none.

namespace {

using namespace against_serial;
using against_serial::index_t;

/// Every kind of window: stride, dilation, odd and even sizes, overlap and gaps, a last window that overhangs.
template <class Split, class OtherSplit>
using windows = parallel<
    chain<conv2d<2, 4, window<3, 1, 1>, no_bias, Split, OtherSplit>, batch_norm2d<4>, relu, max_pool2d<window<3, 2, 1>>,
          residual<chain<conv2d<4, 4, window<3, 1, 1>, no_bias>, batch_norm2d<4>, relu, conv2d<4, 4, window<5, 1, 2>>>>,
          conv2d<4, 6, window2d<3, 2, 2, 1, 2, 1, 2, 3>, groups<2>>, relu, avg_pool2d<window<2, 2>, ceil_mode>,
          conv2d<6, 3, window<1>>, global_avg_pool<>, flatten<>, linear<3, 5>>,
    input<dynamic, 2, 13, 11>>;

template <class A, class B>
using height_and_width = windows<split_height<A>, split_width<B>>;
template <class A, class B>
using height_twice = windows<split_height<B>, split_height<A>>;
template <class A, class B>
using batch_and_height = windows<split_batch<A>, split_height<B>>;
template <class A, class B>
using width_and_channels = parallel<chain<conv2d<2, 4, window<3, 1, 1>, split_width<A>, split_output<B>>, relu,
                                          conv2d<4, 5, window<3, 2, 1>, no_bias, split_input<B>>, batch_norm2d<5>,
                                          adaptive_avg_pool2d<3, 2>, flatten<>>,
                                    input<dynamic, 2, 7, 9>>;

}  // namespace

TEST_CASE("images cut by height and width give what whole images give") {
  on_meshes<height_and_width>(shape<4>{{3, 2, 13, 11}});
}

TEST_CASE("images whose height two axes cut, some ranks holding a row or two") {
  on_meshes<height_twice>(shape<4>{{2, 2, 13, 11}});
}

TEST_CASE("images cut by batch and height, one rank without any image") {
  on_meshes<batch_and_height>(shape<4>{{3, 2, 13, 11}});
}

TEST_CASE("images cut by width and channels") { on_meshes<width_and_channels>(shape<4>{{3, 2, 7, 9}}); }
