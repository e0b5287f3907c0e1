// alone: only here the words are of this kernel
// expect: tessera: the program needs the kernel matmul, which its backend (the first type in the notes below) lacks for arguments of these types
#include <tessera/backend/eigen.hpp>
#include <tessera/backend/with_fallback.hpp>

using namespace tessera;

struct without_products : eigen {
  void matmul() = delete;
};
struct without_sums_of_squares : eigen {
  void matmul() = delete;
  void square_sum() = delete;
};

void f(checked_backend<with_fallback<without_sums_of_squares, without_products>>& kernels, block<float, 2> x) {
  kernels.square_sum(block<float const, 1>{});
  kernels.matmul(x, false, x, false, x);
}
