#include "support/checkpoints.hpp"
#include "support/near_and_far.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/train/adam.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/token_batches.hpp>
#include <tessera/train/weights.hpp>

// Training in memory that the host cannot reach gives the bits that it gives in the host's; on the double of Ascend,
// whose kernels are others, the same numbers. Adam's `epsilon` is large for that: gradients of nothing but rounding,
// such as those of a bias before a batch norm, else make whole steps.

namespace {

using namespace checkpoints;
using worlds::near_and_far;
using worlds::witness;

struct stages : axis<2> {};
template <int Dp, int Tp>
using world = mesh<dp<Dp>, tp<Tp>>;

template <class Net>
void parameters_seen(witness& seen, Net& net) {
  net.for_each_parameter([&](std::string const& name, auto const& value) { seen(name.c_str(), value); });
}

/// Some steps on random inputs of these extents.
template <class Model, class Team, int Rank, class Optimizer>
void train(Team& team, witness& seen, shape<Rank> const& extents, index_t classes, index_t steps, Optimizer optimizer,
           options const& choice = {}) {
  auto net = team.template make<Model>(seed{7});
  using network_type = decltype(net);
  using input_type = typename network_type::input_type;
  using element = typename input_type::value_type;
  trainer fit(net, cross_entropy{}, optimizer, choice);
  for (index_t s = 0; s < steps; ++s) {
    const auto stream = static_cast<std::uint64_t>(s);
    tensor<element, Rank> whole(extents);
    if constexpr (std::is_same_v<element, float>) {
      whole = worlds::values<float>(extents, stream);
    } else {
      const auto words = worlds::labels(extents.size(), classes, stream);
      std::copy(words.begin(), words.end(), whole.data());
    }
    const auto x = distribute<typename input_type::layout_type>(team, whole);
    const index_t all = std::is_same_v<element, float> ? extents[0] : extents.size();
    const auto targets = worlds::rows_of(worlds::labels(all, classes, stream + 100), output_rows(net, all));
    seen("loss", fit.step(x, targets));
  }
  parameters_seen(seen, net);
}

template <class Dp, class Tp, class... Policies>
using mlp = parallel<
    chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu, linear<9, 7, split_output<Tp>>>,
    data_parallel<Dp>, fuse::at<2>, Policies...>;

template <class Dp, class Tp>
using resnet = parallel<recompute<tessera::model::resnet_small<10, Tp>>, input<dynamic, 1, 12, 12>, data_parallel<Dp>>;

template <int Vocabulary, class Dp, class Tp, class... Policies>
using gpt = parallel<tessera::model::gpt<Vocabulary, 9, 8, 4, 2, Tp>, input<8, 7>, data_parallel<Dp>, fuse::bytes<2000>,
                     Policies...>;

template <int Dp, int Tp>
void mlp_alike() {
  near_and_far<world<Dp, Tp>>([](auto& team, witness& seen) {
    train<mlp<dp<Dp>, tp<Tp>>>(team, seen, shape<2>{{13, 12}}, 7, 20, momentum{.learning_rate = 0.05},
                               {.clip_norm = 0.5, .loss_scale = fixed_scale{8}});
  });
}
template <int Dp, int Tp>
void resnet_alike() {
  near_and_far<world<Dp, Tp>>([](auto& team, witness& seen) {
    train<resnet<dp<Dp>, tp<Tp>>>(team, seen, shape<4>{{6, 1, 12, 12}}, 10, 3, momentum{.learning_rate = 0.01});
  });
}
template <int Dp, int Tp, int Level>
void gpt_alike() {
  near_and_far<world<Dp, Tp>>([](auto& team, witness& seen) {
    train<gpt<11, dp<Dp>, tp<Tp>, optimizer_parallel<dp<Dp>, Level>>>(team, seen, shape<2>{{8, 7}}, 11, 3,
                                                                      adamw{.learning_rate = 0.01, .epsilon = 1e-2});
  });
}

/// Parts of different sizes, whose extents the stages tell each other.
template <class Model, class Team>
void pipeline_steps(Team& team, witness& seen) {
  auto net = team.template make<Model>(seed{7});
  using input_type = typename decltype(net)::input_type;
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.05}, {.clip_norm = 1});
  for (std::uint64_t s = 0; s < 3; ++s) {
    std::vector<input_type> x;
    std::vector<std::vector<std::int64_t>> targets;
    for (const index_t rows : {4, 3, 5}) {
      const auto stream = 10 * s + static_cast<std::uint64_t>(rows);
      x.push_back(worlds::values_on<typename input_type::layout_type, float>(team, shape<2>{{rows, 12}}, stream));
      targets.push_back(worlds::rows_of(worlds::labels(rows, 7, stream), x.back().part()[0]));
    }
    seen("loss", fit.step(x, targets));
  }
  const auto x = worlds::values_on<typename input_type::layout_type, float>(team, shape<2>{{6, 12}}, 99);
  seen("output", net.forward(x, false));
  parameters_seen(seen, net);
}

