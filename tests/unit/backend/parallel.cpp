#include <tessera/backend/parallel.hpp>

#include <tessera/backend/eigen.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

namespace {

using namespace tessera;
using detail::parallel_grain;
using detail::parts_for;
using detail::run_parts;
using detail::eigen_kernels::workspace;
using tessera::index_t;

}  // namespace

TEST_CASE("there are as many parts as threads, items and the grain allow") {
  CHECK(parts_for(1, 1000000000, 1) == 1);
  CHECK(parts_for(4, 0, 1) == 1);
  CHECK(parts_for(4, 2 * parallel_grain - 1, 1) == 1);
  CHECK(parts_for(4, 2 * parallel_grain, 1) == 2);
  CHECK(parts_for(4, 100 * parallel_grain, 1) == 4);
  CHECK(parts_for(4, 3, index_t{1} << 40) == 3);
  CHECK(parts_for(4, 1, index_t{1} << 40) == 1);
  CHECK(parts_for(4, 2, parallel_grain / 2) == 1);
  CHECK(parts_for(4, 100, 0) == 1);
  CHECK(parts_for(4, 100, 1, 30) == 3);
}

TEST_CASE("every item belongs to one part, and all parts run") {
  for (const int threads : {1, 2, 3, 7})
    for (const index_t count : {0, 1, 5, 1000}) {
      workspace scratch(threads, 1);
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      scratch.split(count, 1, [&](index_t begin, index_t end, workspace&) {
        for (index_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (auto const& times : seen) CHECK(times == 1);
      std::vector<std::atomic<int>> parts(static_cast<std::size_t>(threads));
      run_parts(threads, [&](int part) { ++parts[static_cast<std::size_t>(part)]; });
      for (auto const& times : parts) CHECK(times == 1);
    }
}

#ifdef _OPENMP
TEST_CASE("parts have threads of their own, the first the caller's; inside a part there are no more") {
  const int caller = omp_get_thread_num();
  std::vector<int> inside(3, -1);
  std::vector<int> outside(3, -1);
  run_parts(3, [&](int part) {
    outside[static_cast<std::size_t>(part)] = omp_get_thread_num();
    std::set<int> threads;
    run_parts(4, [&](int) { threads.insert(omp_get_thread_num()); });
    inside[static_cast<std::size_t>(part)] = static_cast<int>(threads.size());
  });
  CHECK(outside[0] == caller);
  CHECK(std::set<int>(outside.begin(), outside.end()).size() == 3);
  CHECK(inside == std::vector<int>{1, 1, 1});
}
#endif

TEST_CASE("an exception of a part goes on when all parts have run") {
  for (const int bad : {0, 1, 2}) {
    std::atomic<int> ran = 0;
    CHECK_THROWS_WITH_AS(run_parts(3,
                                   [&](int part) {
                                     ++ran;
                                     if (part == bad) throw std::runtime_error("part");
                                   }),
                         "part", std::runtime_error);
    CHECK(ran == 3);
  }
}

TEST_CASE("each part has scratch memory of its own, and none beyond its own thread") {
  workspace scratch(3);
  float* whole = scratch.get<float>(0, 16);
  std::vector<float*> own(3);
  scratch.run(3, [&](int part, workspace& w) {
    own[static_cast<std::size_t>(part)] = w.get<float>(0, 16);
    CHECK(w.threads() == 1);
  });
  CHECK(std::set<float*>{whole, own[0], own[1], own[2]}.size() == 4);
  for (float* p : own) CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
  scratch.run(1, [&](int, workspace& w) { CHECK(&w == &scratch); });
  const auto before = host_memory::used().live;
  scratch.run(3, [&](int, workspace& w) { w.get<float>(1, 1000); });
  CHECK(host_memory::used().live == before);
}

TEST_CASE("elements in a row are cut at cache lines") {
  workspace scratch(3, 1);
  alignas(64) static float data[1000];
  for (const index_t skipped : {0, 1, 15})
    for (const index_t count : {0, 1, 40, 900}) {
      std::atomic<index_t> sum = 0;
      scratch.split_elements(data + skipped, count, 1, [&](index_t first, index_t end) {
        CHECK((first == 0 || (skipped + first) % 16 == 0));
        sum += end - first;
      });
      CHECK(sum == count);
    }
}

TEST_CASE("a number of threads below one is an error that says so") {
  eigen k;
  CHECK(k.threads() == 1);
  k.use_threads(4);
  CHECK(k.threads() == 4);
  CHECK_THROWS_WITH_AS(k.use_threads(0), doctest::Contains("0 threads"), error);
  CHECK_THROWS_AS(eigen(-1), error);
  CHECK(k.threads() == 4);
}
