#include <tessera/data/sampler.hpp>

#include "files.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace ts = tessera;
using data_test::error_of;
using ts::sampler;

namespace {

std::vector<ts::index_t> epoch_of(sampler& rows, ts::index_t epoch) {
  rows.begin_epoch(epoch);
  std::vector<ts::index_t> all;
  for (ts::index_t b = 0; b < rows.batches(); ++b) {
    const auto part = rows.rows_of(b);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<ts::index_t> counted(ts::index_t n) {
  std::vector<ts::index_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), ts::index_t{0});
  return all;
}

}  // namespace

TEST_CASE("an epoch is a permutation of the rows") {
  sampler rows(1000, 32, {.seed = 7, .drop_last = false});
  CHECK(rows.batches() == 32);
  CHECK(rows.rows_of(0).size() == 32);
  CHECK(rows.rows_of(31).size() == 8);
  auto all = epoch_of(rows, 3);
  CHECK(all != counted(1000));
  std::sort(all.begin(), all.end());
  CHECK(all == counted(1000));
}

TEST_CASE("drop_last leaves out what does not fill a batch, and no row comes twice") {
  sampler rows(1000, 32, {.seed = 7});
  CHECK(rows.batches() == 31);
  auto all = epoch_of(rows, 0);
  CHECK(all.size() == 992);
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("the order is a function of seed and epoch only") {
  sampler one(100, 10, {.seed = 7});
  sampler other(100, 10, {.seed = 7});
  sampler reseeded(100, 10, {.seed = 8});
  const auto first = epoch_of(one, 0);
  const auto second = epoch_of(one, 1);
  CHECK(first != second);
  CHECK(epoch_of(other, 1) == second);
  CHECK(epoch_of(other, 0) == first);
  CHECK(epoch_of(reseeded, 0) != first);
}

TEST_CASE("without shuffle the rows keep their order in every epoch") {
  sampler rows(10, 3, {.shuffle = false, .drop_last = false});
  CHECK(epoch_of(rows, 0) == counted(10));
  CHECK(epoch_of(rows, 5) == counted(10));
}

TEST_CASE("all permutations are about equally likely") {
  std::map<std::vector<ts::index_t>, int> seen;
  sampler rows(3, 3, {.seed = 1});
  constexpr int epochs = 6000;
  for (ts::index_t e = 0; e < epochs; ++e) ++seen[epoch_of(rows, e)];
  REQUIRE(seen.size() == 6);
  double chi_squared = 0;
  for (auto const& [order, count] : seen) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(chi_squared < 20.5);  // 5 degrees of freedom: exceeded with probability 0.001, and the draw is fixed
}

TEST_CASE("sizes that make no batch are refused") {
  CHECK(error_of([] { sampler(10, 0); }) ==
        "tessera: a batch of 0 rows; wanted at least one row; give a positive batch size");
  CHECK(error_of([] { sampler(10, 11); }) ==
        "tessera: a dataset of 10 rows for batches of 11; wanted rows for at least one batch; give a smaller batch, "
        "or more data");
  CHECK(error_of([] { sampler(0, 11, {.drop_last = false}); }) != "no error");
  CHECK(sampler(10, 11, {.drop_last = false}).batches() == 1);
  const sampler rows(10, 5);
  CHECK(error_of([&] { rows.rows_of(2); }) ==
        "tessera: batch 2; wanted one of the 2 batches of the epoch; begin the next epoch");
}
