// expect: tessera: a mesh axis needs at least one device; write axis<1> or more
#include <tessera/core/axis.hpp>

struct nobody : tessera::axis<0> {};
