#include <tessera/comm/processors.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using tessera::share_of_processors;

TEST_CASE("processors are shared evenly by the ranks that may run on them, and a rank has at least one") {
  CHECK(share_of_processors(std::vector<int>(8, 1)) == 8);    // alone, or bound to eight of its own
  CHECK(share_of_processors(std::vector<int>(8, 2)) == 4);    // two ranks on the same
  CHECK(share_of_processors(std::vector<int>(8, 3)) == 2);    // eight thirds
  CHECK(share_of_processors(std::vector<int>(99, 33)) == 3);  // no part is lost by rounding
  CHECK(share_of_processors(std::vector<int>(2, 5)) == 1);    // more ranks than processors
  CHECK(share_of_processors(std::vector<int>{1, 1, 2, 2}) == 3);
  CHECK(share_of_processors(std::vector<int>{}) == 1);
}

TEST_CASE("this process may run somewhere, and all processors are its share where it is alone") {
  const std::vector<int> own = tessera::detail::own_processors();
  const int usable = std::accumulate(own.begin(), own.end(), 0);
  CHECK(usable >= 1);
  CHECK(tessera::detail::processors_of_rank(MPI_COMM_SELF) == usable);
}
