// The last rank starts a reduction by messages of fewer elements than the others: the program must end with an exit
// code other than 0, not hang.

#include <tessera/comm/mpi.hpp>

#include <cstdio>
#include <exception>
#include <vector>

int main(int argc, char** argv) {
  try {
    tessera::mpi_environment environment(argc, argv);
    tessera::mpi_comm world;
    std::vector<float> values(400'000, 1.f);
    const tessera::index_t count = world.rank() == world.size() - 1 ? 300'000 : 400'000;
    world.start_all_reduce(values.data(), count, tessera::reduction::sum).wait();
  } catch (std::exception const& failure) {
    std::puts(failure.what());
    return 0;  // not reached: the request that failed ended the program
  }
}
