// expect: tessera: an axis is used twice in this mesh; give each mesh axis a tag type of its own
#include <tessera/core/mesh.hpp>

struct dp : tessera::axis<2> {};
static_assert(tessera::mesh<dp, dp>::devices == 4);
