#include "listed_calls.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/dropout.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/residual.hpp>

namespace {

using namespace against_serial;

using half = dropout<keep_of<std::ratio<1, 2>>>;
template <class Layer>
using as_it_is = Layer;

template <template <class> class Keep, class A, class B>
using perceptron =
    parallel<chain<Keep<chain<linear<6, 12, split_output<B>>, gelu, half, linear<12, 6, split_input<B>>>>, half,
                   Keep<linear<6, 5, split_output<B>>>>,
             input<dynamic, 6>, data_parallel<A>>;
template <class A, class B>
using plain_perceptron = perceptron<as_it_is, A, B>;
template <class A, class B>
using frugal_perceptron = perceptron<recompute, A, B>;

template <template <class> class Keep, class A, class B>
using images = parallel<chain<Keep<residual<chain<conv2d<3, 6, window<3, 1, 1>, split_output<B>>, batch_norm2d<6>, relu,
                                                  conv2d<6, 3, window<3, 1, 1>, split_input<B>>, half>>>,
                              Keep<batch_norm2d<3>>>,
                        input<dynamic, 3, 5, 4>, data_parallel<A>>;
template <class A, class B>
using plain_images = images<as_it_is, A, B>;
template <class A, class B>
using frugal_images = images<recompute, A, B>;

/// What two training steps leave: outputs, gradients, and states.
template <class Model, class Team, int Rank>
std::vector<float> two_steps(Team& team, shape<Rank> const& extents, std::vector<std::string>& names) {
  auto net = team.template make<Model>(seed{5});
  std::vector<float> all;
  const auto keep = [&](auto const& values) { all.insert(all.end(), values.begin(), values.end()); };
  for (std::uint64_t step = 0; step < 2; ++step) {
    const auto x =
        distribute<typename decltype(net)::input_type::layout_type>(team, worlds::values<float>(extents, step));
    const auto y = net.forward(x);
    keep(y.read());
    net.backward(y);
    for (auto const& p : net.parameters()) {
      if (step == 0) names.push_back(p.name);
      keep(p.trainable ? p.gradient : p.value);
    }
    net.forward(x, false);  // evaluation in between changes nothing
  }
  return all;
}

/// The same bits, names and order with recomputation as without.
template <template <class, class> class Plain, template <class, class> class Frugal, int A, int B, int Rank>
void same_on(shape<Rank> const& extents) {
  if (worlds::size() != A * B) return;
  worlds::parallel_team<mesh<first<A>, second<B>>> team{mpi_comm{}};
  std::vector<std::string> plain_names;
  std::vector<std::string> frugal_names;
  const auto wanted = two_steps<Plain<first<A>, second<B>>>(team, extents, plain_names);
  const auto found = two_steps<Frugal<first<A>, second<B>>>(team, extents, frugal_names);
  CHECK(found == wanted);
  CHECK(frugal_names == plain_names);
}

template <template <class, class> class Plain, template <class, class> class Frugal, int Rank>
void same(shape<Rank> const& extents) {
  same_on<Plain, Frugal, 1, 1>(extents);
  same_on<Plain, Frugal, 2, 1>(extents);
  same_on<Plain, Frugal, 1, 2>(extents);
  same_on<Plain, Frugal, 2, 2>(extents);
}

}  // namespace

TEST_CASE("a block that is computed again gives the bits of one that keeps everything") {
  same<plain_perceptron, frugal_perceptron>(shape<2>{13, 6});
  same<plain_images, frugal_images>(shape<4>{5, 3, 5, 4});
}

TEST_CASE("a recomputed model makes the collectives that its type lists") {
  check_all_calls<frugal_perceptron>(shape<2>{13, 6});
  check_all_calls<frugal_images>(shape<4>{5, 3, 5, 4});
}

TEST_CASE("between forward and backward a recomputed block holds its input alone") {
  if (worlds::size() != 1) return;
  using block = chain<linear<64, 64>, gelu, linear<64, 64>, gelu, linear<64, 64>>;
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  const auto held = [&]<class Model>(std::type_identity<Model>) {
    auto net = alone.template make<Model>(seed{5});
    const auto x = distribute<replicated>(alone, worlds::values<float>(shape<2>{100, 64}, 1));
    net.backward(net.forward(x));  // the kernels have their scratch memory from here on
    const auto before = host_memory::used().live;
    const auto y = net.forward(x);
    return host_memory::used().live - before;
  };
  const std::size_t activation = 100 * 64 * sizeof(float);
  // The input is that of the caller; the output is held too.
  CHECK(held(std::type_identity<recompute<block>>{}) == activation);
  CHECK(held(std::type_identity<chain<recompute<block>, recompute<block>>>{}) == 2 * activation);
  CHECK(held(std::type_identity<block>{}) == 5 * activation);
}
