#include "support/worlds.hpp"

#include <tessera/backend/rounded.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/train/pipeline.hpp>
#include <tessera/train/trainer.hpp>

#include <map>

// Training with products in a format of few bits: splits against the serial run, and what loss scaling does.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct dp : axis<Size> {};
template <int Size>
struct tp : axis<Size> {};
template <int Size>
struct pp : axis<Size> {};

constexpr index_t rows = 13;  // not divisible by any axis
constexpr index_t classes = 7;

template <class Dp, class Tp>
using mlp =
    parallel<chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu, linear<9, classes>>,
             data_parallel<Dp>>;

template <int Dp, int Tp>
using grid = mesh<dp<Dp>, tp<Tp>>;
template <class Mesh, class Backend>
using parallel_team = team<Mesh, mpi_comm, Backend>;
template <class Backend>
using alone = team<grid<1, 1>, serial_comm, Backend>;

/// Runs `f.operator()<Dp, Tp>()` for each mesh of this run's size.
template <class F>
void on_all_meshes(F f) {
  const auto on_mesh = [&]<int Dp, int Tp>() {
    if (worlds::size() != Dp * Tp) return;
    CAPTURE(Dp);
    CAPTURE(Tp);
    f.template operator()<Dp, Tp>();
  };
  on_mesh.template operator()<1, 1>();
  on_mesh.template operator()<2, 1>();
  on_mesh.template operator()<1, 2>();
  on_mesh.template operator()<4, 1>();
  on_mesh.template operator()<1, 4>();
  on_mesh.template operator()<2, 2>();
  on_mesh.template operator()<8, 1>();
  on_mesh.template operator()<2, 4>();
}

/// Cross-entropy whose gradient is `factor` times as large, and infinite in one element where `fault` is set.
struct changed_loss {
  double factor = 1;
  bool const* fault = nullptr;

  template <class Logits>
  auto operator()(Logits const& logits, std::vector<std::int64_t> const& labels) const {
    struct result {
      decltype(cross_entropy{}(logits, labels)) plain;
      changed_loss how;
      double loss() const { return plain.loss(); }
      auto divisor() const { return plain.divisor(); }
      Logits backward(double by) const {
        auto gradient = plain.backward(how.factor * by);
        if (how.fault != nullptr && *how.fault)
          *gradient.local().data() = std::numeric_limits<typename Logits::value_type>::infinity();
        return gradient;
      }
    };
    return result{cross_entropy{}(logits, labels), *this};
  }
};

/// One of these batches, this rank's rows, as the trainer takes it.
template <class Trainer, class Team>
double one_step(Trainer& trains, Team& team, std::uint64_t number) {
  using input_type = typename std::remove_reference_t<decltype(trains.model())>::input_type;
  const auto x =
      distribute<typename input_type::layout_type>(team, worlds::values<float>(shape<2>{{rows, 12}}, number));
  return trains.step(x, worlds::rows_of(worlds::labels(rows, classes, number), x.part()[0]));
}

template <class Net>
std::map<std::string, std::vector<float>> whole_parameters(Net& net) {
  std::map<std::string, std::vector<float>> all;
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto whole = gather(value);
    all[name].assign(whole.read().begin(), whole.read().end());
  });
  return all;
}
template <class Net>
std::vector<float> own_parameters(Net const& net) {
  std::vector<float> all;
  for (auto const& p : net.parameters()) all.insert(all.end(), p.value.begin(), p.value.end());
  return all;
}

struct run_result {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> parameters;
  index_t skipped = 0;
};
/// So many updates on a few batches, which come again; a batch whose step was skipped is the next one's too.
template <class Model, class Team>
run_result train(Team& team, index_t updates, index_t batches, options const& choice) {
  auto net = team.template make<Model>(seed{7});
  trainer trains(net, cross_entropy{}, momentum{.learning_rate = 0.05}, choice);
  run_result result;
  for (index_t done = 0; done < updates; done = trains.optimizer_state().steps)
    result.losses.push_back(one_step(trains, team, static_cast<std::uint64_t>(done % batches)));
  result.parameters = whole_parameters(net);
  result.skipped = trains.loss_scale().state().skipped;
  return result;
}

