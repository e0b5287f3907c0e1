#include <doctest/doctest.h>

#include <tessera/comm/counts.hpp>

#include <limits>

namespace {

using tessera::index_t;
using tessera::interval;

constexpr index_t int_max = std::numeric_limits<int>::max();

/// Number of pieces if they cover 0 to `count` in order, exactly once, none empty or above the limit; -1 otherwise.
constexpr int pieces_of(index_t count, index_t limit) {
  int pieces = 0;
  index_t end = 0;
  bool good = true;
  tessera::detail::for_pieces(count, limit, [&](interval piece) {
    good = good && piece.begin == end && piece.size > 0 && piece.size <= limit;
    end = piece.end();
    ++pieces;
  });
  return good && end == count ? pieces : -1;
}

static_assert(pieces_of(0, 4) == 0);
static_assert(pieces_of(1, 1) == 1);
static_assert(pieces_of(4, 4) == 1);
static_assert(pieces_of(5, 4) == 2);

TEST_CASE("pieces cover counts about and above the range of int exactly once") {
  CHECK(pieces_of((index_t{1} << 31) - 1, int_max) == 1);
  CHECK(pieces_of(index_t{1} << 31, int_max) == 2);
  CHECK(pieces_of((index_t{1} << 32) + 5, int_max) == 3);
  CHECK(pieces_of((index_t{1} << 32) + 5, index_t{1} << 20) == 4097);
  for (index_t count = 0; count < 40; ++count)
    for (index_t limit = 1; limit < 9; ++limit) CHECK(pieces_of(count, limit) == (count + limit - 1) / limit);
}

TEST_CASE("parts packed in rank order") {
  const std::vector<index_t> counts{3, 0, index_t{1} << 32, 2};
  CHECK(tessera::detail::total_of(counts) == (index_t{1} << 32) + 5);
  CHECK(tessera::detail::begins_of(counts) == std::vector<index_t>{0, 3, 3, (index_t{1} << 32) + 3});
}

TEST_CASE("bad arguments say what was found and wanted") {
  CHECK_THROWS_WITH_AS(tessera::detail::check_count(-1, "broadcast"),
                       "tessera: broadcast of -1 elements; wanted a count of 0 or more; check the extents that the "
                       "count comes from",
                       tessera::error);
  const std::vector<index_t> two{1, 1};
  CHECK_THROWS_WITH_AS(tessera::detail::check_counts(two, 3, "all_gather"),
                       "tessera: all_gather with 2 counts in a group of 3 ranks; wanted one count for each rank; pass "
                       "the counts of all ranks in rank order",
                       tessera::error);
  CHECK_THROWS_AS(tessera::detail::check_rank(3, 3), tessera::error);
  CHECK_THROWS_AS(tessera::detail::check_rank(-1, 3), tessera::error);
  CHECK_THROWS_AS(tessera::detail::check_tag(32767), tessera::error);
  CHECK_NOTHROW(tessera::detail::check_tag(32766));
  CHECK_THROWS_AS(tessera::detail::check_color(-1), tessera::error);
  CHECK_THROWS_AS(tessera::detail::check_own_part(1, 2), tessera::error);
}

}  // namespace
