#include "pipeline_case.hpp"

#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relu.hpp>

// An embedding and the last layer share their weight, though they lie in different stages.

namespace {

using namespace pipeline_case;

struct words;
struct middle;
constexpr index_t vocabulary = 11;

template <class Tp>
using layers = chain<embedding<vocabulary, 6, split_vocabulary<Tp>, tied<words>>, linear<6, 9>, relu, linear<9, 6>,
                     linear<6, vocabulary, split_output<Tp>, no_bias, tied<words>>>;
/// Two links between stages, and a block that is computed again.
template <class Tp>
using twice_tied = chain<embedding<vocabulary, 6, split_vocabulary<Tp>, tied<words>>, linear<6, 6, tied<middle>>, relu,
                         recompute<chain<linear<6, 5>, linear<5, 6>>>, linear<6, 6, tied<middle>>,
                         linear<6, vocabulary, split_output<Tp>, no_bias, tied<words>>>;

/// Losses of some steps, the weight after them, and how many elements the optimizers of all ranks move.
struct outcome {
  std::vector<double> losses;
  std::vector<double> weight;
  index_t elements = 0;
};

template <class Model, class Team>
outcome train(Team& team) {
  auto net = team.template make<Model, double>(seed{3});
  using input_type = typename decltype(net)::input_type;
  trainer fit(net, cross_entropy{}, adam{.learning_rate = 0.01}, {.clip_norm = 0.5});
  outcome found;
  for (std::uint64_t s = 0; s < steps; ++s) {
    std::vector<input_type> x;
    std::vector<std::vector<std::int64_t>> targets;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto drawn = worlds::labels(6, vocabulary, 10 * s + i);
      tensor<std::int64_t, 1> tokens(shape<1>{{6}});
      std::copy(drawn.begin(), drawn.end(), tokens.data());
      x.push_back(distribute<typename input_type::layout_type>(team, tokens));
      targets.push_back(worlds::rows_of(worlds::labels(6, vocabulary, 10 * s + i + 5), x.back().part()[0]));
    }
    found.losses.push_back(fit.step(x, targets));
  }
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    if (name != "0.weight") return;
    const auto whole = gather(value);
    found.weight.assign(whole.read().begin(), whole.read().end());
  });
  for (auto const& p : net.parameters()) found.elements += p.value.size();
  return found;
}

template <class Schedule, int Pp, int Dp, int Tp, int Level = 0, template <class> class Layers = layers>
void compare_on() {
  if (worlds::size() != Pp * Dp * Tp) return;
  CAPTURE(Pp);
  CAPTURE(Tp);
  CAPTURE(Level);
  worlds::serial_team<mesh<tensor_axis<1>>> alone{serial_comm{}};
  const outcome wanted = train<parallel<Layers<tensor_axis<1>>, input<dynamic>>>(alone);
  using world = mesh<pipe_axis<Pp>, data_axis<Dp>, tensor_axis<Tp>>;
  using dp = data_axis<Dp>;
  using shared = std::conditional_t<Level == 0, fuse::bytes<(index_t{4} << 20)>, optimizer_parallel<dp, Level>>;
  worlds::parallel_team<world> team{mpi_comm{}};
  outcome found = train<
      parallel<Layers<tensor_axis<Tp>>, input<dynamic>, data_parallel<dp>, shared, pipeline<pipe_axis<Pp>, Schedule>>>(
      team);
  for (std::size_t s = 0; s < steps; ++s) CHECK(std::abs(found.losses[s] - wanted.losses[s]) < 1e-12);
  if (team.coordinates()[0] == 0) {
    REQUIRE(found.weight.size() == wanted.weight.size());
    for (std::size_t i = 0; i < found.weight.size(); ++i) CHECK(std::abs(found.weight[i] - wanted.weight[i]) < 1e-11);
  } else {
    CHECK(found.weight.empty());
  }
  if (Tp > 1) return;
  // Ranks with the same coordinate along dp repeat each other, unless they have slices.
  const axis_set apart = Level > 0 ? world::all : world::template set_of<pipe_axis<Pp>>;
  team.group(apart).all_reduce(&found.elements, 1, reduction::sum);
  CHECK(found.elements == wanted.elements);
}

}  // namespace

TEST_CASE("stages share a parameter as layers do in the serial run") {
  compare_on<one_forward_one_backward, 2, 1, 1>();
  compare_on<one_forward_one_backward, 2, 2, 1>();
  compare_on<one_forward_one_backward, 2, 1, 2>();
  // Owner and copy on one rank.
  compare_on<interleaved<3>, 1, 1, 1>();
}

TEST_CASE("and where the ranks of each stage divide optimizer state, gradients and parameters") {
  compare_on<one_forward_one_backward, 2, 2, 1, 1>();
  compare_on<one_forward_one_backward, 2, 2, 1, 2>();
  compare_on<one_forward_one_backward, 2, 2, 1, 3>();
  compare_on<interleaved<2>, 2, 2, 1, 3, twice_tied>();
  compare_on<interleaved<3>, 1, 2, 1, 3, twice_tied>();
  compare_on<gpipe, 2, 4, 1, 3, twice_tied>();
  compare_on<gpipe, 2, 2, 2, 2, twice_tied>();
  compare_on<one_forward_one_backward, 4, 2, 1, 3, twice_tied>();
}
