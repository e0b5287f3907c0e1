// The headers alone, to be taken off the others.

#include <tessera/tessera.hpp>

int main() {}
