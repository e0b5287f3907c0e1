#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace comparison {

/// What one rank has in the end: its blocks of one or more results.
using results = std::vector<std::span<float const>>;

/// One way to do a piece of work. `run` does this rank's part; what it returns stays valid until the next run.
struct way {
  std::string name;
  std::function<results()> run;
};

/// Registers a benchmark that does the same work in several ways, the library's first.
///
/// In each iteration every way runs once, in turn, after a barrier, and takes as long as its slowest rank. The time of
/// the benchmark is that of the library's way. Counters, in seconds: the median of each way; `ratio` is the median over
/// the iterations of the library's time over that of the other way that is fastest. Where results differ by more than
/// `tolerance` (of the largest value) on any rank, the benchmark reports an error.
///
/// `prepare` is called before each measurement and returns the ways with their memory.
void add(std::string const& name, std::function<std::vector<way>()> prepare, double tolerance = 1e-4);

/// Runs what was registered; only rank 0 reports. The arguments are those of Google Benchmark.
int run(int argc, char** argv);

}  // namespace comparison
