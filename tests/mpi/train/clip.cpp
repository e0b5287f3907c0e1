#include "support/worlds.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/trainer.hpp>

// Clipping by the norm of all gradients, on parameters that one axis cuts, the other, or none.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct dp : axis<Size> {};
template <int Size>
struct tp : axis<Size> {};

template <class Dp, class Tp>
using mlp = parallel<
    chain<linear<6, 5, split_output<Tp>>, relu, linear<5, 7, split_input<Tp>>, relu, linear<7, 3, split_output<Dp>>>,
    data_parallel<Dp>>;

/// Runs `f(team, model)` with a network on each mesh of this run's size.
template <int Dp, int Tp, class F>
void on_mesh(F f) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  const recording<mpi_comm> all{mpi_comm{}};
  team<mesh<dp<Dp>, tp<Tp>>, recording<mpi_comm>> team{all};
  auto net = team.template make<mlp<dp<Dp>, tp<Tp>>>(seed{1});
  f(team, net);
}
template <class F>
void on_all_meshes(F f) {
  on_mesh<1, 1>(f);
  on_mesh<2, 1>(f);
  on_mesh<1, 2>(f);
  on_mesh<4, 1>(f);
  on_mesh<1, 4>(f);
  on_mesh<2, 2>(f);
  on_mesh<2, 4>(f);
}

/// Gradients that are the parameters themselves, whose whole values are known.
template <class Net>
double gradients_from_values(Net& net) {
  for (auto const& p : net.parameters()) std::copy(p.value.begin(), p.value.end(), p.gradient.begin());
  double sum = 0;
  net.for_each_parameter([&](std::string const&, auto const& value) {
    const auto whole = gather(value);
    for (const float v : whole.read()) sum += static_cast<double>(v) * static_cast<double>(v);
  });
  return std::sqrt(sum);
}

template <class Net>
std::vector<float> values_of(Net const& net) {
  std::vector<float> all;
  for (auto const& p : net.parameters()) all.insert(all.end(), p.value.begin(), p.value.end());
  return all;
}

template <class Net, class Team>
double one_step(Net& net, Team& team, options const& choice, bool with_nan = false) {
  trainer fit(net, cross_entropy{}, sgd(1.0), choice);
  auto images = worlds::values<float>(shape<2>{{9, 6}}, 1);
  if (with_nan) images(8, 5) = std::numeric_limits<float>::quiet_NaN();
  const auto x = distribute<typename Net::input_type::layout_type>(team, images);
  constexpr auto rows = Net::output_type::placements;
  shape<2> extents{{9, 3}};
  const interval mine = local_box<typename Team::mesh>(rows, extents, team.coordinates())[0];
  return fit.step(x, worlds::rows_of(worlds::labels(9, 3, 2), mine));
}

}  // namespace

TEST_CASE("the norm counts each element of the whole gradients once, in one message of one number") {
  on_all_meshes([](auto& team, auto& net) {
    using mesh = typename std::remove_reference_t<decltype(team)>::mesh;
    const double wanted = gradients_from_values(net);
    auto& log = team.group(mesh::all);
    log.clear();
    const double found = global_norm(team, net.parameters());
    CHECK(std::abs(found - wanted) <= 1e-14 * wanted);
    if (mesh::devices == 1) {
      CHECK(log.calls().empty());
      return;
    }
    REQUIRE(log.calls().size() == 1);
    CHECK(log.calls()[0] ==
          recorded_call{collective::all_reduce, mesh::cutting(mesh::all), 1, sizeof(double), reduction::sum});
  });
}

TEST_CASE("gradients above the largest norm are scaled down to it, others are left alone") {
  on_all_meshes([](auto& team, auto& net) {
    const double norm = gradients_from_values(net);
    const auto untouched = [&] {
      for (auto const& p : net.parameters())
        if (!std::equal(p.value.begin(), p.value.end(), p.gradient.begin())) return false;
      return true;
    };
    CHECK(clip_by_global_norm(team, net.parameters(), norm * 1.01) == doctest::Approx(norm).epsilon(1e-14));
    CHECK(untouched());
    clip_by_global_norm(team, net.parameters(), 0.25);
    CHECK(std::abs(global_norm(team, net.parameters()) - 0.25) < 1e-6);
    CHECK_FALSE(untouched());
    clip_by_global_norm(team, net.parameters(), 0);
    CHECK(global_norm(team, net.parameters()) == 0);
    CHECK_THROWS_AS(clip_by_global_norm(team, net.parameters(), -1), error);
    CHECK_THROWS_AS(clip_by_global_norm(team, net.parameters(), std::nan("")), error);
  });
}

TEST_CASE("a fault in the gradients of one rank is seen by all, which leave them as they are") {
  on_all_meshes([](auto& team, auto& net) {
    for (const float fault : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const double norm = gradients_from_values(net);
      auto const& last = net.parameters().back();  // the bias of the last layer, cut by the first axis
      const bool mine = team.rank() == 0;
      if (mine) *last.gradient.begin() = fault;
      const double found = clip_by_global_norm(team, net.parameters(), norm / 2);
      CHECK_FALSE(std::isfinite(found));
      CHECK(std::isnan(found) == std::isnan(fault));
      for (auto const& p : net.parameters())
        CHECK(std::equal(p.value.begin() + (mine && p.name == last.name), p.value.end(),
                         p.gradient.begin() + (mine && p.name == last.name)));
    }
  });
}

TEST_CASE("the trainer's step is no longer than clip_norm") {
  on_all_meshes([](auto& team, auto& net) {
    const auto before = values_of(net);
    one_step(net, team, {.clip_norm = 0.01});
    const auto after = values_of(net);
    // The step of plain gradient descent at rate 1 is the clipped gradient.
    auto const& parameters = net.parameters();
    std::size_t i = 0;
    for (auto const& p : parameters)
      for (float& g : p.gradient) {
        CHECK(std::abs((before[i] - after[i]) - g) < 1e-6f);
        ++i;
      }
    CHECK(std::abs(global_norm(team, parameters) - 0.01) < 1e-6);
  });
}

TEST_CASE("a step with gradients that are no numbers is refused on all ranks, before parameters move") {
  on_all_meshes([](auto& team, auto& net) {
    const auto before = values_of(net);
    CHECK_THROWS_WITH_AS(one_step(net, team, {.clip_norm = 1}, true),
                         "tessera: gradients of norm nan in step 0; wanted a finite norm; look for faults in the data, "
                         "or lower the learning rate",
                         error);
    CHECK(values_of(net) == before);
    CHECK_THROWS_AS(one_step(net, team, {.clip_norm = -1}), error);
  });
}
