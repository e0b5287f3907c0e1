// expect: tessera: embedding takes indices [N] or [N, S]; reshape them first
#include "../world.hpp"

#include <tessera/op/embedding.hpp>

auto f(sharded<std::int64_t, 3, replicated, here> const& i, tensor_of<2> const& w) { return op::embedding(i, w); }
