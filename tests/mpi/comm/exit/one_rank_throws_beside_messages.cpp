// The last rank throws while the others wait for its part of a reduction by messages: the program must end with an exit
// code other than 0, not hang.

#include <tessera/comm/mpi.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

int main(int argc, char** argv) {
  try {
    tessera::mpi_environment environment(argc, argv);
    tessera::mpi_comm world;
    std::vector<float> values(2'000'000, 1.f);
    auto first = world.start_all_reduce(values.data(), 1'000'000, tessera::reduction::sum);
    if (world.rank() == world.size() - 1) throw std::runtime_error("thrown on one rank");
    world.start_all_reduce(values.data() + 1'000'000, 1'000'000, tessera::reduction::sum).wait();
  } catch (std::exception const& failure) {
    std::puts(failure.what());
    return 0;  // not reached where the exception unwound the environment
  }
}
