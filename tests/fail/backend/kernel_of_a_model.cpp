// alone: only here the words are of this kernel
// expect: tessera: the program needs the kernel conv2d_forward, which its backend (the first type in the notes below) lacks for arguments of these types: let another backend run it, as in session<Mesh, with_fallback<Backend, eigen>>
// expect: without_convolutions
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/session.hpp>

using namespace tessera;

struct without_convolutions : eigen {
  void conv2d_forward() = delete;
};
struct layers : chain<conv2d<3, 8, window<3, 3>>, relu> {};
using net = parallel<layers, input<dynamic, 3, 8, 8>>;
using here = team<mesh<>, serial_comm, without_convolutions>;

auto f(network<net, here>& model, sharded<float, 4, replicated, here> const& x) { return model.forward(x); }