/// The largest difference of losses and parameters.
double difference(run_result const& a, run_result const& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  double apart = 0;
  for (std::size_t s = 0; s < a.losses.size(); ++s) apart = std::max(apart, std::abs(a.losses[s] - b.losses[s]));
  for (auto const& [name, values] : a.parameters) {
    auto const& other = b.parameters.at(name);
    REQUIRE(other.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      apart = std::max(apart, std::abs(static_cast<double>(values[i]) - static_cast<double>(other[i])));
  }
  return apart;
}

/// That all ranks have the same number.
bool same_everywhere(double value) {
  double both[2] = {value, -value};
  mpi_comm().all_reduce(both, 2, reduction::maximum);
  return both[0] == -both[1];
}

}  // namespace

// A partial sum is rounded on each rank, the sum of them is not: results of a product differ by a step of the format,
// 2^-8 or 2^-11 of their size. So much is also between five steps in the format and five in float.
TEST_CASE_TEMPLATE("split runs equal the serial run within the rounding of the format", Format, bfloat16, float16) {
  using backend = rounded<eigen, Format>;
  const double unit = std::ldexp(1.0, -Format::fraction_bits - 1);
  const options scaled{.loss_scale = fixed_scale{256}};
  alone<backend> one{serial_comm{}};
  const auto wanted = train<mlp<dp<1>, tp<1>>>(one, 5, 5, scaled);
  alone<eigen> plain{serial_comm{}};
  const double from_float = difference(wanted, train<mlp<dp<1>, tp<1>>>(plain, 5, 5, {}));
  CHECK(from_float > unit / 16);
  CHECK(from_float < 2 * unit);
  on_all_meshes([&]<int Dp, int Tp>() {
    parallel_team<grid<Dp, Tp>, backend> team{mpi_comm{}};
    const auto found = train<mlp<dp<Dp>, tp<Tp>>>(team, 5, 5, scaled);
    CHECK(difference(found, wanted) < 2 * unit);
    CHECK(same_everywhere(found.losses.back()));
  });
}

