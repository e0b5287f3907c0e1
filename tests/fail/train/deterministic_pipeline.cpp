// expect: tessera: a pipeline adds up the gradients of micro-batches, which deterministic kernels do not; use
// data_parallel alone, or the backend that deterministic<> is given
#include <tessera/backend/deterministic.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>

using namespace tessera;

struct pp : axis<2> {};

void make(session<mesh<pp>, deterministic<8>>& session) {
  auto net = session.make<parallel<chain<linear<4, 3>, linear<3, 2>>, input<8, 4>, pipeline<pp>>>();
}
