#include "equal_to_serial.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/residual.hpp>

#include <set>

// An embedding and the linear layer before the loss that share their weight, as language models have it.

namespace {

using namespace equal_to_serial;

struct words;
constexpr index_t vocabulary = 11;
constexpr index_t features = 6;

template <class Dp, class Tp>
using tied_model =
    parallel<chain<embedding<vocabulary, features, split_vocabulary<Tp>, tied<words>>,
                   residual<chain<linear<features, 9, split_output<Tp>>, relu, linear<9, features, split_input<Tp>>>>,
                   linear<features, vocabulary, split_output<Tp>, no_bias, tied<words>>>,
             input<dynamic>, data_parallel<Dp>, fuse::each>;
template <class Dp, class Tp>
using apart_model =
    parallel<chain<embedding<vocabulary, features, split_vocabulary<Tp>>,
                   residual<chain<linear<features, 9, split_output<Tp>>, relu, linear<9, features, split_input<Tp>>>>,
                   linear<features, vocabulary, split_output<Tp>, no_bias>>,
             input<dynamic>, data_parallel<Dp>, fuse::each>;

tensor<std::int64_t, 1> tokens(std::uint64_t stream) {
  tensor<std::int64_t, 1> out(shape<1>{{rows}});
  const auto drawn = worlds::labels(rows, vocabulary, stream);
  std::copy(drawn.begin(), drawn.end(), out.data());
  return out;
}

template <class Net, class Team>
std::vector<double> losses(Net& net, Team& team, index_t parts = 1) {
  using input_type = typename Net::input_type;
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.05}, {.clip_norm = 2});
  std::vector<double> found;
  for (std::uint64_t s = 0; s < 6; ++s) {
    const auto all = tokens(s);
    const auto next = worlds::labels(rows, vocabulary, s + 50);
    std::vector<input_type> x;
    std::vector<std::vector<std::int64_t>> targets;
    for (int p = 0; p < parts; ++p) {
      const interval some = cut({0, rows}, static_cast<int>(parts), p);
      tensor<std::int64_t, 1> part(shape<1>{{some.size}});
      std::copy_n(all.data() + some.begin, some.size, part.data());
      x.push_back(distribute<typename input_type::layout_type>(team, part));
      targets.push_back(worlds::rows_of(worlds::rows_of(next, some), x.back().part()[0]));
    }
    found.push_back(fit.step(x, targets));
  }
  return found;
}

template <class Team>
auto make_tied(Team& team) {
  return team.template make<tied_model<data_axis<Team::mesh::sizes[0]>, tensor_axis<Team::mesh::sizes[1]>>, double>(
      seed{3});
}

template <int Dp, int Tp>
void compare(std::vector<double> const& wanted) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  worlds::parallel_team<mesh<data_axis<Dp>, tensor_axis<Tp>>> team{mpi_comm{}};
  for (const index_t parts : {1, 3}) {
    auto net = make_tied(team);
    const auto found = losses(net, team, parts);
    for (std::size_t s = 0; s < wanted.size(); ++s) CHECK(std::abs(found[s] - wanted[s]) < 1e-12);
  }
}

using alone_team = worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>>;

}  // namespace

TEST_CASE("tied parameters are one: listed once, the same memory, the first one's name and values") {
  alone_team team{serial_comm{}};
  auto net = make_tied(team);
  auto apart = team.make<apart_model<data_axis<1>, tensor_axis<1>>, double>(seed{3});
  std::vector<std::string> names;
  for (auto const& p : net.parameters()) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"0.weight", "1.branch.0.weight", "1.branch.0.bias", "1.branch.2.weight",
                                          "1.branch.2.bias"});
  std::vector<std::string> visited;
  net.for_each_parameter([&](std::string const& name, auto const&) { visited.push_back(name); });
  CHECK(visited == names);
  CHECK(apart.parameters().size() == names.size() + 1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto const& one = net.parameters()[i].value;
    auto const& other = apart.parameters()[i].value;
    CHECK(std::vector<double>(one.begin(), one.end()) == std::vector<double>(other.begin(), other.end()));
  }
}

TEST_CASE("the gradient of a tied parameter is the sum of those of its layers") {
  alone_team team{serial_comm{}};
  auto net = make_tied(team);
  auto apart = team.make<apart_model<data_axis<1>, tensor_axis<1>>, double>(seed{3});
  auto const& p = net.parameters();
  auto const& q = apart.parameters();
  std::copy(p[0].value.begin(), p[0].value.end(), q.back().value.begin());
  const auto x = distribute<decltype(net)::input_type::layout_type>(team, tokens(1));
  const auto y = net.forward(x);
  const auto z = apart.forward(x);
  CHECK(std::vector<double>(y.read().begin(), y.read().end()) == std::vector<double>(z.read().begin(), z.read().end()));
  net.backward(y);
  apart.backward(z);
  for (index_t i = 0; i < p[0].gradient.size(); ++i)
    CHECK(p[0].gradient.data[i] == q[0].gradient.data[i] + q.back().gradient.data[i]);
}

TEST_CASE("training with tied parameters is that of the serial model under every split, in parts or not") {
  alone_team alone{serial_comm{}};
  auto net = make_tied(alone);
  const auto wanted = losses(net, alone);
  CHECK(wanted.back() < wanted.front());
  compare<1, 1>(wanted);
  compare<2, 1>(wanted);
  compare<1, 2>(wanted);
  compare<2, 2>(wanted);
  compare<4, 1>(wanted);
}

TEST_CASE("a tied parameter is reduced once") {
  if (worlds::size() != 2) return;
  using world = mesh<data_axis<2>, tensor_axis<1>>;
  const recording<mpi_comm> all{mpi_comm{}};
  team<world, recording<mpi_comm>> team{all};
  auto net = make_tied(team);
  const auto y = net.forward(distribute<row<data_axis<2>>>(team, tokens(1)));
  team.group(world::all).clear();
  net.backward(y);
  int found = 0;
  for (auto const& call : team.group(world::all).calls())
    found += call.kind == collective::all_reduce && call.elements == vocabulary * features;
  CHECK(found == 1);
}