TEST_CASE("gradients are finite where they are on all ranks") {
  on_all_meshes([]<int Dp, int Tp>() {
    parallel_team<grid<Dp, Tp>, rounded<eigen, float16>> team{mpi_comm{}};
    auto net = team.template make<mlp<dp<Dp>, tp<Tp>>>(seed{7});
    for (auto const& p : net.parameters()) std::fill(p.gradient.begin(), p.gradient.end(), 1e30f);
    CHECK(gradients_finite(team, net.parameters()));
    float& last = net.parameters().back().gradient.end()[-1];  // all ranks hold it
    for (const float fault : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
      for (int rank = 0; rank < Dp * Tp; ++rank) {
        last = team.rank() == rank ? fault : 1.0f;
        CHECK_FALSE(gradients_finite(team, net.parameters()));
      }
  });
}

TEST_CASE("an overflow on one rank skips the step on all, and nothing else") {
  on_all_meshes([]<int Dp, int Tp>() {
    parallel_team<grid<Dp, Tp>, rounded<eigen, float16>> team{mpi_comm{}};
    auto net = team.template make<mlp<dp<Dp>, tp<Tp>>>(seed{7});
    bool fault = false;
    trainer trains(net, changed_loss{1, &fault}, momentum{.learning_rate = 0.05},
                   {.clip_norm = 1, .loss_scale = dynamic_scale{.initial = 1024, .every = 2}});
    one_step(trains, team, 0);
    const auto before = own_parameters(net);
    fault = team.rank() == Dp * Tp - 1;
    const double loss = one_step(trains, team, 1);
    CHECK(std::isfinite(loss));
    CHECK(own_parameters(net) == before);
    CHECK(trains.loss_scale().state() == loss_scale_state{512, 0, 1, 1});
    CHECK(same_everywhere(trains.loss_scale().factor()));
    CHECK(trains.steps() == 2);
    CHECK(trains.optimizer_state().steps == 1);
    fault = false;
    one_step(trains, team, 1);
    CHECK(own_parameters(net) != before);
    one_step(trains, team, 2);
    CHECK(trains.loss_scale().state() == loss_scale_state{1024, 0, 1, 0});
    CHECK(same_everywhere(trains.loss_scale().factor()));
  });
}

TEST_CASE("an overflow in the last stage of a pipeline skips the step in all") {
  const auto in_stages = []<int Stages, int Dp>() {
    if (worlds::size() != Stages * Dp) return;
    CAPTURE(Stages);
    using world = mesh<pp<Stages>, dp<Dp>>;
    using model = parallel<chain<linear<12, 20>, relu, linear<20, 9>, relu, linear<9, classes>>, data_parallel<dp<Dp>>,
                           pipeline<pp<Stages>>>;
    parallel_team<world, rounded<eigen, float16>> team{mpi_comm{}};
    auto net = team.template make<model>(seed{7});
    bool fault = false;
    trainer trains(net, changed_loss{1, &fault}, sgd(0.05), {.loss_scale = dynamic_scale{.initial = 1024}});
    const auto before = own_parameters(net);
    fault = team.rank() == Stages * Dp - 1;
    one_step(trains, team, 0);
    CHECK(own_parameters(net) == before);
    CHECK(trains.loss_scale().state() == loss_scale_state{512, 0, 1, 1});
    fault = false;
    one_step(trains, team, 0);
    CHECK(own_parameters(net) != before);
    CHECK(trains.loss_scale().state() == loss_scale_state{512, 1, 1, 0});
  };
  in_stages.operator()<2, 1>();
  in_stages.operator()<2, 2>();
  in_stages.operator()<2, 4>();
}

TEST_CASE("gradients below float16 vanish without scaling and survive with it") {
  on_all_meshes([]<int Dp, int Tp>() {
    // Gradients of the weights after a step, divided by what the loss was made smaller by.
    const auto gradients = []<class Backend>(Backend*, double factor, loss_scaling const& scaling) {
      parallel_team<grid<Dp, Tp>, Backend> team{mpi_comm{}};
      auto net = team.template make<mlp<dp<Dp>, tp<Tp>>>(seed{7});
      trainer trains(net, changed_loss{factor}, sgd(0), {.loss_scale = scaling});
      one_step(trains, team, 0);
      std::vector<double> all;
      for (auto const& p : net.parameters())
        if (p.extents.size() == 2)
          for (const float g : p.gradient) all.push_back(static_cast<double>(g) / factor);
      return all;
    };
    constexpr rounded<eigen, float16>* half = nullptr;
    constexpr eigen* whole = nullptr;
    const double tiny = 1e-7;
    for (const double g : gradients(half, tiny, {})) CHECK(g == 0);
    const auto wanted = gradients(whole, tiny, {});
    const auto found = gradients(half, tiny, fixed_scale{0x1p24});
    REQUIRE(found.size() == wanted.size());
    double largest = 0;
    double apart = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::abs(wanted[i]));
      apart = std::max(apart, std::abs(found[i] - wanted[i]));
    }
    CHECK(largest > 1e-3);
    CHECK(apart < 0.01 * largest);
  });
}

TEST_CASE("float16 with a dynamic scale that starts too high trains as far as float") {
  alone<eigen> plain{serial_comm{}};
  const auto wanted = train<mlp<dp<1>, tp<1>>>(plain, 60, 1, {});
  on_all_meshes([&]<int Dp, int Tp>() {
    parallel_team<grid<Dp, Tp>, rounded<eigen, float16>> team{mpi_comm{}};
    const dynamic_scale scaling{.initial = 0x1p30, .every = 40};
    const auto found = train<mlp<dp<Dp>, tp<Tp>>>(team, 60, 1, {.loss_scale = scaling});
    CHECK(found.skipped > 5);
    CHECK(found.skipped < 30);
    CHECK(wanted.losses.back() < 0.5 * wanted.losses.front());
    CHECK(std::abs(found.losses.back() - wanted.losses.back()) < 0.03 * wanted.losses.back());
    CHECK(same_everywhere(found.losses.back()));
  });
}
