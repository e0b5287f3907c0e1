// expect: tessera: deterministic takes images with channels innermost and keeps statistics in double, and this backend
// does not: name one that does, as eigen
#include <tessera/backend/deterministic.hpp>

struct channels_first : tessera::eigen {
  static constexpr tessera::storage_order order = tessera::storage_order::row_major;
};

tessera::deterministic<4, channels_first> kernels;
