#include <tessera/train/session.hpp>

#include <doctest/doctest.h>

namespace {

using namespace tessera;

struct one : axis<1> {};
using world = mesh<one>;

}  // namespace

TEST_CASE("kernels of a session use the threads of its options, by default this rank's processors") {
  CHECK(session<world>({.threads = 3}).kernels().threads() == 3);
  CHECK(session<world>().kernels().threads() == detail::processors_of_rank(MPI_COMM_WORLD));
  CHECK(detail::threads_of_rank({}, 5) == 5);
  CHECK(detail::threads_of_rank({.threads = 2}, 5) == 2);
}

TEST_CASE("a negative number of threads is an error that says what is wanted") {
  CHECK_THROWS_WITH_AS(session<world>({.threads = -1}), doctest::Contains("threads = -1"), error);
}

TEST_CASE("a team uses one thread unless it is told otherwise") {
  CHECK(team<world, serial_comm>(serial_comm()).kernels().threads() == 1);
  CHECK(team<world, serial_comm>(serial_comm(), 2).kernels().threads() == 2);
  CHECK_THROWS_AS((team<world, serial_comm>(serial_comm(), 0)), error);
}
