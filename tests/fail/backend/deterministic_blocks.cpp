// expect: tessera: deterministic deals the batch in a number of blocks that is no power of two; use 1, 2, 4, 8 ...
// blocks, at least as many as there will ever be data-parallel ranks
#include <tessera/backend/deterministic.hpp>

tessera::deterministic<6> kernels;
