// The last rank throws while the others wait for it: the program must end with an exit code other than 0, not hang.

#include <tessera/comm/mpi.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>

int main(int argc, char** argv) {
  try {
    tessera::mpi_environment environment(argc, argv);
    tessera::mpi_comm world;
    auto pair = world.split(0, 0);
    float value = 0;
    if (world.rank() == world.size() - 1) {
      auto never_sent = world.start_receive(&value, 1, 0, 1);
      throw std::runtime_error("thrown on one rank");
    }
    pair.all_reduce(&value, 1, tessera::reduction::sum);
  } catch (std::exception const& failure) {
    std::puts(failure.what());
    return 0;  // not reached where the exception unwound the environment
  }
}
