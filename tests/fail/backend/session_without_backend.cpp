// expect: tessera: the last type of this session or team is no backend: name one, as eigen
#include <tessera/train/session.hpp>

using namespace tessera;

struct without_sums : eigen {
  void add() = delete;
};

using here = session<mesh<>, without_sums>;
void f() { here all; }
