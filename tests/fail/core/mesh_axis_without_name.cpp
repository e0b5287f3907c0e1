// expect: tessera: an axis of this mesh has no name of letters, digits and underscores that text could call it by; give its tag one, as in struct dp : tessera::axis<2> {}
#include <tessera/core/draw.hpp>

struct : tessera::axis<2> {
} unnamed;
const auto text = to_string(tessera::named<tessera::mesh<decltype(unnamed)>>());
