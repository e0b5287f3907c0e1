#include "pipeline_case.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

#include <cstdio>

// What a step does, as its trace and the accounting of memory see it, against the figures that the compiler knows.

namespace {

using namespace pipeline_case;

template <class, class>
using mlp =
    chain<linear<12, 64>, relu, linear<64, 64>, relu, linear<64, 64>, relu, linear<64, 64>, relu, linear<64, 7>>;

constexpr int parts = 8;
constexpr index_t rows = 128;

/// A step on this team; `spans` are those of this rank, and `peak` the most bytes above those before it.
template <class Schedule, int Pp, class Team>
void traced_step(Team& team, std::vector<trace_span>& spans, std::size_t& peak) {
  using model = parallel<mlp<void, void>, pipeline<pipe_axis<Pp>, Schedule>>;
  auto net = team.template make<model, double>(seed{7});
  using input_type = typename decltype(net)::input_type;
  const auto x = distribute<replicated>(team, worlds::values<double>(shape<2>{{rows, 12}}, 1));
  const std::vector<input_type> inputs(parts, x);
  const std::vector<std::vector<std::int64_t>> targets(parts, worlds::labels(rows, 7, 1));
  trainer fit(net, cross_entropy{}, sgd(0.1));
  fit.step(inputs, targets);
  tracer seen;
  host_memory::reset_peak();
  const std::size_t before = host_memory::used().live;
  {
    const trace_into on(&seen);
    fit.step(inputs, targets);
  }
  peak = host_memory::used().peak - before;
  spans = seen.spans();
}

/// The passes among the spans, in the order in which they ended.
std::vector<pipeline_action> passes(std::vector<trace_span> const& spans, int devices) {
  std::vector<pipeline_action> found;
  for (auto const& span : spans) {
    char kind[16];
    int part = 0;
    int stage = 0;
    if (std::sscanf(span.name.c_str(), "%15s of part %d in stage %d", kind, &part, &stage) != 3) continue;
    found.push_back({kind == std::string("forward") ? pipeline_action::pass::forward : pipeline_action::pass::backward,
                     stage / devices, part});
  }
  return found;
}

template <class Schedule, int Pp>
void check_trace() {
  if (worlds::size() != Pp) return;
  worlds::parallel_team<mesh<pipe_axis<Pp>>> team{mpi_comm{}};
  std::vector<trace_span> spans;
  std::size_t peak = 0;
  traced_step<Schedule, Pp>(team, spans, peak);
  const auto mine = passes(spans, Pp);
  REQUIRE(mine.size() == 2 * parts * Schedule::chunks);

  // All ranks' passes on every rank.
  std::vector<std::int32_t> numbers;
  for (auto const& a : mine) {
    numbers.push_back(a.kind == pipeline_action::pass::backward);
    numbers.push_back(a.chunk);
    numbers.push_back(a.part);
  }
  std::vector<std::int32_t> all(numbers.size() * Pp);
  const std::vector<index_t> counts(Pp, static_cast<index_t>(numbers.size()));
  team.group(1).all_gather(numbers.data(), all.data(), std::span<index_t const>(counts));
  std::vector<std::vector<pipeline_action>> lists(Pp);
  for (std::size_t i = 0; i < all.size(); i += 3)
    lists[i / numbers.size()].push_back(
        {all[i] == 0 ? pipeline_action::pass::forward : pipeline_action::pass::backward, all[i + 1], all[i + 2]});
  constexpr double wanted = bubble<Schedule>(Pp, parts);
  CHECK(simulate(lists).bubble() == wanted);
}

}  // namespace

TEST_CASE("a trace has the bubble that the compiler knows") {
  check_trace<gpipe, 2>();
  check_trace<one_forward_one_backward, 2>();
  check_trace<interleaved<2>, 2>();
  check_trace<one_forward_one_backward, 4>();
}

TEST_CASE("memory holds the live activations that the compiler knows") {
  if (worlds::size() != 2) return;
  worlds::parallel_team<mesh<pipe_axis<2>>> team{mpi_comm{}};
  std::vector<trace_span> spans;
  std::size_t all = 0;
  std::size_t few = 0;
  traced_step<gpipe, 2>(team, spans, all);
  traced_step<one_forward_one_backward, 2>(team, spans, few);
  // A pass through either stage keeps two inputs of 64 columns or more, and what relu keeps of them.
  const int more = peak_live<gpipe>(2, team.rank(), parts) - peak_live<one_forward_one_backward>(2, team.rank(), parts);
  const std::size_t kept = 2 * rows * 64 * sizeof(double);
  CHECK(more == 6 + team.rank());
  CHECK(all >= few + static_cast<std::size_t>(more) * kept);
}
