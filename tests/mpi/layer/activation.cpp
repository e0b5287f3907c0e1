#include "against_serial.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/plan/collectives.hpp>

namespace {

using namespace against_serial;
using against_serial::index_t;

/// Gradients of the weights in front of a layer against central differences, on one rank.
template <class Layer>
void check_gradients() {
  worlds::serial_team<mesh<first<1>>> team{serial_comm{}};
  auto net = team.template make<parallel<chain<linear<3, 4>, Layer>>, double>(seed{5});
  const auto x = distribute<replicated>(team, worlds::values<double>(shape<2>{{5, 3}}, 1));
  const auto weights = worlds::values<double>(shape<2>{{5, 4}}, 2);
  const auto loss = [&] {
    const auto y = net.forward(x);
    double sum = 0;
    for (index_t i = 0; i < weights.size(); ++i) sum += weights.data()[i] * y.local().data()[i];
    return sum;
  };
  loss();
  net.backward(distribute<replicated>(team, weights));
  for (auto const& p : net.parameters())
    for (index_t i = 0; i < p.value.size(); ++i) {
      constexpr double step = 1e-5;
      const double gradient = p.gradient(i);
      const double before = p.value(i);
      p.value(i) = before + step;
      const double above = loss();
      p.value(i) = before - step;
      const double below = loss();
      p.value(i) = before;
      CHECK(gradient == doctest::Approx((above - below) / (2 * step)).epsilon(1e-7));
    }
}

template <class A, class B>
using feed_forward = parallel<chain<linear<6, 10, split_output<B>>, gelu, linear<10, 7, split_input<B>>, silu,
                                    linear<7, 9, split_output<B>>, gelu_tanh, sigmoid, tanh_layer>,
                              data_parallel<A>>;

// A split pair of linear layers with a gelu between them costs one all-reduce forward and none backward, where the
// gradient of the input is not wanted: the activation sends nothing and keeps the cut.
struct tp : axis<2> {};
using pair = parallel<chain<linear<6, 10, split_output<tp>>, gelu, linear<10, 7, split_input<tp>>>>;
static_assert(collectives<pair, mesh<tp>>.size() == 1);

}  // namespace

TEST_CASE("gradients through layers of activations are those of finite differences") {
  check_gradients<gelu>();
  check_gradients<gelu_tanh>();
  check_gradients<silu>();
  check_gradients<sigmoid>();
  check_gradients<tanh_layer>();
}

TEST_CASE("layers of activations are the same however their inputs are cut") {
  on_meshes<feed_forward>(shape<2>{{5, 6}});
}
