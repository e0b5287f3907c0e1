#include <tessera/core/mesh.hpp>
#include <tessera/core/tensor.hpp>

#include <Eigen/Core>
#include <mpi.h>
#include <zlib.h>

struct dp : tessera::axis<2> {};
static_assert(tessera::mesh<dp>::devices == 2);

#ifndef OMPI_SKIP_MPICXX
#error "the definitions of the target must reach the compiler"
#endif
