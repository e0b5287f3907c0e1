#include "support/message_values.hpp"

#include <doctest/doctest.h>

#include <tessera/comm/checked.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/recording.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

// Gathers and reduce-scatters under way.

namespace {

using namespace tessera;
using message_values::value_of;
using tessera::index_t;

/// Uneven counts with a zero: rank r of 4 has 5, 0, 7, 3.
std::vector<index_t> uneven(int ranks) {
  const index_t some[] = {5, 0, 7, 3};
  std::vector<index_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back(some[r % 4]);
  return counts;
}

template <class T, class Comm>
void check(Comm& comm) {
  const auto counts = uneven(comm.size());
  const index_t total = detail::total_of(counts);
  const index_t begin = detail::begins_of(counts)[static_cast<std::size_t>(comm.rank())];
  const index_t own = counts[static_cast<std::size_t>(comm.rank())];
  std::vector<T> all;
  for (int r = 0; r < comm.size(); ++r)
    for (index_t i = 0; i < counts[static_cast<std::size_t>(r)]; ++i) all.push_back(value_of<T>(r, i));
  std::vector<T> mine;
  std::vector<T> part;
  for (index_t i = 0; i < own; ++i) mine.push_back(value_of<T>(comm.rank(), i));
  for (index_t i = 0; i < total; ++i) part.push_back(value_of<T>(comm.rank(), i));
  const auto reduced = [&](reduction op) {
    std::vector<T> out;
    for (index_t i = begin; i < begin + own; ++i) {
      T v = value_of<T>(0, i);
      for (int r = 1; r < comm.size(); ++r) {
        const T next = value_of<T>(r, i);
        v = op == reduction::sum ? static_cast<T>(v + next) : std::max(v, next);
      }
      out.push_back(v);
    }
    return out;
  };

  // Several at a time, moved about, ended in another order than they began.
  std::vector<T> gathered(static_cast<std::size_t>(total));
  std::vector<T> in_place(static_cast<std::size_t>(total));
  std::copy(mine.begin(), mine.end(), in_place.begin() + begin);
  std::vector<T> sums(static_cast<std::size_t>(own));
  std::vector<T> maxima(static_cast<std::size_t>(own));
  std::vector<typename Comm::request> requests;
  requests.push_back(comm.start_all_gather(mine.data(), gathered.data(), counts));
  requests.push_back(comm.start_reduce_scatter(part.data(), sums.data(), counts, reduction::sum));
  requests.push_back(comm.start_all_gather(in_place.data() + begin, in_place.data(), counts));
  requests.push_back(comm.start_reduce_scatter(part.data(), maxima.data(), counts, reduction::maximum));
  while (!requests.back().test()) {
  }
  for (auto& request : requests) request.wait();
  CHECK(gathered == all);
  CHECK(in_place == all);
  CHECK(sums == reduced(reduction::sum));
  CHECK(maxima == reduced(reduction::maximum));
  const std::vector<index_t> none(counts.size(), 0);
  comm.start_all_gather(static_cast<T const*>(nullptr), static_cast<T*>(nullptr), none).wait();
  comm.start_reduce_scatter(static_cast<T const*>(nullptr), static_cast<T*>(nullptr), none, reduction::sum).wait();
}

}  // namespace

TEST_CASE_TEMPLATE("gathers and reduce-scatters that are under way beside each other", T, float, double, std::int32_t,
                   std::int64_t, std::uint8_t) {
  for (const mpi_options options : {mpi_options{}, mpi_options{.chunk_limit = 4}, mpi_options{.chunk_limit = 1}}) {
    mpi_comm comm(MPI_COMM_WORLD, options);
    check<T>(comm);
  }
}

TEST_CASE("they pass through checked and recording, which see them as the others") {
  checked compared{recording{mpi_comm()}};
  compared.inner().clear();
  check<float>(compared);
  auto const& calls = compared.inner().calls();
  std::vector<std::pair<collective, index_t>> found;
  for (auto const& call : calls)
    if (call.element_bytes == sizeof(float)) found.emplace_back(call.kind, call.elements);
  const index_t total = detail::total_of(uneven(compared.size()));
  CHECK(found == std::vector<std::pair<collective, index_t>>{{collective::all_gather, total},
                                                             {collective::reduce_scatter, total},
                                                             {collective::all_gather, total},
                                                             {collective::reduce_scatter, total},
                                                             {collective::all_gather, 0},
                                                             {collective::reduce_scatter, 0}});
  if (compared.size() == 1) return;
  std::vector<float> data(8);
  std::vector<index_t> counts(static_cast<std::size_t>(compared.size()), 1);
  counts[0] += compared.rank() == 0;
  CHECK_THROWS_AS((void)compared.start_all_gather(data.data() + 4, data.data(), counts), error);
}
