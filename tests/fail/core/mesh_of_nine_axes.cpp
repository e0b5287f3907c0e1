// expect: tessera: a mesh has at most 8 axes; merge some of them
#include <tessera/core/mesh.hpp>

template <int>
struct one : tessera::axis<1> {};
static_assert(tessera::mesh<one<0>, one<1>, one<2>, one<3>, one<4>, one<5>, one<6>, one<7>, one<8>>::devices == 1);
