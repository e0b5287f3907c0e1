// expect: tessera: deterministic kernels with a communicator that adds up in an order of its own; use session<Mesh,
// deterministic<>>, or team<Mesh, ordered<Comm>, deterministic<>>
#include <tessera/backend/deterministic.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>

using namespace tessera;

struct dp : axis<2> {};

void make(team<mesh<dp>, mpi_comm, deterministic<8>>& team) {
  auto net = team.make<parallel<linear<4, 3>, data_parallel<dp>>>();
  net.forward({team, {{24, 4}}});
}
