#pragma once

#include <cstdint>

namespace tessera {

/// The kinds of communication that a communicator does.
enum class collective : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier,
  halo,  ///< of plans: what neighbours send each other before or after a windowed operator, all of it
  ring   ///< of plans: blocks, and on the way back their gradients, that go around a group, all of them
};

/// The name, for errors and logs.
constexpr char const* to_string(collective kind) {
  switch (kind) {
    case collective::all_reduce: return "all_reduce";
    case collective::all_gather: return "all_gather";
    case collective::reduce_scatter: return "reduce_scatter";
    case collective::all_to_all: return "all_to_all";
    case collective::broadcast: return "broadcast";
    case collective::send: return "send";
    case collective::receive: return "receive";
    case collective::barrier: return "barrier";
    case collective::halo: return "halo";
    case collective::ring: return "ring";
  }
  return "unknown";
}

}  // namespace tessera
