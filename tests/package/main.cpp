#include <tessera/core/tensor.hpp>
#include <tessera/data/idx.hpp>

#include <Eigen/Core>
#include <mpi.h>

// A program of another project: it compiles and links with nothing but tessera::tessera.
int main() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  try {
    tessera::read_idx("no such file");
  } catch (tessera::error const&) {
    const tessera::tensor<float, 2> ones(tessera::shape<2>{2, 3}, 1.0f);
    return initialized == 0 && Eigen::Map<Eigen::VectorXf const>(ones.data(), 6).sum() == 6.0f ? 0 : 1;
  }
  return 1;
}
