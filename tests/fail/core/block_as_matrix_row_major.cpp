// expect: tessera: only blocks whose last stored dimension is the feature can be seen as a matrix
#include <tessera/core/block.hpp>

auto matrix(tessera::block<float, 4, tessera::storage_order::row_major> images) { return tessera::as_matrix(images); }
