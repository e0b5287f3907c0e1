// expect: tessera: batch_norm needs the gradient in the layout of its output; redistribute it first
#include "../world.hpp"

#include <tessera/op/batch_norm.hpp>

auto f(tensor_of<4, shard<0, dp>> const& x, tensor_of<4> const& dy, channel_statistics<host_memory> const& s) {
  return op::batch_norm_backward_sums(x, dy, s);
}
