#include <doctest/doctest.h>

#include <tessera/comm/mpi.hpp>
#include <tessera/comm/plan_hash.hpp>
#include <tessera/comm/serial.hpp>

#include <cstdint>
#include <limits>
#include <string>

namespace {

using tessera::check_equal_everywhere;
using tessera::number_hash;

static_assert(number_hash{}.add(1).add(2).value() != number_hash{}.add(2).add(1).value());
static_assert(number_hash{}.value() != number_hash{}.add(0).value());

TEST_CASE("hashes that all ranks share pass, the largest and smallest ones included") {
  tessera::mpi_comm comm;
  tessera::serial_comm alone;
  for (const std::uint64_t hash : {std::uint64_t{0}, std::uint64_t{1} << 63, (std::uint64_t{1} << 63) - 1,
                                   std::numeric_limits<std::uint64_t>::max(), number_hash{}.add(7).value()}) {
    check_equal_everywhere(comm, hash, "a hash");
    check_equal_everywhere(alone, hash, "a hash");
  }
}

TEST_CASE("a hash of one rank that differs throws on all ranks") {
  tessera::mpi_comm comm;
  if (comm.size() == 1) return;
  for (int odd = 0; odd < comm.size(); ++odd)
    for (const std::uint64_t other : {std::uint64_t{4}, std::uint64_t{6}, std::uint64_t{5} << 60}) {
      std::string text;
      try {
        check_equal_everywhere(comm, comm.rank() == odd ? other : 5, "the plan of this model");
      } catch (tessera::error const& e) {
        text = e.what();
      }
      CHECK(text.find("the plan of this model differs between ranks") != std::string::npos);
      CHECK(text.find(std::to_string(static_cast<std::int64_t>(other))) != std::string::npos);
    }
}

}  // namespace
