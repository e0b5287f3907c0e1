// The last rank throws while the others wait for its part of a reduction in shared memory: the program must end with
// an exit code other than 0, not hang.

#include <tessera/comm/mpi.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>

int main(int argc, char** argv) {
  try {
    tessera::mpi_environment environment(argc, argv);
    tessera::mpi_comm world;
    const auto memory = world.allocate(1 << 20);
    auto* const values = static_cast<float*>(memory.get());
    auto first = world.start_all_reduce(values, 1000, tessera::reduction::sum);
    if (world.rank() == world.size() - 1) throw std::runtime_error("thrown on one rank");
    world.all_reduce(values + 1000, 1000, tessera::reduction::sum);
  } catch (std::exception const& failure) {
    std::puts(failure.what());
    return 0;  // not reached where the exception unwound the environment
  }
}