/// Data from files, what a trainer says of them, and what is written to others.
template <int Dp, int Tp>
void files_alike() {
  near_and_far<world<Dp, Tp>>([](auto& team, witness& seen) {
    const shared_folder folder;
    const auto trainer_of = [](auto& net) {
      return trainer(net, cross_entropy{}, adam{.learning_rate = 0.01, .epsilon = 1e-2},
                     {.schedule = cosine_rate{0.01, 20}});
    };
    auto net = team.template make<by_output<dp<Dp>, tp<Tp>>>(seed{4});
    auto first = trainer_of(net);
    for (const double loss : first.fit(batches(), epochs{1}, checkpoint_every{folder.path(), 2})) seen("loss", loss);
    const evaluation right = first.evaluate(batches());
    seen("accuracy", right.accuracy);
    seen("loss of the dataset", right.loss);
    export_weights(net, folder.path() / "weights.safetensors");

    auto other = team.template make<by_input<dp<Dp>, tp<Tp>>>(seed{5});
    auto second = trainer_of(other);
    for (const double loss : second.fit(batches(), epochs{2}, resume{folder.path()})) seen("resumed loss", loss);
    import_weights(other, folder.path() / "weights.safetensors");
    parameters_seen(seen, other);
  });
}

template <int Dp, int Tp>
void texts_alike() {
  near_and_far<world<Dp, Tp>>([](auto& team, witness& seen) {
    auto net = team.template make<gpt<11, dp<Dp>, tp<Tp>>>(seed{4});
    trainer fit(net, cross_entropy{}, adamw{.learning_rate = 0.01, .epsilon = 1e-2});
    const auto text = worlds::labels(7 * 24 + 1, 11, 3);
    const token_batches all{text, 7, 8, {.seed = 3}};
    for (const double loss : fit.fit(all, epochs{1})) seen("loss", loss);
    seen("accuracy", fit.evaluate(all).accuracy);
  });
}

}  // namespace

#ifndef TESSERA_TESTS_ON_ASCEND  // ascend/training.cpp and ascend/session.cpp are its own
TEST_CASE("device memory: twenty steps of an MLP, clipped, with a loss scale") {
  mlp_alike<1, 1>();
  mlp_alike<2, 1>();
  mlp_alike<2, 2>();
}

TEST_CASE("device memory: a session makes the communicator that its backend asks for") {
  if (worlds::size() != 2) return;
  witness near;
  witness far_away;
  const auto steps = [](auto& here, witness& seen) {
    train<mlp<dp<2>, tp<1>>>(here, seen, shape<2>{{13, 12}}, 7, 2, momentum{});
  };
  session<world<2, 1>> usual{{.threads = 1, .mpi = {.shared_memory = false}}};
  session<world<2, 1>, worlds::far> device{{.threads = 1}};
  steps(usual, near);
  steps(device, far_away);
  CHECK(far_away.first_difference(near) == "");
}
#endif

TEST_CASE("device memory: a ResNet whose activations are computed twice") {
  resnet_alike<1, 1>();
  resnet_alike<2, 2>();
#ifndef TESSERA_TESTS_ON_ASCEND  // ascend/training.cpp has these splits
  resnet_alike<2, 1>();
#endif
}

TEST_CASE("device memory: a language model whose ranks divide what its optimizer remembers, gradients and parameters") {
  gpt_alike<1, 1, 1>();
  gpt_alike<2, 1, 2>();
  gpt_alike<2, 2, 3>();
#ifndef TESSERA_TESTS_ON_ASCEND
  gpt_alike<2, 1, 1>();
  gpt_alike<1, 2, 1>();
#endif
}

TEST_CASE("device memory: a pipeline of micro-batches whose rows come at run time") {
  using words = mesh<stages, dp<2>>;
  near_and_far<mesh<stages>>([](auto& team, witness& seen) {
    using model = parallel<chain<linear<12, 20>, relu, linear<20, 9>, relu, linear<9, 7>>, pipeline<stages>>;
    pipeline_steps<model>(team, seen);
  });
  near_and_far<words>([](auto& team, witness& seen) {
    using model = parallel<tessera::model::gpt<11, 9, 8, 4, 2>, data_parallel<dp<2>>, pipeline<stages>>;
    train<model>(team, seen, shape<2>{{8, 7}}, 11, 2, adam{.epsilon = 1e-2});
  });
}

TEST_CASE("device memory: batches from datasets, evaluation, checkpoints and exported weights") {
  files_alike<1, 1>();
  files_alike<2, 1>();
  files_alike<2, 2>();
}

TEST_CASE("device memory: batches of a text") {
  texts_alike<2, 1>();
  texts_alike<2, 2>();
}
