// C56: a mesh of more devices than the program has ranks: one line with both numbers, and all ranks end.
// expect: tessera: mesh needs 8 devices, world has
// expect: start the program with 8 ranks (mpirun -n 8) or change the sizes of the mesh axes

#include <tessera/train/session.hpp>

struct dp : tessera::axis<2> {};
struct tp : tessera::axis<4> {};

int main(int argc, char** argv) {
  tessera::session<tessera::mesh<dp, tp>> session{argc, argv};
  return 0;
}
