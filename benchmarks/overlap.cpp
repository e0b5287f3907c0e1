// A training step with the reductions of gradients beside backward, the same step that waits for each where it starts,
// and the same step without communication, on two ranks: how much of the reductions is hidden.

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/parallel.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace ts = tessera;

template <int Ranks>
struct ranks : ts::axis<Ranks> {};

constexpr int width = 1024;
using square = ts::linear<width, width>;
template <int Ranks>
using model = ts::parallel<ts::chain<square, ts::relu, square, ts::relu, square, ts::relu, square, ts::relu, square,
                                     ts::relu, square, ts::relu, square, ts::relu, ts::linear<width, 10>>,
                           ts::data_parallel<ranks<Ranks>>>;

/// A model with its team, data and trainer, which all refer to each other.
template <int Ranks>
class work {
  using team_type = ts::team<ts::mesh<ranks<Ranks>>, ts::mpi_comm>;
  using network_type = ts::network<model<Ranks>, team_type>;
  using input_type = typename network_type::input_type;

 public:
  work(MPI_Comm on, ts::mpi_options settings, ts::index_t rows)
      : team_(ts::mpi_comm(on, settings)),
        network_(team_, ts::seed{1}),
        trainer_(network_, ts::cross_entropy{}, ts::momentum{}),
        x_(team_, ts::shape<2>{{rows * Ranks, width}}),
        labels_(static_cast<std::size_t>(rows), 3) {
    for (ts::index_t i = 0; i < x_.local().size(); ++i) x_.local().data()[i] = static_cast<float>(i % 17) / 17;
  }
  void step(bool overlap) {
    network_.overlap(overlap);
    trainer_.step(x_, labels_);
  }
  void trace(std::string const& path) {
    trainer_.trace(path, 2);
    step(true);
    step(true);
  }

 private:
  team_type team_;
  network_type network_;
  ts::trainer<network_type, ts::cross_entropy, ts::momentum> trainer_;
  input_type x_;
  std::vector<std::int64_t> labels_;
};

/// The median over rounds of the time of the slowest rank, for ways that take turns.
std::vector<double> measure(std::vector<std::function<void()>> const& ways, double seconds) {
  std::vector<std::vector<double>> times(ways.size());
  double spent = 0;
  for (int round = 0; round < 5 || spent < seconds; ++round)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      MPI_Barrier(MPI_COMM_WORLD);
      double time = -MPI_Wtime();
      ways[w]();
      time += MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (round > 0) times[w].push_back(time);
      spent += time;
    }
  std::vector<double> medians;
  for (auto& of_way : times) {
    const auto middle = of_way.begin() + static_cast<std::ptrdiff_t>(of_way.size() / 2);
    std::nth_element(of_way.begin(), middle, of_way.end());
    medians.push_back(*middle);
  }
  return medians;
}

void compare(char const* name, ts::mpi_options settings, ts::index_t rows, double seconds, char const* trace) {
  // Both ways in the same memory: where it lies alone makes a step longer or shorter by as much as reductions take.
  work<2> split(MPI_COMM_WORLD, settings, rows);
  work<1> alone(MPI_COMM_SELF, settings, rows);
  const auto medians =
      measure({[&] { split.step(true); }, [&] { split.step(false); }, [&] { alone.step(false); }}, seconds);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf("%-10s %5d %10.3f %10.3f %10.3f %8.0f %%\n", name, static_cast<int>(rows), 1e3 * medians[0],
                1e3 * medians[1], 1e3 * medians[2], 100 * (medians[1] - medians[0]) / (medians[1] - medians[2]));
  if (trace != nullptr) split.trace(std::string(trace) + name + ".json");
}

}  // namespace

/// An argument is where traces go: its text, then the way of reducing and `.json`.
int main(int argc, char** argv) {
  try {
    const ts::mpi_environment mpi(argc, argv);
    const ts::mpi_comm world;
    if (world.size() != 2) throw ts::error(std::to_string(world.size()) + " ranks", "2", "start it with mpirun -n 2");
    char const* const limit = std::getenv("TESSERA_BENCHMARK_SECONDS");
    const double seconds = 3 * (limit != nullptr ? std::atof(limit) : 1);
    if (world.rank() == 0)
      std::printf("%-10s %5s %10s %10s %10s %10s\n", "reductions", "rows", "overlap ms", "without ms", "alone ms",
                  "hidden");
    ts::mpi_options messages;
    messages.shared_memory = false;
    for (const ts::index_t rows : {32, 128}) {
      compare("window", {}, rows, seconds, argc > 1 ? argv[1] : nullptr);
      compare("messages", messages, rows, seconds, argc > 1 ? argv[1] : nullptr);
    }
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
