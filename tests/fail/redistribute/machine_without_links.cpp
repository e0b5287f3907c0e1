// expect: tessera: this machine does not say what the links along an axis of the mesh cost; give it a member template <class Axis> static constexpr tessera::link_cost along
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

struct nothing {};
auto f(tensor_of<2, row<tp>> const& x) { return x | to<column<tp>, nothing, shape<2>{{8, 8}}>; }
