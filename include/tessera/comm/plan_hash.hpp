#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/core/error.hpp>

#include <concepts>
#include <cstdint>
#include <string>

namespace tessera {

/// A hash of a sequence of whole numbers: FNV-1a of G. Fowler, L. Noll and K.-P. Vo, over the numbers instead of bytes.
class number_hash {
 public:
  constexpr number_hash& add(std::integral auto number) {
    value_ = (value_ ^ static_cast<std::uint64_t>(number)) * 0x100000001b3u;
    return *this;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

/// Throws on all ranks of the group where `hash` is not the same on all of them; `what` names what it is of, as in "the
/// plan of this model". Collective: one all-reduce.
template <communicator Comm>
void check_equal_everywhere(Comm& comm, std::uint64_t hash, std::string const& what) {
  const auto own = static_cast<std::int64_t>(hash);
  std::int64_t most[2] = {own, ~own};
  comm.all_reduce(most, 2, reduction::maximum);
  if (most[0] != ~most[1])
    throw error(what + " differs between ranks: its hashes go from " + std::to_string(~most[1]) + " to " +
                    std::to_string(most[0]),
                "the same on all ranks",
                "start all ranks from one program with the same arguments, built once for all hosts");
}

}  // namespace tessera
