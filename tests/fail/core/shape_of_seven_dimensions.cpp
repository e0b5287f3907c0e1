// expect: tessera: tensors have 0 to 6 dimensions; reshape first
#include <tessera/core/shape.hpp>

tessera::shape<7> extents;
