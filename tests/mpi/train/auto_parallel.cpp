#include "equal_to_serial.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/plan/auto_parallel.hpp>

// Plans that a search finds train as the serial model does. The machines below make plans of different kinds the best.

namespace {

using namespace equal_to_serial;

/// Slow devices, links that cost next to nothing: every layer is cut by every axis.
struct slow_devices {
  static constexpr machine_description about{.peak = {1e8, 1e8, 0, 0},
                                             .bytes_per_second = 1e8,
                                             .memory = tessera::index_t{1} << 34,
                                             .launch = 1e-9,
                                             .levels = {{0, {1e-7, 1e-11}, "links"}}};
};
/// Links that make moving activations cheap beside gradients: weights are cut.
struct small_latency {
  static constexpr machine_description about{.peak = {1e10, 1e10, 0, 0},
                                             .bytes_per_second = 1e10,
                                             .memory = tessera::index_t{1} << 34,
                                             .launch = 1e-9,
                                             .levels = {{0, {1e-9, 1e-8}, "links"}}};
};

struct mlp : chain<linear<12, 20>, gelu, residual<chain<linear<20, 20>, relu>>, residual<linear<20, 20>>,
                   residual<chain<linear<20, 9>, relu>, linear<20, 9>>, linear<9, 7>> {};
struct pictures : chain<conv2d<3, 8, window<3, 1, 1>, no_bias>, batch_norm2d<8>, relu, model::residual_block<8>,
                        model::conv_unit<8, 12, 2>, global_avg_pool<>, flatten<>, linear<12, 5>> {};

template <class Dp, class Tp>
using found_mlp = auto_parallel<mlp, input<rows, 12>, mesh<Dp, Tp>, slow_devices>;
template <class Dp, class Tp>
using found_weights = auto_parallel<mlp, input<rows, 12>, mesh<Dp, Tp>, small_latency, only<split_output, split_input>>;
template <class Dp, class Tp>
using found_pictures = auto_parallel<pictures, input<rows, 3, 9, 8>, mesh<Dp, Tp>, slow_devices>;

/// Less than the fastest plan keeps with momentum, where there is a choice.
template <class Dp, class Tp>
constexpr tessera::index_t found_mlp_bytes = auto_parallel_search<
    mlp, input<rows, 12>, mesh<Dp, Tp>, slow_devices, memory_limit<(tessera::index_t{1} << 40), momentum>>::bytes;
template <class Dp, class Tp>
using limit_of_mlp =
    std::conditional_t<Dp::size * Tp::size == 1, memory_limit<found_mlp_bytes<Dp, Tp>, momentum>,
                       memory_limit<found_mlp_bytes<Dp, Tp> * 97 / 100, momentum>>;
template <class Dp, class Tp>
using found_small_mlp = auto_parallel<mlp, input<rows, 12>, mesh<Dp, Tp>, slow_devices, limit_of_mlp<Dp, Tp>>;

template <class T, template <class, class> class Model, int Rank>
void on_some_meshes(shape<Rank> const& extents, tessera::index_t classes, double bound) {
  const momentum by{.learning_rate = 0.05};
  const auto wanted = serial<T, Model>(extents, classes, by);
  on_mesh<T, Model, 1, 1>(wanted, extents, classes, by, bound);
  on_mesh<T, Model, 1, 2>(wanted, extents, classes, by, bound);
  on_mesh<T, Model, 2, 2>(wanted, extents, classes, by, bound);
}

}  // namespace

TEST_CASE("a plan that was searched for trains as the serial model") {
  on_some_meshes<double, found_mlp>(shape<2>{{rows, 12}}, 7, 1e-12);
}
TEST_CASE("a plan of cut weights that was searched for trains as the serial model") {
  on_some_meshes<double, found_weights>(shape<2>{{rows, 12}}, 7, 1e-12);
}
TEST_CASE("a plan that was searched for under a memory limit trains as the serial model") {
  on_some_meshes<double, found_small_mlp>(shape<2>{{rows, 12}}, 7, 1e-12);
}
TEST_CASE("a plan of a residual network that was searched for trains as the serial model") {
  on_some_meshes<double, found_pictures>(shape<4>{{rows, 3, 9, 8}}, 5, 1e-8);
}
TEST_CASE("a layer that layout words were put before keeps its place in names") {
  worlds::serial_team<mesh<data_axis<1>>> alone{serial_comm{}};
  using named = chain<residual<chain<unnumbered, cut_along<0, data_axis<1>>, linear<3, 3>>>>;
  auto net = alone.make<parallel<named, input<dynamic, 3>>, double>(seed{1});
  std::vector<std::string> names;
  net.for_each_parameter([&](std::string const& name, auto const&) { names.push_back(name); });
  CHECK(names == std::vector<std::string>{"0.branch.weight", "0.branch.bias"});
}
