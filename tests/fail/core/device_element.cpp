// expect: tessera: the elements of this tensor are in a device's memory, which the host cannot read or write: take a
// copy in host memory first, as in tessera::to_host(session.kernels(), x)
#include <tessera/core/tensor.hpp>

using namespace tessera;

struct device_memory {
  static constexpr bool on_host = false;
  static memory_handle allocate(std::size_t bytes);
};

float f(tensor<float, 2, device_memory> const& x) { return x(0, 0); }
