#include "equal_to_serial.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/collectives.hpp>

// A batch in parts against the same batch at once.

namespace {

using namespace equal_to_serial;

template <class Dp, class Tp>
using mlp = parallel<
    chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu, linear<9, 7, split_output<Tp>>>,
    data_parallel<Dp>, fuse::at<2>>;

using parts = std::vector<interval>;

/// Trains five steps of 13 rows that come in these parts.
template <class Net, class Team>
std::vector<double> train(Net& net, Team& team, cross_entropy loss, parts const& in) {
  using input_type = typename Net::input_type;
  trainer fit(net, loss, adam{.learning_rate = 0.01}, {.clip_norm = 1});
  std::vector<double> losses;
  for (std::uint64_t s = 0; s < 5; ++s) {
    const auto images = worlds::values<double>(shape<2>{{rows, 12}}, s);
    auto labels = worlds::labels(rows, 7, s);
    // Rows that count nowhere, among them all of rows 5 to 7.
    for (const std::size_t r : {std::size_t{1}, std::size_t{5}, std::size_t{6}, std::size_t{7}}) labels[r] = -100;
    std::vector<input_type> x;
    std::vector<std::vector<std::int64_t>> targets;
    for (const interval part : in) {
      tensor<double, 2> some(shape<2>{{part.size, 12}});
      for (index_t r = 0; r < part.size; ++r)
        for (index_t c = 0; c < 12; ++c) some(r, c) = images(part.begin + r, c);
      x.push_back(distribute<typename input_type::layout_type>(team, some));
      targets.push_back(worlds::rows_of(worlds::rows_of(labels, part), x.back().part()[0]));
    }
    losses.push_back(in.size() == 1 ? fit.step(x[0], targets[0]) : fit.step(x, targets));
  }
  return losses;
}

template <int Dp, int Tp>
void compare(cross_entropy const& loss, parts const& in) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  worlds::parallel_team<mesh<data_axis<Dp>, tensor_axis<Tp>>> team{mpi_comm{}};
  using model = mlp<data_axis<Dp>, tensor_axis<Tp>>;
  auto at_once = team.template make<model, double>(seed{7});
  auto in_parts = team.template make<model, double>(seed{7});
  const auto wanted = train(at_once, team, loss, {{0, rows}});
  const auto found = train(in_parts, team, loss, in);
  for (std::size_t s = 0; s < wanted.size(); ++s) CHECK(std::abs(found[s] - wanted[s]) < 1e-13 * wanted[s]);
  for (std::size_t i = 0; i < at_once.parameters().size(); ++i) {
    auto const& one = at_once.parameters()[i];
    auto const& other = in_parts.parameters()[i];
    for (index_t e = 0; e < one.value.size(); ++e) CHECK(std::abs(one.value.data[e] - other.value.data[e]) < 1e-12);
  }
}

void compare_all(cross_entropy const& loss, parts const& in) {
  compare<1, 1>(loss, in);
  compare<2, 1>(loss, in);
  compare<1, 2>(loss, in);
  compare<4, 1>(loss, in);
  compare<2, 2>(loss, in);
  compare<2, 4>(loss, in);
}

}  // namespace

TEST_CASE("uneven parts of a batch give the losses and updates of the batch, rows that count nowhere included") {
  compare_all({}, {{0, 4}, {4, 5}, {9, 4}});
  compare_all({{.label_smoothing = 0.1, .class_weights = {1, 2, 3, 0.5, 0.25, 1, 2}}}, {{0, 8}, {8, 5}});
  compare_all({{.reduce = loss_reduction::sum}}, {{0, 4}, {4, 5}, {9, 4}});
}

TEST_CASE("a part in which no row counts adds nothing, wherever it comes") {
  if (worlds::size() > 2) return;
  compare_all({}, {{0, 5}, {5, 3}, {8, 5}});
  compare_all({}, {{5, 3}, {0, 5}, {8, 5}});
  compare_all({}, {{0, 5}, {8, 5}, {5, 3}});
}

TEST_CASE("buckets are reduced once, with the last part") {
  if (worlds::size() != 2) return;
  using world = mesh<data_axis<2>, tensor_axis<1>>;
  using model = mlp<data_axis<2>, tensor_axis<1>>;
  const recording<mpi_comm> all{mpi_comm{}};
  team<world, recording<mpi_comm>> team{all};
  auto net = team.make<model, double>(seed{7});
  auto& log = team.group(world::all);
  log.clear();
  train(net, team, {}, {{0, 4}, {4, 5}, {9, 4}});
  index_t reduced = 0;
  for (auto const& call : log.calls())
    if (call.kind == collective::all_reduce && call.elements > 3) reduced += call.elements;
  index_t parameters = 0;
  for (auto const& p : net.parameters()) parameters += p.value.size();
  CHECK(reduced == 5 * parameters);
}

