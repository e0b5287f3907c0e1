// expect: tessera: the second of with_fallback<Backend, Other> is no backend: name one, as eigen
#include <tessera/backend/eigen.hpp>
#include <tessera/backend/with_fallback.hpp>

tessera::with_fallback<tessera::eigen, tessera::host_memory> kernels;
