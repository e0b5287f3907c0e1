// expect: tessera: this backend does not compute in the T of make<Model, T>; leave T out, so that parameters are float, and compute in T on a session<Mesh, rounded<Backend, T>>
// expect: tessera::eigen
// expect: tessera::bfloat16
#include <tessera/backend/rounded.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>

using namespace tessera;

void make(team<mesh<>, serial_comm>& alone) { alone.make<linear<4, 3>, bfloat16>(); }
