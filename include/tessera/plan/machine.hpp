#pragma once

#include <tessera/redistribute/cost.hpp>

namespace tessera {

/// A machine that also says how fast one rank computes: `operations_per_second` of matrix products and
/// `bytes_per_second` that go through memory, both positive.
template <class Machine>
concept computing_machine = requires {
  { Machine::operations_per_second } -> std::convertible_to<double>;
  { Machine::bytes_per_second } -> std::convertible_to<double>;
  requires(Machine::operations_per_second > 0 && Machine::bytes_per_second > 0);
};

namespace machine {

/// Ranks on one host, a core each, that send through its memory: rounded figures of a server core with wide vectors and
/// of reductions by MPI. The order of magnitude is what plans need; name a machine of your own for more.
struct shared_memory {
  template <class Axis>
  static constexpr link_cost along{1e-5, 5e-10};
  static constexpr double operations_per_second = 1e11;
  static constexpr double bytes_per_second = 1e10;
};

}  // namespace machine
}  // namespace tessera
