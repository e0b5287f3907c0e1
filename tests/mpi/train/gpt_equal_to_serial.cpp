#include "equal_to_serial.hpp"

#include <tessera/model/transformer.hpp>

namespace {

using namespace equal_to_serial;

// 7 positions, 11 words and 4 heads: uneven everywhere, and heads that some of 8 ranks do not have.
constexpr shape<2> sequences{{8, 7}};
constexpr index_t vocabulary = 11;

template <class Dp, class Tp>
using language_model =
    parallel<tessera::model::gpt<vocabulary, 9, 8, 4, 2, Tp>, input<8, 7>, data_parallel<Dp>, fuse::bytes<2000>>;

template <class Model, class Team>
run_result train_on_words(Team& team) {
  auto net = team.template make<Model, double>(seed{7});
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.1}, {});
  using input_type = typename decltype(net)::input_type;
  run_result result;
  for (std::uint64_t s = 0; s < 6; ++s) {
    const auto words = worlds::labels(sequences.size(), vocabulary, s);
    tensor<std::int64_t, 2> whole(sequences);
    std::copy(words.begin(), words.end(), whole.data());
    const auto x = distribute<typename input_type::layout_type>(team, whole);
    // The word to find is the one that is there: something that can be learnt.
    const interval mine = x.part()[0];
    result.losses.push_back(fit.step(x, worlds::rows_of(words, {7 * mine.begin, 7 * mine.size})));
  }
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto all = gather(value);
    result.parameters[name].assign(all.read().begin(), all.read().end());
  });
  return result;
}

template <int Dp, int Tp>
void check(run_result const& wanted) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  worlds::parallel_team<mesh<data_axis<Dp>, tensor_axis<Tp>>> team{mpi_comm{}};
  compare(train_on_words<language_model<data_axis<Dp>, tensor_axis<Tp>>>(team), wanted, 1e-10);
}

}  // namespace

TEST_CASE("a language model with tied weights, cut by words, heads and positions, equals the serial run") {
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  const auto wanted = train_on_words<parallel<tessera::model::gpt<vocabulary, 9, 8, 4, 2>, input<8, 7>>>(alone);
  CHECK(wanted.losses.back() < wanted.losses.front());
  CHECK(wanted.parameters.size() == 1 + 1 + 2 * (2 + 4 + 2 + 4) + 2);
  check<2, 1>(wanted);
  check<1, 2>(wanted);
  check<1, 4>(wanted);
  check<2, 2>(wanted);
  check<2, 4>(wanted);
}
