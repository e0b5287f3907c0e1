// Finds while compiling how to split a model over 2 or 4 ranks, and trains it: the losses are those of the serial model.
//
// run: 2
// run: 4

#include "tutorial.hpp"

#include <tessera/plan/auto_parallel.hpp>

namespace ts = tessera;

// [machine]
// Boards of a few slow processors, beside which messages are fast.
struct boards {
  static constexpr ts::machine_description about{
      .peak = {.float64 = 0, .float32 = 1e9, .float16 = 0, .bfloat16 = 0},
      .bytes_per_second = 1e9,
      .memory = 1'000'000'000,
      .levels = {{.ranks = 0, .link = {.latency = 1e-6, .seconds_per_byte = 1e-9}, .name = "board"}}};
};
// [machine]

// [found]
// A serial model: not a word about splits.
struct mlp : ts::chain<ts::linear<16, 32>, ts::relu,
                       ts::linear<32, 64>, ts::relu,
                       ts::linear<64, 10>> {};

template <int Size>
struct all : ts::axis<Size> {};

// 49 rows a step.
template <int Ranks>
using found = ts::auto_parallel<mlp, ts::input<49, 16>, ts::mesh<all<Ranks>>, boards>;
// [found]

// [search]
// What was found and how long its steps take, all of it constants.
template <class Model, int Ranks, class... Options>
using search = ts::auto_parallel_search<Model, ts::input<49, 16>, ts::mesh<all<Ranks>>, boards, Options...>;

// On 4 ranks: the first layer by rows of the batch, the second by columns of its weight, the third by rows
// of its weight; the loss takes rows of the batch.
static_assert(std::is_same_v<search<mlp, 4>::model,
                             ts::chain<ts::linear<16, 32>, ts::relu,
                                       ts::linear<32, 64, ts::split_output<all<4>>>, ts::relu,
                                       ts::linear<64, 10, ts::split_input<all<4>>>,
                                       ts::layout<ts::shard<0, all<4>>>>>);
// [search]

// [only]
// Data parallelism and nothing else takes longer.
using rows = search<mlp, 4, ts::only<ts::split_batch>>;
static_assert(search<mlp, 4>::time < rows::time);

// So does a first layer that is to be cut by columns: words that a layer has stay.
struct columns_first : ts::chain<ts::linear<16, 32, ts::split_output<all<4>>>, ts::relu,
                                 ts::linear<32, 64>, ts::relu,
                                 ts::linear<64, 10>> {};
static_assert(search<mlp, 4>::time < search<columns_first, 4>::time);
// [only]

// [limit]
// The fastest plan where it fits, with what momentum remembers; else the fastest that does.
template <ts::index_t Bytes>
using within = search<mlp, 4, ts::memory_limit<Bytes, ts::momentum>>;
static_assert(within<32'000>::bytes == 30'016 && within<32'000>::time == search<mlp, 4>::time);
static_assert(within<28'000>::bytes == 27'520 && within<28'000>::time > search<mlp, 4>::time);
static_assert(std::is_same_v<ts::type_at<0, within<28'000>::model::layers>,
                             ts::linear<16, 32, ts::split_output<all<4>>>>);

// The same of what the machine says its devices have, here 95 percent of it.
using fits = search<mlp, 4, ts::machine_memory<ts::momentum, 95>>;
static_assert(fits::bytes < boards::about.memory);
// [limit]

// [own]
// A layer of one's own that takes words among its options (this one is `linear` by another name).
template <int In, int Out, class... Options>
struct dense : ts::linear<In, Out, Options...> {};

// How the search writes them. Without this it would find `split_as<dense<32, 64>, split_output<...>>`.
template <int In, int Out, class... O, class First, class... Words>
struct ts::with_words<dense<In, Out, O...>, First, Words...> {
  using type = dense<In, Out, O..., First, Words...>;
};
// [own]
// [own_found]
struct own : ts::chain<dense<16, 32>, ts::relu, dense<32, 64>, ts::relu, dense<64, 10>> {};
static_assert(search<own, 4>::time == search<mlp, 4>::time);
static_assert(std::is_same_v<ts::type_at<2, search<own, 4>::model::layers>,
                             dense<32, 64, ts::split_output<all<4>>>>);
// [own_found]

namespace {

template <int Ranks>
int train() {
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto serial = tutorial::train<mlp>(alone);

  // [train]
  ts::session<ts::mesh<all<Ranks>>> session;
  // Makes the model, a trainer, and twenty steps of 49 rows, of which each rank has its block.
  const auto split = tutorial::train<found<Ranks>>(session);
  // [train]

  if (session.rank() == 0) {
    std::printf("the plan for %d ranks: a step takes %.1f us, with data parallelism %.1f us\n%s\n", Ranks,
                1e6 * search<mlp, Ranks>::seconds, 1e6 * search<mlp, Ranks, ts::only<ts::split_batch>>::seconds,
                ts::spell<found<Ranks>>().c_str());
    for (std::size_t step = 0; step < split.losses.size(); step += 5)
      std::printf("step %zu: loss %.4f, serial %.4f\n", step, split.losses[step], serial.losses[step]);
  }
  return tutorial::equal(serial, split, session.rank()) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  ts::program program(argc, argv);
  const int ranks = ts::mpi_comm().size();
  if (ranks != 2 && ranks != 4)
    throw ts::error(std::to_string(ranks) + " ranks", "2 or 4", "start the program with mpirun -n 4");
  return ranks == 2 ? train<2>() : train<4>();
}
