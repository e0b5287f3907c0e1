// Measures the ranks that it runs on and writes a header that describes them, `tessera::machine::calibrated`, to the
// path given.

#include "support/calibration.hpp"

#include <tessera/comm/mpi_environment.hpp>
#include <tessera/plan/calibration.hpp>

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  namespace ts = tessera;
  const ts::mpi_environment mpi(argc, argv);
  try {
    const std::string path = argc > 1 ? argv[1] : "calibrated.hpp";
    char const* const limit = std::getenv("TESSERA_BENCHMARK_SECONDS");
    const auto machine = calibration::measure(0.3 * (limit != nullptr ? std::atof(limit) : 1));
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
      const std::string text =
          ts::machine_header(machine, "calibrated", "Measured on " + std::to_string(size) + " ranks at a time.");
      std::ofstream file(path);
      if (!(file << text << std::flush))
        throw ts::error("no header at " + path, "a file that can be written", "name a path in a folder that is there");
      std::printf("%s\n%s", path.c_str(), text.c_str());
    }
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
}
