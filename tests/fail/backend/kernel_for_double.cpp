// alone: only here the words are of this kernel
// expect: tessera: the program needs the kernel square_sum, which its backend (the first type in the notes below) lacks for arguments of these types
// expect: sums_float
#include <tessera/backend/capability.hpp>
#include <tessera/backend/eigen.hpp>

using namespace tessera;

struct sums_float : eigen {
  double square_sum(block<float const, 1> x) { return eigen::square_sum(x); }
};

double f(checked_backend<sums_float>& kernels, block<float const, 1> x, block<double const, 1> y) {
  double sum = kernels.square_sum(x);
  sum += kernels.square_sum(y);
  return sum;
}
