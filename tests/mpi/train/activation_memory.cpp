#include "shared_parameters.hpp"

#include <tessera/layer/dropout.hpp>
#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/rms_norm.hpp>
#include <tessera/layer/softmax.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/activation_memory.hpp>

// What layers keep from forward to backward, counted by `host_memory` and on paper, on each rank.

namespace {

using namespace shared_parameters;
using tessera::index_t;

template <class T, int Rank>
tensor<T, Rank> values_of(shape<Rank> const& extents) {
  if constexpr (std::is_integral_v<T>) {
    tensor<T, Rank> out(extents);
    for (index_t i = 0; i < out.size(); ++i) out.data()[i] = i % 7;
    return out;
  } else {
    return worlds::values<T>(extents, 3);
  }
}

/// Forward and backward of `Model<Dp, Tp>` for a batch of `Input`, if this run has as many ranks.
template <template <class, class> class Model, int Dp, int Tp, class Input, class T, bool Rings>
void on_mesh() {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  using world = world_of<Dp, Tp>;
  using model = Model<data_axis<Dp>, tensor_axis<Tp>>;
  counted_team<world> team;
  using net_type = decltype(team.template make<model, T>(seed{7}));
  using x_type = typename net_type::input_type;
  const auto bytes = activation_memory<model, world, T, Input>(team.coordinates());
  const auto x = distribute<typename x_type::layout_type>(team, values_of<typename x_type::value_type>(Input::extents));
  const auto gradient_like = [&](auto const& y) {
    typename net_type::output_type dy(team, y.extents());
    std::fill(dy.write().begin(), dy.write().end(), T{1} / 8);
    return dy;
  };
  const auto used = [&](auto run) {
    auto net = team.template make<model, T>(seed{7});
    const index_t before = live();
    host_memory::reset_peak();
    return run(net) - before;
  };
  const auto both_passes = [&](auto& net) {
    const auto y = net.forward(x);
    net.backward(gradient_like(y));
    return static_cast<index_t>(host_memory::used().peak);
  };
  used(both_passes);  // kernels keep memory from their first run on

  CHECK(bytes.kept - bytes.input == used([&](auto& net) {
          static_cast<void>(net.forward(x));
          return live();
        }));
  const index_t peak = used(both_passes);
  CHECK(peak > bytes.kept - bytes.input);
  CHECK(peak <= bytes.peak - bytes.input);
  // What the bound has too much is not a third, but for rings, in which blocks come and go as messages do.
  if (!Rings) CHECK(3 * peak > 2 * (bytes.peak - bytes.input));
}

template <template <class, class> class Model, class Input, class T = float, bool Rings = false>
void on_meshes() {
  on_mesh<Model, 1, 1, Input, T, Rings>();
  on_mesh<Model, 2, 1, Input, T, Rings>();
  on_mesh<Model, 1, 2, Input, T, Rings>();
  on_mesh<Model, 4, 1, Input, T, Rings>();
  on_mesh<Model, 1, 4, Input, T, Rings>();
  on_mesh<Model, 2, 2, Input, T, Rings>();
}

template <class A, class B>
using mlp = parallel<chain<linear<20, 30, split_output<B>>, relu, linear<30, 17, split_input<B>>, gelu, linear<17, 5>>,
                     data_parallel<A>>;
template <class A, class B>
using images = parallel<model::resnet_small<10, B>, data_parallel<A>>;
template <class A, class B>
using bottlenecks = parallel<model::resnet50_of_width<4, 10, B>, data_parallel<A>>;
template <class A, class B>
using encoder = parallel<chain<model::encoder_block<16, 4, 24, B>, model::encoder_block<16, 4, 24, B>>,
                         input<dynamic, dynamic, 16>, data_parallel<A>>;
template <class A, class B>
using words = parallel<model::gpt<19, 9, 16, 4, 2, B>, data_parallel<A>>;
/// Blocks that are computed again, with random numbers, running statistics, and inside of one another.
template <class A, class B>
using again =
    parallel<chain<recompute<model::conv_unit<3, 6, 1, B>>,
                   recompute<chain<recompute<model::residual_block<6, B>>, dropout<keep_of<std::ratio<1, 2>>>>>,
                   global_avg_pool<>, flatten<>, linear<6, 5, split_output<B>>>,
             data_parallel<A>>;
/// Images whose height is cut: convolutions keep more than their block.
template <class A, class B>
using tall = parallel<chain<conv2d<3, 5, window<3, 1, 1>>, relu, max_pool2d<window<3, 2, 1>>, group_norm<1, 5>, silu,
                            conv2d<5, 6, window<1>, no_bias>, avg_pool2d<window<2>>, conv2d<6, 4, window<5, 2, 2>>,
                            adaptive_avg_pool2d<2, 2>, flatten<>, linear<16, 5>>,
                      input_layout<shard<0, A>, shard<2, B>>>;
/// Sequences whose positions are cut: keys and values go around.
template <class A, class B>
using ring = parallel<chain<rms_norm<16>, multi_head_attention<16, 4, causal>, sigmoid, layer_norm<16>, linear<16, 12>,
                            softmax<>, tanh_layer, log_softmax<>>,
                      input<dynamic, dynamic, 16>, input_layout<shard<0, A>, shard<1, B>>>;
/// Layers before the first one that learns, and one that hands its input on.
template <class A, class B>
using late = parallel<chain<relu, flatten<>, residual<chain<tanh_layer, sigmoid>, chain<gelu, relu>>,
                            residual<linear<24, 24>>, shard<1, B>, linear<24, 5, split_input<B>>, relu>,
                      input<dynamic, 4, 6>, data_parallel<A>>;

TEST_CASE("what layers keep: linear layers") {
  on_meshes<mlp, input<13, 20>>();
  on_meshes<mlp, input<13, 20>, double>();
}
TEST_CASE("what layers keep: images") { on_meshes<images, input<7, 1, 28, 28>>(); }
TEST_CASE("what layers keep: bottleneck blocks") { on_meshes<bottlenecks, input<5, 3, 32, 32>>(); }
TEST_CASE("what layers keep: sequences") { on_meshes<encoder, input<5, 7, 16>>(); }
TEST_CASE("what layers keep: a language model") { on_meshes<words, input<5, 9>>(); }
TEST_CASE("what layers keep: blocks that are computed again") { on_meshes<again, input<5, 3, 12, 12>>(); }
TEST_CASE("what layers keep: cut images") { on_meshes<tall, input<5, 3, 22, 14>>(); }
TEST_CASE("what layers keep: cut sequences") { on_meshes<ring, input<5, 9, 16>, float, true>(); }
TEST_CASE("what layers keep: before anything learns") { on_meshes<late, input<5, 4, 6>>(); }

}  // namespace
