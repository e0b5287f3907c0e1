// expect: tessera: give one index for each dimension of the block
#include <tessera/core/block.hpp>

float corner(tessera::block<float, 2> const& b) { return b(0, 0, 0); }
