#include <tessera/comm/serial.hpp>
#include <tessera/core/sharded.hpp>

#include <string_view>

/// What these programs share: a mesh, and tensors on a context that only the compiler sees. Each has its own, included in
/// its namespace, so that none makes use of what another has instantiated.
using namespace tessera;

struct dp : axis<2> {};
struct tp : axis<4> {};
struct absent : axis<2> {};  // no axis of the mesh
using world = tessera::mesh<dp, tp>;

struct no_kernels {
  using memory = host_memory;
  using statistic = double;
  static constexpr storage_order order = storage_order::channels_last;
};

template <class Mesh, class Backend = no_kernels>
struct unbuilt_context {
  using mesh = Mesh;
  using communicator = serial_comm;
  using backend = Backend;
  using context_type = unbuilt_context;
  decltype(Mesh::sizes) coordinates() const;
  communicator& group(axis_set);
  backend& kernels();
};
using here = unbuilt_context<world>;

template <int Rank, class Layout = replicated>
using tensor_of = sharded<float, Rank, Layout, here>;
