// expect: tessera: this session's backend has memory that MPI cannot send from: include the header that has its
// communicator (a specialisation of communicator_for), or make a team of the two yourself
#include <tessera/train/session.hpp>

using namespace tessera;

struct device_memory {
  static constexpr bool on_host = false;
  static memory_handle allocate(std::size_t bytes);
};
struct device : eigen {
  using memory = device_memory;
};

session<mesh<>, device> here;
