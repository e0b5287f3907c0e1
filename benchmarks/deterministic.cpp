// A training step with deterministic kernels and the same step without, on one or two ranks: what the same bits for any
// number of ranks cost.

#include <tessera/backend/deterministic.hpp>
#include <tessera/comm/ordered.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

namespace ts = tessera;
using ts::index_t;

template <int Ranks>
struct ranks : ts::axis<Ranks> {};

constexpr index_t rows = 64;  // of the whole batch
constexpr index_t positions = 64;

struct perceptron {
  static constexpr char const* name = "perceptron";
  using model = ts::chain<ts::linear<1024, 1024>, ts::relu, ts::linear<1024, 1024>, ts::relu, ts::linear<1024, 10>>;
  using input = ts::input<rows, 1024>;
  static constexpr ts::shape<2> extents{{rows, 1024}};
  static constexpr index_t targets = 1;  // of a row
};
struct resnet {
  static constexpr char const* name = "small ResNet";
  using model = ts::model::resnet_small<10>;
  using input = ts::input<rows, 1, 28, 28>;
  static constexpr ts::shape<4> extents{{rows, 1, 28, 28}};
  static constexpr index_t targets = 1;
};
struct transformer {
  static constexpr char const* name = "transformer block";
  using model =
      ts::chain<ts::model::decoder_block<256, 4, 1024>, ts::layer_norm<256>, ts::linear<256, 64>, ts::flatten<0, 1>>;
  using input = ts::input<rows, positions, 256>;
  static constexpr ts::shape<3> extents{{rows, positions, 256}};
  static constexpr index_t targets = positions;
};

/// A model with its team, data and trainer, which all refer to each other.
template <class Case, int Ranks, class Comm, class Backend>
class work {
  using team_type = ts::team<ts::mesh<ranks<Ranks>>, Comm, Backend>;
  using model = ts::parallel<typename Case::model, typename Case::input, ts::data_parallel<ranks<Ranks>>>;
  using network_type = ts::network<model, team_type>;
  using input_type = typename network_type::input_type;

 public:
  work()
      : team_(Comm(ts::mpi_comm())),
        network_(team_, ts::seed{1}),
        trainer_(network_, ts::cross_entropy{}, ts::momentum{}, {}),
        x_(team_, Case::extents),
        labels_(static_cast<std::size_t>(rows / Ranks * Case::targets), 3) {
    for (index_t i = 0; i < x_.local().size(); ++i) x_.local().data()[i] = static_cast<float>(i % 17) / 17;
  }
  /// Seconds of a step on the slowest rank.
  double step() {
    MPI_Barrier(MPI_COMM_WORLD);
    double time = -MPI_Wtime();
    trainer_.step(x_, labels_);
    time += MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return time;
  }

 private:
  team_type team_;
  network_type network_;
  ts::trainer<network_type, ts::cross_entropy, ts::momentum> trainer_;
  input_type x_;
  std::vector<std::int64_t> labels_;
};

double median(std::vector<double>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

template <class Case, int Ranks>
void compare(double seconds) {
  work<Case, Ranks, ts::ordered<ts::mpi_comm>, ts::deterministic<8>> same_bits;
  work<Case, Ranks, ts::mpi_comm, ts::eigen> free;
  std::vector<double> with;
  std::vector<double> without;
  double spent = 0;
  for (int round = 0; round < 5 || spent < seconds; ++round) {
    const double times[] = {same_bits.step(), free.step()};  // they take turns
    spent += times[0] + times[1];
    if (round == 0) continue;
    with.push_back(times[0]);
    without.push_back(times[1]);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double slow = median(with);
  const double fast = median(without);
  if (rank == 0) std::printf("%-20s %5d %14.3f %14.3f %6.2f\n", Case::name, Ranks, 1e3 * slow, 1e3 * fast, slow / fast);
}

template <int Ranks>
void compare_all(double seconds) {
  compare<perceptron, Ranks>(seconds);
  compare<resnet, Ranks>(seconds);
  compare<transformer, Ranks>(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const ts::mpi_environment mpi(argc, argv);
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size > 2) throw ts::error(std::to_string(size) + " ranks", "1 or 2", "start it with mpirun -n 2");
    char const* const limit = std::getenv("TESSERA_BENCHMARK_SECONDS");
    const double seconds = 3 * (limit != nullptr ? std::atof(limit) : 1);
    if (rank == 0) std::printf("%-20s %5s %14s %14s %6s\n", "step", "ranks", "determin. ms", "otherwise ms", "ratio");
    size == 1 ? compare_all<1>(seconds) : compare_all<2>(seconds);
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
}
