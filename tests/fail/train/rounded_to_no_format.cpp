// expect: tessera: rounded<Backend, Format> rounds to a floating-point format: name bfloat16 or float16
#include <tessera/backend/eigen.hpp>
#include <tessera/backend/rounded.hpp>

using namespace tessera;

rounded<eigen, float> kernels;
