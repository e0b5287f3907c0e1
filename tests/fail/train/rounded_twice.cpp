// expect: tessera: the backend of rounded<Backend, Format> has a format of its own already: name one that computes in float
#include <tessera/backend/eigen.hpp>
#include <tessera/backend/rounded.hpp>

using namespace tessera;

rounded<rounded<eigen, bfloat16>, float16> kernels;
