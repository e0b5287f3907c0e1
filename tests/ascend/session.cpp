#include "table.hpp"

#include <tessera/backend/ascend.hpp>
#include <tessera/backend/with_fallback.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/ascend_session.hpp>
#include <tessera/train/trainer.hpp>

#include <mpi.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// A program on Ascend as its users write and start it, without MPI. `session CASE RANKS` starts itself once for each
// rank, with the environment that launchers of MindSpore programs set.

namespace {

using namespace tessera;

template <int Size>
struct devices : axis<Size> {};
using kernels = with_fallback<ascend<ascend_910b>, eigen>;

template <class Dp>
using mlp = parallel<chain<linear<6, 8>, relu, linear<8, 3>>, data_parallel<Dp>>;

/// What rank `RANK_ID` of `Ranks` does.
template <int Ranks>
int run(int& argc, char**& argv, std::string const& wanted) {
  using dp = devices<Ranks>;
  session<mesh<dp>, kernels> session{argc, argv};
  auto net = session.template make<mlp<dp>>(seed{3});
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.1});
  tensor<float, 2> whole(shape<2>{{8, 6}});
  for (index_t i = 0; i < whole.size(); ++i) whole.data()[i] = static_cast<float>(i % 7) / 7;
  const auto x = distribute<typename decltype(net)::input_type::layout_type>(session, whole);
  const index_t own = x.part()[0].size;
  const std::vector<std::int64_t> labels(static_cast<std::size_t>(own), 1);
  double first = 0;
  double last = 0;
  for (int s = 0; s < 10; ++s) {
    if (wanted == "throws" && s == 2 && session.rank() == Ranks - 1)
      throw error("a fault of one rank", "none", "see that all ranks end");
    last = fit.step(x, labels);
    if (s == 0) first = last;
    if (wanted == "counts" && s == 2) {
      auto& group = session.group(mesh<dp>::all);
      const memory_handle memory = group.allocate(64);
      group.all_reduce(static_cast<float*>(memory.get()), session.rank() == 0 ? 3 : 4, reduction::sum);
    }
  }
  int mpi = 0;
  MPI_Initialized(&mpi);
  return mpi == 0 && last < first / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/// Starts this program once for each rank: whether all ended as wanted.
int start(char** argv, int ranks, bool fails) {
  const auto table = std::filesystem::temp_directory_path() /
                     ("tessera-session-table-" + std::to_string(getpid()) + ".json");
  std::ofstream(table) << job::table_of(ranks);
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const std::string number = std::to_string(r);
    setenv("RANK_TABLE_FILE", table.c_str(), 1);
    setenv("RANK_SIZE", argv[2], 1);
    setenv("RANK_ID", number.c_str(), 1);
    setenv("DEVICE_ID", number.c_str(), 1);
    execv("/proc/self/exe", argv);
    std::_Exit(127);
  }
  bool right = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    right = right && WIFEXITED(status) && WEXITSTATUS(status) == (fails ? EXIT_FAILURE : EXIT_SUCCESS);
  }
  std::filesystem::remove(table);
  std::fprintf(stderr, right ? "all ranks ended as they should\n" : "a rank did not end as it should\n");
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return EXIT_FAILURE;
  const std::string wanted = argv[1];
  const int ranks = std::atoi(argv[2]);
  if (std::getenv("RANK_ID") == nullptr) return start(argv, ranks, wanted != "trains");
  if (ranks == 1) return run<1>(argc, argv, wanted);
  if (ranks == 2) return run<2>(argc, argv, wanted);
  if (ranks == 4) return run<4>(argc, argv, wanted);
  return EXIT_FAILURE;
}
