#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/plan/training_memory.hpp>
#include <tessera/train/adam.hpp>

#include <doctest/doctest.h>

// What layers keep from forward to backward, by hand: all sizes are whole pieces of memory.

namespace {

using namespace tessera;
using tessera::index_t;

struct dp : axis<2> {};
struct tp : axis<2> {};
using world = tessera::mesh<dp, tp>;
constexpr index_t floats = 4;

static_assert(block_bytes(0, 4) == 0 && block_bytes(1, 4) == 64 && block_bytes(16, 4) == 64 &&
              block_bytes(17, 4) == 128);

// What relu keeps is its output, which is the input that the next layer keeps.
struct wide : chain<linear<64, 256, split_output<tp>>, relu, linear<256, 64, split_input<tp>>> {};
using mlp = parallel<wide, data_parallel<dp>>;
constexpr activation_bytes of_mlp = activation_memory<mlp, world, float, input<32, 64>>();
static_assert(of_mlp.input == floats * 16 * 64);
static_assert(of_mlp.kept == of_mlp.input + floats * 16 * 128);
// The most is there when relu makes its gradient of that of its output, beside output and gradient of the whole.
static_assert(of_mlp.peak == of_mlp.kept + 2 * floats * 16 * 64 + 2 * floats * 16 * 128);
// Doubles take twice as much, and half the batch half.
static_assert(activation_memory<mlp, world, double, input<32, 64>>().kept == 2 * of_mlp.kept);
static_assert(activation_memory<mlp, world, float, input<16, 64>>().kept == of_mlp.kept / 2);

// A device whose blocks are smaller has less: 3 of 5 rows, or 2.
static_assert(activation_memory<mlp, world, float, input<5, 64>>({0, 0}).kept == floats * 3 * (64 + 128));
static_assert(activation_memory<mlp, world, float, input<5, 64>>({1, 1}).kept == floats * 2 * (64 + 128));

// Blocks that are computed again keep their input; while one runs backward it has all it would keep.
template <class Block>
using three = parallel<chain<Block, Block, Block>, input<32, 64>, data_parallel<dp>>;
constexpr activation_bytes plain = activation_memory<three<wide>, world>();
constexpr activation_bytes again = activation_memory<three<recompute<wide>>, world>();
static_assert(plain.kept == 3 * of_mlp.kept);
static_assert(again.kept == 3 * of_mlp.input && again.peak < plain.peak);
static_assert(again.peak > again.kept + floats * 16 * 128);

// A sum keeps nothing itself; what its branch keeps of the input is the input's block.
using with_sum = parallel<chain<residual<linear<64, 64>>, residual<linear<64, 64>>>, input<32, 64>>;
static_assert(activation_memory<with_sum, world>().kept == 2 * floats * 32 * 64);

// A layer alone, as a part of a model or with layouts that nobody has bound.
using bound = plan<mlp, world>::bound;
static_assert(activation_memory_of<bound::at<0>, float, shape<2>{{32, 64}}>().kept == of_mlp.input);
static_assert(activation_memory_of<bound::at<1>, float, shape<2>{{32, 256}}>().kept == floats * 16 * 128);
constexpr kept_memory of_last =
    kept_by<linear<256, 64>, shape<2>{{32, 256}}, world>(bound::at<2>::resolved, {}, floats);
static_assert(of_last.input && !of_last.output && of_last.own == 0);
static_assert(bytes_kept_by<linear<256, 64>, shape<2>{{32, 256}}, world>(bound::at<2>::resolved, {}, floats) ==
              floats * 16 * 128);
static_assert(bytes_kept_by<linear<256, 64>, shape<2>{{32, 256}}, world>(resolved_layer<2>{}, {}, floats) ==
              floats * 32 * 256);
static_assert(bytes_kept_by<batch_norm2d<8>, shape<4>{{2, 8, 4, 4}}, world>(resolved_layer<2>{}, {}, floats) ==
              floats * 2 * 8 * 4 * 4 + 2 * 8 * 8);

// Flattened images lie in another order, unless they have one pixel: then it is their block that the next layer keeps.
using of_pixels = parallel<chain<conv2d<8, 16, window<1>>, flatten<>, linear<16, 4>>, input<32, 8, 1, 1>>;
static_assert(activation_memory<of_pixels, world>().kept == floats * 32 * (8 + 16));

// The height that windows of the neighbour reach: 4 rows of 8 and 1 more.
using cut_images = parallel<conv2d<8, 8, window<3, 1, 1>>, input<2, 8, 8, 4>, input_layout<shard<2, dp>>>;
static_assert(activation_memory<cut_images, world>().kept == floats * 2 * 8 * 5 * 4);
static_assert(activation_memory<cut_images, world>().input == 0);

// All of a network in one constant.
constexpr activation_bytes large =
    activation_memory<parallel<model::resnet50<1000>, data_parallel<dp>>, world, float, input<64, 3, 224, 224>>();
static_assert(large.kept > index_t{2'000'000'000} && large.workspace() < large.kept / 10);

// Stages: the devices have half of the layers each, and the activations of two passes and of one.
using staged = parallel<chain<linear<64, 64>, relu, stage<1>, linear<64, 64>, relu>, pipeline<tp>>;
constexpr training_bytes first = training_memory<staged, world, float, input<16, 64>>(adam{}, {0, 0}, 8);
constexpr training_bytes second = training_memory<staged, world, float, input<16, 64>>(adam{}, {0, 1}, 8);
constexpr index_t weights = floats * (64 * 64 + 64);
static_assert(first.parameters == weights && second.parameters == weights && first.optimizer == 2 * weights);
static_assert(first.activations == 2 * 2 * floats * 16 * 64 && second.activations == 2 * floats * 16 * 64);
static_assert(first.peak() == first.total() + first.accumulated + first.activations + first.workspace);
static_assert(training_memory<staged, world>(adam{}).activations == 0);

// By GPipe all parts are under way.
using all_forward = parallel<chain<linear<64, 64>, relu, stage<1>, linear<64, 64>, relu>, pipeline<tp, gpipe>>;
static_assert(training_memory<all_forward, world, float, input<16, 64>>(adam{}, {0, 1}, 8).activations ==
              8 * second.activations);

// Without stages it is one pass, and what is accumulated counts where a batch comes in parts.
constexpr training_bytes alone = training_memory<mlp, world, float, input<32, 64>>(adam{});
static_assert(alone.activations == of_mlp.kept && alone.workspace == of_mlp.workspace());
static_assert(training_memory<mlp, world, float, input<32, 64>>(adam{}, {}, 2).peak() ==
              alone.peak() + alone.accumulated);

}  // namespace

TEST_CASE("the memory of other numbers of devices is that of a model whose blocks are as large") {
  for (int d = 0; d < 2; ++d)
    for (int t = 0; t < 2; ++t) {
      const auto bytes = activation_memory<mlp, world, float, input<32, 64>>({d, t});
      CHECK(bytes.kept == of_mlp.kept);
      CHECK(bytes.peak == of_mlp.peak);
    }
}
