#include "compare.hpp"

#include <benchmark/benchmark.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace comparison {

namespace {

double over_ranks(double value) {
  double most = 0;
  MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

double seconds_of(way const& w) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  benchmark::DoNotOptimize(w.run());
  return over_ranks(MPI_Wtime() - start);
}

/// The largest difference between results over all ranks, as a share of the largest value of each.
double difference(std::vector<std::vector<float>> const& expected, results const& found) {
  double most = expected.size() == found.size() ? 0 : INFINITY;
  for (std::size_t r = 0; r < std::min(expected.size(), found.size()); ++r) {
    double largest = 1e-30;
    double apart = expected[r].size() == found[r].size() ? 0 : INFINITY;
    for (std::size_t i = 0; i < std::min(expected[r].size(), found[r].size()); ++i) {
      const double value = expected[r][i];
      const double d = std::abs(value - static_cast<double>(found[r][i]));
      largest = std::max(largest, std::abs(value));
      apart = d <= apart ? apart : std::isnan(d) ? INFINITY : d;
    }
    most = std::max(most, over_ranks(apart) / over_ranks(largest));
  }
  return over_ranks(most);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(benchmark::State& state, std::function<std::vector<way>()> const& prepare, double tolerance) {
  const std::vector<way> ways = prepare();
  std::vector<std::vector<float>> expected;
  for (auto const& r : ways.front().run()) expected.emplace_back(r.begin(), r.end());
  for (std::size_t i = 1; i < ways.size(); ++i)
    if (const double apart = difference(expected, ways[i].run()); !(apart <= tolerance)) {
      state.SkipWithError(("the result of " + ways[i].name + " differs by " + std::to_string(apart)).c_str());
      return;
    }

  std::vector<std::vector<double>> seconds(ways.size());
  std::size_t first = 0;
  for (auto _ : state) {
    // Each way starts a round as often as the others, so that none always finds the caches of another.
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::size_t w = (first + i) % ways.size();
      seconds[w].push_back(seconds_of(ways[w]));
    }
    first = (first + 1) % ways.size();
    state.SetIterationTime(seconds[0].back());
  }

  std::size_t best = 1;
  for (std::size_t w = 1; w < ways.size(); ++w)
    if (median(seconds[w]) < median(seconds[best])) best = w;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < seconds[0].size(); ++i) ratios.push_back(seconds[0][i] / seconds[best][i]);
  for (std::size_t w = 0; w < ways.size(); ++w) state.counters[ways[w].name] = median(seconds[w]);
  state.counters["ratio"] = median(ratios);
  state.SetLabel(ways[best].name);
}

class silent_reporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(Context const&) override { return true; }
  void ReportRuns(std::vector<Run> const&) override {}
};

}  // namespace

void add(std::string const& name, std::function<std::vector<way>()> prepare, double tolerance) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { measure(state, prepare, tolerance); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

int run(int argc, char** argv) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // All ranks see the same times, so they make the same iterations; files and text come from the first alone.
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i)
    if (rank == 0 || !std::string_view(argv[i]).starts_with("--benchmark_out")) arguments.push_back(argv[i]);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  silent_reporter silent;
  if (rank == 0)
    benchmark::RunSpecifiedBenchmarks();
  else
    benchmark::RunSpecifiedBenchmarks(&silent);
  return 0;
}

}  // namespace comparison
