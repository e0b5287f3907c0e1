#include "support/worlds.hpp"

#include <tessera/backend/deterministic.hpp>
#include <tessera/comm/ordered.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/dropout.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/rms_norm.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/train/trainer.hpp>

#include <cstring>

// Training with deterministic kernels: the same bits on 1, 2, 4 and 8 ranks; with others, from run to run.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct data_axis : axis<Size> {};

// Extents that are no multiples of a packet or a cache line, so that rows begin anywhere.
constexpr index_t rows = 24;
constexpr index_t positions = 7;
constexpr index_t words = 13;
constexpr index_t classes = 7;

struct images {
  template <class Dp>
  using model = parallel<chain<conv2d<3, 10, window<3, 1, 1>>, batch_norm2d<10>, relu, max_pool2d<window<3, 2, 1>>,
                               residual<chain<conv2d<10, 10, window<3, 1, 1>, groups<10>, no_bias>, batch_norm2d<10>,
                                              relu, conv2d<10, 10, window<1>, no_bias>, batch_norm2d<10>>>,
                               relu, conv2d<10, 18, window<3, 2, 1>>, group_norm<3, 18>, gelu, global_avg_pool<>,
                               flatten<>, linear<18, 11>, silu, linear<11, classes>>,
                         input<dynamic, 3, 9, 9>, data_parallel<Dp>, fuse::bytes<2000>>;
  static tensor<float, 4> batch(std::uint64_t step) { return worlds::values<float>(shape<4>{{rows, 3, 9, 9}}, step); }
  static std::vector<std::int64_t> labels(std::uint64_t step) { return worlds::labels(rows, classes, step); }
  static constexpr index_t labels_a_row = 1;
};

struct sequences {
  template <class Dp>
  using model = parallel<chain<embedding<words, 20>, learned_positions<positions, 20>, model::decoder_block<20, 4, 37>,
                               dropout<keep_of<std::ratio<9, 10>>>, model::encoder_block<20, 5, 33>, rms_norm<20>,
                               linear<20, words>, flatten<0, 1>>,
                         input<rows, positions>, data_parallel<Dp>>;
  static tensor<std::int64_t, 2> batch(std::uint64_t step) {
    tensor<std::int64_t, 2> whole(shape<2>{{rows, positions}});
    const auto drawn = labels(step);
    std::copy(drawn.begin(), drawn.end(), whole.data());
    return whole;
  }
  static std::vector<std::int64_t> labels(std::uint64_t step) { return worlds::labels(rows * positions, words, step); }
  static constexpr index_t labels_a_row = positions;
};

/// Words that come out as they went in, and another weight that two layers share.
struct tied_sequences : sequences {
  struct words_name;
  struct weight_name;
  template <class Dp>
  using model = parallel<chain<embedding<words, 20, tied<words_name>>, linear<20, 20, tied<weight_name>>,
                               tessera::model::decoder_block<20, 4, 37>, linear<20, 20, tied<weight_name>>,
                               linear<20, words, no_bias, tied<words_name>>, flatten<0, 1>>,
                         input<rows, positions>, data_parallel<Dp>>;
};

/// All that training leaves: losses, then parameters and states, then the gradients of the last step.
struct remains {
  std::vector<double> losses;
  std::vector<float> values;
  bool operator==(remains const& other) const {
    return values.size() == other.values.size() && losses.size() == other.losses.size() &&
           std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0 &&
           std::memcmp(losses.data(), other.losses.data(), losses.size() * sizeof(double)) == 0;
  }
};

template <class Case, class Model, class Team, class Optimizer>
remains train(Team& team, Optimizer optimizer, options const& choice) {
  auto net = team.template make<Model>(seed{7});
  trainer fit(net, cross_entropy{{.label_smoothing = 0.1}}, optimizer, choice);
  using input_type = typename decltype(net)::input_type;
  remains left;
  for (std::uint64_t s = 0; s < 5; ++s) {
    const auto x = distribute<typename input_type::layout_type>(team, Case::batch(s));
    const interval mine = x.part()[0];
    const index_t each = Case::labels_a_row;
    left.losses.push_back(fit.step(x, worlds::rows_of(Case::labels(s), {each * mine.begin, each * mine.size})));
  }
  for (auto const& p : net.parameters()) {
    left.values.insert(left.values.end(), p.value.begin(), p.value.end());
    left.values.insert(left.values.end(), p.gradient.begin(), p.gradient.end());
  }
  return left;
}

