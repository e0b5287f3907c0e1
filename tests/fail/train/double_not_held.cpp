// expect: tessera: this backend has no blocks of the T of make<Model, T>: leave T out, so that parameters are float
#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>

using namespace tessera;

struct float_alone : eigen {
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float>;
};

void f(team<mesh<>, serial_comm, float_alone>& alone) { alone.make<linear<4, 3>, double>(); }
