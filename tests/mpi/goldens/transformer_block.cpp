#include "transformer_case.hpp"

#include <tessera/train/adam.hpp>
#include <tessera/train/network.hpp>

namespace {

using namespace transformer_case;

const golden::built here("transformer_block");

/// Steps of training from the parameters of the case.
template <class T, class Model, class Team>
void train(Team& team, golden::trial& t) {
  auto const& given = t.what().given;
  auto net = team.template make<Model, T>(seed{1});
  using net_type = decltype(net);
  net.for_each_parameter([&](std::string const& name, auto& value) {
    using value_type = std::remove_reference_t<decltype(value)>;
    const auto start = golden::put<T, value_type::rank, typename value_type::layout_type>(
        team, shaped(t[given_name(name)], value.extents()));
    golden::assign(value, start.read().data);
  });
  const auto x = golden::put<T, 3, typename net_type::input_type::layout_type>(team, t["x"]);
  auto const& target = t["target"].values;
  const adam optimizer{given.number("lr")};
  typename adam::state<T, typename Team::backend::memory> state;
  std::vector<double> losses;
  const int steps = static_cast<int>(given.number("steps"));
  for (int step = 0;; ++step) {
    const auto y = net.forward(x);
    const auto found = golden::values_of(y);
    if (step == 0) golden::expect(t, "out_first_step", y);
    golden::array gradient = t["target"];
    double loss = 0;
    const auto count = static_cast<double>(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      loss += (found[i] - target[i]) * (found[i] - target[i]) / count;
      gradient.values[i] = 2 * (found[i] - target[i]) / count;
    }
    losses.push_back(loss);
    if (step == steps) break;
    net.backward(golden::put<T, 3, typename net_type::output_type::layout_type>(team, gradient));
    if (step == 0) {
      std::size_t i = 0;
      net.for_each_parameter([&](std::string const& name, auto const& value) {
        // A gradient has the layout of its parameter.
        std::remove_cvref_t<decltype(value)> gradient(team, value.extents());
        golden::assign(gradient, net.parameters()[i++].gradient.data);
        const std::string as = "grad_first_step_" + given_name(name);
        t.expect(as, t[as].extents, golden::values_of(gradient));
      });
    }
    optimizer.step(team.kernels(), net.parameters(), state);
  }
  t.expect("losses", t["losses"].extents, losses);
  expect_final(t, net);
}

template <class T, class Model, class... Policies, class Team>
void train_on(Team& team, golden::test_case const& c, char const* split) {
  using model = parallel<Model, input<dynamic, 16, 32>, Policies...>;
  if constexpr (holds_elements<typename Team::backend, T>)
    golden::attempt(c, {std::is_same_v<T, float> ? "float" : "double", Team::mesh::devices, split},
                    [&](golden::trial& t) { train<T, model>(team, t); });
}

using first = golden::first_axis<2>;
using second = golden::second_axis<2>;
template <class Tp>
using heads_split = block_model<replicated, split_heads<Tp>, split_output<Tp>, split_input<Tp>>;

}  // namespace

TEST_CASE("training a transformer block equals its reference case on every split") {
  golden::run("transformer_block", [](golden::teams& all, golden::test_case const& c) {
    if (all.single) {
      train_on<float, block_model<replicated>>(*all.single, c, "");
      train_on<double, block_model<replicated>>(*all.single, c, "");
    }
    if (all.pair) {
      train_on<float, block_model<row<first>>>(*all.pair, c, "batch");
      train_on<float, heads_split<first>>(*all.pair, c, "heads");
      train_on<float, block_model<shard<1, first>>>(*all.pair, c, "sequence");
      train_on<float, block_model<shard<1, first>, split_heads<first>, split_output<first>, split_input<first>>>(
          *all.pair, c, "heads, sequence between");
    }
    if (all.square) {
      train_on<float, block_model<row<first>, split_heads<second>, split_output<second>, split_input<second>>,
               data_parallel<first>>(*all.square, c, "batch, heads");
      train_on<float, block_model<shard<1, first>, split_heads<second>, split_output<second>, split_input<second>>>(
          *all.square, c, "sequence, heads");
    }
    return true;
  });
}
