#include "support/worlds.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/trainer.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

// The trace of a step, as a program reads it that draws it.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct dp : axis<Size> {};

template <class Dp>
using model = parallel<chain<linear<12, 16>, relu, linear<16, 9>, whole_along<Dp>, relu, linear<9, 7>>,
                       data_parallel<Dp>, fuse::each>;

/// Trains `steps` steps with a trace of `traced`, and what rank 0 finds in it.
template <int Size, class Comm>
nlohmann::json trace_of(Comm const& world, std::string const& path, int steps, int traced, bool overlap) {
  team<mesh<dp<Size>>, Comm> team{world};
  auto net = team.template make<model<dp<Size>>>(seed{1});
  trainer fit(net, cross_entropy{}, sgd(0.1), {.overlap = overlap});
  using input_type = typename decltype(net)::input_type;
  const auto x = distribute<typename input_type::layout_type>(team, worlds::values<float>(shape<2>{{13, 12}}, 1));
  const auto labels = worlds::labels(13, 7, 1);
  fit.step(x, labels);
  fit.trace(path, traced);
  for (int s = 1; s < steps; ++s) fit.step(x, labels);
  CHECK(tracer::current() == nullptr);
  nlohmann::json found;
  if (team.rank() == 0) {
    std::ifstream(path) >> found;
    std::remove(path.c_str());
  }
  return found;
}

/// Checks that a trace is well formed, and counts the events of each rank by name.
std::map<std::string, int> check(nlohmann::json const& trace, int ranks) {
  struct stretch {
    double begin;
    double end;
  };
  std::map<int, std::vector<stretch>> nested;
  std::map<std::pair<int, std::string>, double> running;
  std::map<std::string, int> counts;
  std::set<int> named;
  for (auto const& event : trace.at("traceEvents")) {
    const int rank = event.at("pid");
    const std::string name = event.at("name");
    const std::string kind = event.at("ph");
    if (kind == "M") {
      CHECK(event.at("args").at("name") == "rank " + std::to_string(rank));
      named.insert(rank);
      continue;
    }
    const double begin = event.at("ts");
    CHECK(begin >= 0);
    CHECK((event.at("cat") == "compute" || event.at("cat") == "communication"));
    if (kind == "X") {
      CHECK(event.at("dur") >= 0);
      nested[rank].push_back({begin, begin + event.at("dur").get<double>()});
      ++counts[name];
    } else if (kind == "b") {
      const std::string id = event.at("id2").at("local");
      CHECK(running.emplace(std::pair{rank, id}, begin).second);
      ++counts[name];
    } else {
      CHECK(kind == "e");
      const std::string id = event.at("id2").at("local");
      CHECK(running.at({rank, id}) <= begin);
    }
  }
  CHECK(static_cast<int>(named.size()) == ranks);
  CHECK(static_cast<int>(nested.size()) == ranks);
  for (auto const& of_rank : nested) {
    auto const& all = of_rank.second;
    // Ends come in order, and of any two one lies in the other or they are apart (up to the nanosecond's third digit).
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        CHECK(all[i].end <= all[j].end + 0.002);
        CHECK((all[i].end <= all[j].begin + 0.002 || all[j].begin <= all[i].begin + 0.002));
      }
  }
  return counts;
}

template <int Size, class Comm>
void check_steps(Comm const& world, bool overlap) {
  const auto trace = trace_of<Size>(world, "trace_test.json", 4, 2, overlap);
  if (trace.is_null()) return;
  auto counts = check(trace, Size);
  // Two steps on each rank.
  const int times = 2 * Size;
  CHECK(counts["step 1"] == Size);
  CHECK(counts["step 2"] == Size);
  CHECK(counts["update"] == times);
  CHECK(counts["linear<12, 16> forward"] == times);
  CHECK(counts["linear<12, 16> backward"] == times);
  CHECK(counts["linear<9, 7> forward"] == times);
  CHECK(counts["wait for buckets"] == times);
  const auto buckets = plan<model<dp<Size>>, mesh<dp<Size>>>::buckets(sizeof(float));
  for (std::size_t b = 0; b < buckets.size(); ++b) CHECK(counts["bucket " + std::to_string(b)] == times);
  CHECK(counts.count("bucket " + std::to_string(buckets.size())) == 0);
  CHECK((counts["all_gather"] > 0) == (Size > 1));
}

}  // namespace

TEST_CASE("a trace is JSON with the layers, collectives and buckets of the steps asked for, on all ranks") {
  for (const bool overlap : {true, false}) {
    if (worlds::size() == 1) check_steps<1>(serial_comm{}, overlap);
    if (worlds::size() == 2) check_steps<2>(mpi_comm{}, overlap);
    if (worlds::size() == 4) check_steps<4>(mpi_comm{}, overlap);
  }
}

TEST_CASE("a trace that cannot be written is an error on all ranks, and one of no steps is refused") {
  const auto refuse = []<int Size>() {
    if (worlds::size() != Size) return;
    CHECK_THROWS_AS(trace_of<Size>(mpi_comm{}, "no/such/folder/trace.json", 2, 1, true), error);
    CHECK_THROWS_AS(trace_of<Size>(mpi_comm{}, "trace_test.json", 2, 0, true), error);
  };
  refuse.operator()<1>();
  refuse.operator()<2>();
  refuse.operator()<4>();
}

TEST_CASE("names with quotes and control characters stay JSON") {
  const std::string text = tessera::detail::json_text("a\"b\\c\n");
  CHECK(nlohmann::json::parse(text) == "a\"b\\c ");
}
