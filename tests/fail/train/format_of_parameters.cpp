// expect: tessera: make<Model, T> keeps parameters in float or double; leave T out: this backend computes in T whatever they are
#include <tessera/backend/rounded.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>

using namespace tessera;

void make(team<mesh<>, serial_comm, rounded<eigen, bfloat16>>& alone) { alone.make<linear<4, 3>, bfloat16>(); }
