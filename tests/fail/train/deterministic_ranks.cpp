// expect: tessera: a deterministic batch is cut over more ranks than it has blocks, or over a number that does not
// divide these; use more blocks, as in deterministic<16>, or another number of ranks
#include <tessera/backend/deterministic.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>

using namespace tessera;

struct dp : axis<3> {};

void make(session<mesh<dp>, deterministic<8>>& session) {
  auto net = session.make<parallel<linear<4, 3>, data_parallel<dp>>>();
  net.forward({session, {{24, 4}}});
}
