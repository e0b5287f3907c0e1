// expect: tessera: batch_norm is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/batch_norm.hpp>

auto f(tensor_of<4, partial<tp>> const& x, tensor_of<1>& mean, tensor_of<1>& variance) {
  return op::batch_norm_statistics(x, 0.1, 1e-5, mean, variance);
}