TEST_CASE("what a refused part leaves behind does not count in the next step") {
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> team{serial_comm{}};
  using model = mlp<data_axis<1>, tensor_axis<1>>;
  const auto run = [&](bool refused) {
    auto net = team.make<model>(seed{7});
    trainer fit(net, cross_entropy{}, sgd(0.1));
    const auto x = distribute<row<data_axis<1>>>(team, worlds::values<float>(shape<2>{{4, 12}}, 1));
    const std::vector<std::int64_t> good{0, 1, 2, 3};
    const std::vector<std::int64_t> bad{0, 1, 2, 7};
    if (refused) CHECK_THROWS_AS(fit.step(std::vector{x, x}, std::vector{good, bad}), error);
    fit.step(x, good);
    const auto weight = net.parameters().front().value;
    return std::vector<float>(weight.begin(), weight.end());
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("fit takes each batch in parts") {
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> team{serial_comm{}};
  using model = parallel<chain<flatten<>, linear<4, 3>>, input<dynamic, 1, 2, 2>>;
  image_dataset data{{{12, 1, 2, 2}}, {}, {}, 3};
  for (int i = 0; i < 48; ++i) data.pixels.push_back(static_cast<std::uint8_t>((i * 37) % 256));
  for (int i = 0; i < 12; ++i) data.labels.push_back((i * 5) % 3);
  const auto losses = [&](index_t count) {
    auto net = team.make<model, double>(seed{4});
    return trainer(net, cross_entropy{}, sgd(0.1), {.micro_batches = count}).fit({data, 5, 0.5f}, epochs{3});
  };
  const auto wanted = losses(1);
  // More parts than rows are as many as there are rows.
  for (const index_t count : {2, 5, 9})
    for (std::size_t e = 0; e < 3; ++e) CHECK(std::abs(losses(count)[e] - wanted[e]) < 1e-14);
  CHECK_THROWS_AS(losses(0), error);
}

TEST_CASE("parts without targets, or no parts, are refused") {
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> team{serial_comm{}};
  auto net = team.make<mlp<data_axis<1>, tensor_axis<1>>>(seed{7});
  trainer fit(net, cross_entropy{}, sgd(0.1));
  using input_type = decltype(net)::input_type;
  const std::vector<std::vector<std::int64_t>> none;
  CHECK_THROWS_AS(fit.step(std::vector<input_type>{}, none), error);
  const auto x = distribute<row<data_axis<1>>>(team, worlds::values<float>(shape<2>{{4, 12}}, 1));
  CHECK_THROWS_WITH_AS(fit.step(std::vector{x}, none),
                       "tessera: 1 micro-batches with 0 targets; wanted at least one, and targets for each; pass two "
                       "lists of one length",
                       error);
}

TEST_CASE("each step has the rate of the schedule") {
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> team{serial_comm{}};
  auto net = team.make<linear<4, 3>>(seed{7});
  trainer fit(net, cross_entropy{}, sgd(100), {.schedule = step_rate{.rate = 0.5, .every = 2, .factor = 0.1}});
  const auto x = distribute<replicated>(team, worlds::values<float>(shape<2>{{4, 4}}, 1));
  for (const double wanted : {0.5, 0.5, 0.05, 0.05, 0.005}) {
    fit.step(x, std::vector<std::int64_t>{0, 1, 2, 2});
    CHECK(fit.optimizer().learning_rate == doctest::Approx(wanted).epsilon(1e-15));
  }
}

namespace {
/// An optimizer that moves nothing, at no rate.
struct idle {
  template <class T, class Memory>
  struct state {};
  template <class Kernels, class Parameters, class State>
  void step(Kernels&, Parameters const&, State&) const {}
};
}  // namespace

TEST_CASE("a schedule for an optimizer without a learning rate is refused") {
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> team{serial_comm{}};
  auto net = team.make<linear<4, 3>>(seed{7});
  trainer fit(net, cross_entropy{}, idle{});
  const auto x = distribute<replicated>(team, worlds::values<float>(shape<2>{{1, 4}}, 1));
  CHECK(fit.step(x, std::vector<std::int64_t>{1}) > 0);
  CHECK_THROWS_AS(trainer(net, cross_entropy{}, idle{}, {.schedule = constant_rate{1}}), error);
}
