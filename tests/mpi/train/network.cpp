#include "support/worlds.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/train/trainer.hpp>

// What a network and its trainer refuse, and models whose output is cut in another way than their input.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct tp : axis<Size> {};

/// Twelve images of 2 x 2 pixels in three classes.
image_dataset images() {
  image_dataset data{{{12, 1, 2, 2}}, {}, {}, 3};
  for (int i = 0; i < 48; ++i) data.pixels.push_back(static_cast<std::uint8_t>((i * 37) % 256));
  for (int i = 0; i < 12; ++i) data.labels.push_back((i * 5) % 3);
  return data;
}

template <class Tp>
using cut_at_the_end = parallel<chain<flatten<>, linear<4, 3>, shard<0, Tp>>, input<dynamic, 1, 2, 2>>;
template <class Tp>
using whole_at_the_end =
    parallel<chain<flatten<>, linear<4, 3>, whole_along<Tp>>, input<dynamic, 1, 2, 2>, data_parallel<Tp>>;

template <template <class> class Model, class Tp, class Comm>
std::pair<double, double> train(Comm const& world) {
  team<mesh<Tp>, Comm> team{world};
  auto net = team.template make<Model<Tp>>(seed{4});
  trainer fit(net, cross_entropy{}, sgd(0.1));
  const auto data = images();
  const double loss = fit.fit({data, 5, 0.5f}, epochs{3}).back();
  return {loss, fit.evaluate({data, 5, 0.5f}).accuracy};
}

template <template <class> class Model, int Size>
void compare() {
  if (worlds::size() != Size) return;
  const auto wanted = train<Model, tp<1>>(serial_comm{});
  const auto found = train<Model, tp<Size>>(mpi_comm{});
  CHECK(std::abs(found.first - wanted.first) < 1e-6);
  CHECK(found.second == wanted.second);
}

std::string what(auto call) {
  try {
    call();
  } catch (error const& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a model whose output rows are cut in another way than its input rows trains and evaluates like serial") {
  compare<cut_at_the_end, 2>();
  compare<cut_at_the_end, 4>();
  compare<whole_at_the_end, 2>();
  compare<whole_at_the_end, 4>();
}

TEST_CASE("backward needs a forward pass in training of its own, and a gradient of its output's extents") {
  worlds::serial_team<mesh<>> team{serial_comm{}};
  auto net = team.make<linear<4, 3>>(seed{1});
  using net_type = decltype(net);
  const net_type::input_type x(team, {{5, 4}});
  CHECK(what([&] {
          net.backward(net_type::output_type(team, {{5, 3}}));
        }).find("backward without a forward pass") != std::string::npos);
  const auto y = net.forward(x);
  CHECK(what([&] {
          net.backward(net_type::output_type(team, {{6, 3}}));
        }) == "tessera: a gradient of [6, 3]; wanted [5, 3]; pass the gradient of the output of the last forward pass");
  net.backward(y);
  CHECK(what([&] { net.backward(y); }).find("backward without a forward pass") != std::string::npos);
  net.forward(x, false);
  CHECK(what([&] { net.backward(y); }).find("backward without a forward pass") != std::string::npos);
}

TEST_CASE("an input of other extents than the model was made for is refused") {
  worlds::serial_team<mesh<>> team{serial_comm{}};
  auto net = team.make<parallel<batch_norm2d<4>, input<dynamic, 4, 3, 3>>>(seed{1});
  using net_type = decltype(net);
  CHECK(what([&] {
          net.forward(net_type::input_type(team, {{2, 40, 3, 3}}));
        }) ==
        "tessera: an input of [2, 40, 3, 3]; wanted [-1, 4, 3, 3] (-1: any extent); pass the extents that the model "
        "names");
}
