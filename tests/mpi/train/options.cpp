#include "support/worlds.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/trainer.hpp>

// What the trainer's options and fusion do, on any number of ranks along one axis.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct dp : axis<Size> {};
template <int Size>
struct tp : axis<Size> {};

template <class Dp, class Tp, class Fusion = fuse::all>
using mlp = parallel<chain<linear<6, 5, split_output<Tp>>, relu, linear<5, 3>>, data_parallel<Dp>, Fusion>;

template <int Dp, int Tp>
using team_of = worlds::parallel_team<mesh<dp<Dp>, tp<Tp>>>;

/// Runs `f(team)` on the data-parallel team of this run's size.
template <class F>
void on_this_world(F f) {
  switch (worlds::size()) {
    case 1: {
      team_of<1, 1> t{mpi_comm{}};
      return f.template operator()<1>(t);
    }
    case 2: {
      team_of<2, 1> t{mpi_comm{}};
      return f.template operator()<2>(t);
    }
    case 4: {
      team_of<4, 1> t{mpi_comm{}};
      return f.template operator()<4>(t);
    }
    default: {
      team_of<8, 1> t{mpi_comm{}};
      return f.template operator()<8>(t);
    }
  }
}

template <class Net>
std::vector<float> gradients(Net const& net) {
  std::vector<float> all;
  for (auto const& p : net.parameters()) all.insert(all.end(), p.gradient.begin(), p.gradient.end());
  return all;
}

template <class Net, class Team>
void one_step(Net& net, Team& team, options choice) {
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.0}, choice);
  using input_type = typename Net::input_type;
  const auto x = distribute<typename input_type::layout_type>(team, worlds::values<float>(shape<2>{{9, 6}}, 1));
  fit.step(x, worlds::rows_of(worlds::labels(9, 3, 2), x.part()[0]));
}

}  // namespace

TEST_CASE("fit refuses a last batch of fewer rows than ranks before its first step") {
  on_this_world([]<int Dp>(team_of<Dp, 1>& team) {
    using model = parallel<chain<flatten<>, linear<4, 3>>, input<dynamic, 1, 2, 2>, data_parallel<dp<Dp>>>;
    auto net = team.template make<model>();
    trainer fit(net, cross_entropy{}, momentum{});
    const image_dataset data{{{17, 1, 2, 2}}, std::vector<std::uint8_t>(17 * 4), std::vector<std::int64_t>(17), 3};
    const auto train = [&](bool drop_last) {
      fit.fit(image_batches{data, 8, 0, 1, {.drop_last = drop_last}}, epochs{1});
    };
    if (Dp > 1)
      CHECK_THROWS_AS(train(false), error);
    else
      train(false);
    CHECK(fit.steps() == (Dp > 1 ? 0 : 3));
    train(true);
    CHECK(fit.steps() == (Dp > 1 ? 2 : 5));
  });
}

TEST_CASE("without gradients_mean gradients are as many times larger as the batch has parts") {
  on_this_world([]<int N>(auto& team) {
    auto net = team.template make<mlp<dp<N>, tp<1>>>(seed{1});
    one_step(net, team, {.gradients_mean = true});
    const auto mean = gradients(net);
    one_step(net, team, {.gradients_mean = false});
    const auto sum = gradients(net);
    REQUIRE(mean.size() == 53);
    for (std::size_t i = 0; i < mean.size(); ++i)
      CHECK(std::abs(sum[i] - static_cast<float>(N) * mean[i]) <= 1e-6f * (1 + std::abs(sum[i])));
  });
}

TEST_CASE("parameter_broadcast gives all ranks the parameters of rank 0") {
  on_this_world([]<int N>(auto& team) {
    auto net = team.template make<mlp<dp<N>, tp<1>>>(seed{static_cast<std::uint64_t>(team.rank())});
    trainer fit(net, cross_entropy{}, momentum{}, {.parameter_broadcast = true});
    auto wanted = team.template make<mlp<dp<N>, tp<1>>>(seed{0});
    for (std::size_t i = 0; i < wanted.parameters().size(); ++i)
      CHECK(std::equal(wanted.parameters()[i].value.begin(), wanted.parameters()[i].value.end(),
                       net.parameters()[i].value.begin()));
  });
}

TEST_CASE("parameter_broadcast leaves cut parameters alone") {
  if (worlds::size() != 2) return;
  team_of<1, 2> team{mpi_comm{}};
  auto net = team.make<mlp<dp<1>, tp<2>>>(seed{static_cast<std::uint64_t>(team.rank())});
  const auto before = net.parameters()[0].value.data[0];
  trainer fit(net, cross_entropy{}, momentum{}, {.parameter_broadcast = true});
  CHECK(net.parameters()[0].cut);
  CHECK(net.parameters()[0].value.data[0] == before);
  auto first = team.make<mlp<dp<1>, tp<2>>>(seed{0});
  CHECK_FALSE(net.parameters()[2].cut);
  CHECK(net.parameters()[2].value.data[0] == first.parameters()[2].value.data[0]);
}

TEST_CASE("gradients lie in their bucket in the order in which backward makes them") {
  on_this_world([]<int N>(auto& team) {
    auto net = team.template make<mlp<dp<N>, tp<1>>>(seed{1});
    if constexpr (N > 1) {
      auto const& p = net.parameters();
      for (std::size_t i = p.size() - 1; i > 0; --i) CHECK(p[i - 1].gradient.data == p[i].gradient.end());
    }
  });
}

TEST_CASE("fusion and pieces do not change the gradients") {
  on_this_world([]<int N>(auto& team) {
    auto whole = team.template make<mlp<dp<N>, tp<1>>>(seed{1});
    auto apart = team.template make<mlp<dp<N>, tp<1>, fuse::each>>(seed{1});
    auto by_index = team.template make<mlp<dp<N>, tp<1>, fuse::at<1, 3>>>(seed{1});
    auto by_size = team.template make<mlp<dp<N>, tp<1>, fuse::bytes<64>>>(seed{1});
    one_step(whole, team, {});
    one_step(apart, team, {});
    one_step(by_index, team, {});
    one_step(by_size, team, {});
    const auto wanted = gradients(whole);
    const auto close = [&](std::vector<float> const& found) {
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (std::abs(found[i] - wanted[i]) > 1e-6f) return false;
      return true;
    };
    CHECK(close(gradients(apart)));
    CHECK(close(gradients(by_index)));
    CHECK(close(gradients(by_size)));
    team.group(std::remove_reference_t<decltype(team)>::mesh::all).piece_bytes(16);
    one_step(whole, team, {});
    team.group(std::remove_reference_t<decltype(team)>::mesh::template set_of<dp<N>>).piece_bytes(16);
    one_step(whole, team, {});
    CHECK(close(gradients(whole)));
  });
}
