// expect: tessera: batch_norm takes images [N, C, H, W]; reshape the input first
#include "../world.hpp"

#include <tessera/op/batch_norm.hpp>

auto f(tensor_of<2> const& x, tensor_of<1>& mean, tensor_of<1>& variance) {
  return op::batch_norm_statistics(x, 0.1, 1e-5, mean, variance);
}
