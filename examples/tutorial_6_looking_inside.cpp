// What a run sends and how much memory it takes, asked of the type and of the run.
//
// run: 2

#include "tutorial.hpp"

namespace ts = tessera;

struct tp : ts::axis<2> {};
using world = ts::mesh<tp>;

struct mlp : ts::chain<ts::linear<16, 32>, ts::relu,
                       ts::linear<32, 64, ts::split_output<tp>>, ts::relu,
                       ts::linear<64, 10, ts::split_input<tp>>> {};

// [list]
// All collectives of a step with a batch of these many rows: known before anything runs.
template <class Model, class Mesh>
void print_collectives(ts::index_t rows) {
  constexpr auto calls = ts::collectives<Model, Mesh>;
  for (int i = 0; i < calls.size(); ++i) {
    char const* const when = calls[i].when == ts::phase::forward    ? "forward"
                             : calls[i].when == ts::phase::backward ? "backward"
                                                                    : "gradient";
    std::printf("%-8s %-18s axes %#04x  %lld bytes\n", when, ts::to_string(calls[i].kind), calls[i].group,
                static_cast<long long>(calls.bytes(i, rows)));
  }
}
// [list]

// Steps on a team of any communicator.
template <class Team>
void steps(Team& team, int count) {
  auto model = team.template make<mlp>(ts::seed{1});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::sgd(0.05)};
  const tutorial::points all;
  const auto x = ts::distribute<ts::replicated>(team, all.x);
  for (int step = 0; step < count; ++step) trainer.step(x, all.labels);
}

int main(int argc, char** argv) {
  ts::program program(argc, argv);
  const bool first = ts::mpi_comm().rank() == 0;
  if (first) print_collectives<mlp, world>(49);

  // [recording]
  // A communicator that logs every call and passes it on.
  ts::team<world, ts::recording<ts::mpi_comm>> recorded{ts::recording{ts::mpi_comm()}};
  steps(recorded, 3);
  auto const& log = recorded.group(world::all).calls();
  // [recording]
  bool good = log.size() == 3 * static_cast<std::size_t>(ts::collectives<mlp, world>.size());

  // [checked]
  // A communicator that compares what all ranks are about to call, and throws where two differ.
  ts::team<world, ts::checked<ts::mpi_comm>> compared{ts::checked{ts::mpi_comm()}};
  steps(compared, 3);
  // [checked]

  // [memory]
  // The most bytes of tensors that this rank ever had at a time.
  ts::host_memory::reset_peak();
  steps(compared, 1);
  const std::size_t peak = ts::host_memory::used().peak;
  // [memory]
  if (first) std::printf("%zu calls logged in three steps; at most %zu bytes of tensors\n", log.size(), peak);
  good = good && peak > 4 * 49 * 16;
  return good ? 0 : 1;
}