template <class Case, class Optimizer>
void same_bits(Optimizer optimizer, options const& choice) {
  using kernels = deterministic<8>;
  team<mesh<data_axis<1>>, serial_comm, kernels> alone{serial_comm{}};
  const remains wanted = train<Case, typename Case::template model<data_axis<1>>>(alone, optimizer, choice);
  CHECK(wanted.losses.back() < wanted.losses.front());
  const auto on = [&]<int Dp>() {
    if (worlds::size() != Dp) return;
    // Another number of threads too.
    team<mesh<data_axis<Dp>>, ordered<mpi_comm>, kernels> all{ordered<mpi_comm>{mpi_comm{}}, 2};
    const remains found = train<Case, typename Case::template model<data_axis<Dp>>>(all, optimizer, choice);
    for (std::size_t s = 0; s < wanted.losses.size(); ++s) CHECK(found.losses[s] == wanted.losses[s]);
    CHECK(found == wanted);
  };
  on.template operator()<1>();
  on.template operator()<2>();
  on.template operator()<4>();
  on.template operator()<8>();
}

/// Without them, two runs on this many ranks.
template <class Case, class Optimizer>
void same_bits_again(Optimizer optimizer, options const& choice) {
  const auto on = [&]<int Dp>() {
    if (worlds::size() != Dp) return;
    const auto run = [&] {
      team<mesh<data_axis<Dp>>, mpi_comm> all{mpi_comm{}, 2};
      return train<Case, typename Case::template model<data_axis<Dp>>>(all, optimizer, choice);
    };
    CHECK(run() == run());
  };
  on.template operator()<2>();
  on.template operator()<4>();
}

}  // namespace

TEST_CASE("a convolutional network trains with the same bits on any number of ranks") {
  same_bits<images>(momentum{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-4}, {});
  same_bits<images>(adam{.learning_rate = 0.01}, {.clip_norm = 0.5, .overlap = false});
}

TEST_CASE("a transformer trains with the same bits on any number of ranks") {
  same_bits<sequences>(momentum{.learning_rate = 0.05, .momentum = 0.9}, {.clip_norm = 0.1});
  same_bits<sequences>(adamw{.learning_rate = 0.01}, {.overlap = false});
}

TEST_CASE("layers that share parameters train with the same bits on any number of ranks") {
  same_bits<tied_sequences>(momentum{.learning_rate = 0.05, .momentum = 0.9}, {.clip_norm = 0.1});
  same_bits<tied_sequences>(adam{.learning_rate = 0.01}, {.overlap = false});
}

TEST_CASE("without deterministic kernels a run has the same bits as another on as many ranks") {
  same_bits_again<images>(momentum{.learning_rate = 0.05, .momentum = 0.9}, {.clip_norm = 0.5});
  same_bits_again<sequences>(adam{.learning_rate = 0.01}, {});
}

TEST_CASE("what deterministic kernels would add up in another order on several ranks is refused") {
  team<mesh<>, serial_comm, deterministic<8>> alone{serial_comm{}};
  auto net = alone.make<linear<4, 3>>();
  trainer fit(net, cross_entropy{}, momentum{}, {});
  using input_type = typename decltype(net)::input_type;
  const std::vector<std::int64_t> labels(12, 1);
  CHECK_THROWS_WITH_AS(fit.step(input_type(alone, {{12, 4}}), labels),
                       doctest::Contains("tessera: a batch of 12 rows in 8 blocks"), error);
  const std::vector<std::int64_t> half(8, 1);
  input_type part(alone, {{8, 4}});
  std::fill(part.write().begin(), part.write().end(), 1.0f);
  CHECK_THROWS_WITH_AS(fit.step(std::vector{part, part}, std::vector{half, half}),
                       doctest::Contains("tessera: a batch in parts, with deterministic kernels"), error);
}
