// expect: tessera: this optimizer cannot be saved; give it name, visit_options, visit_state and prepare, and its state a member steps, as tessera::momentum has
#include <tessera/comm/serial.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/checkpoint.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

using namespace tessera;

struct frozen {
  template <class T, class Memory>
  struct state {};
  template <class Kernels, class T, class Memory>
  void step(Kernels&, std::vector<parameter_view<T>> const&, state<T, Memory>&) const {}
};

void save(team<mesh<>, serial_comm>& alone) {
  auto net = alone.make<linear<4, 3>>();
  trainer trains(net, cross_entropy{}, frozen{});
  save_checkpoint(trains, "folder");
}
