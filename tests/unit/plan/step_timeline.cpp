#include <tessera/layer/activation.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/step_timeline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

// Timelines against the prices of the same steps, which `simulate_step` finds without one.

namespace timelines {

using namespace tessera;

struct dp : axis<2> {};
struct tp : axis<2> {};
using world = mesh<dp, tp>;
using kind = timed_part::kind;

/// A machine on which messages take about as long as kernels.
struct cluster {
  static constexpr machine_description about{
      .peak = {.float64 = 0, .float32 = 1e12, .float16 = 0, .bfloat16 = 0},
      .bytes_per_second = 1e10,
      .memory = 1'000'000'000,
      .launch = 1e-7,
      .levels = {{.ranks = 0, .link = {.latency = 1e-7, .seconds_per_byte = 2e-10}, .name = "net"}}};
};

using layers = chain<linear<64, 128, split_output<tp>>, relu, linear<128, 64, split_input<tp>>,
                     residual<linear<64, 64>>, linear<64, 64>, recompute<chain<linear<64, 64>, gelu>>, linear<64, 8>>;
template <class... Policies>
using net = parallel<layers, input<256, 64>, data_parallel<dp>, Policies...>;

double seconds(std::vector<timed_part> const& parts, kind what) {
  double sum = 0;
  for (auto const& part : parts)
    if (part.what == what) sum += part.end - part.begin;
  return sum;
}

template <class Model>
void check(step_settings const& settings = {}) {
  const auto price = price_step<Model, world, cluster>(settings);
  const auto parts = step_timeline<Model, world, cluster>(settings);
  CHECK(seconds(parts, kind::forward) + seconds(parts, kind::backward) + seconds(parts, kind::messages) ==
        doctest::Approx(price.forward + price.backward));
  CHECK(seconds(parts, kind::reduction) >= doctest::Approx(price.reduction));
  CHECK(seconds(parts, kind::update) == doctest::Approx(price.update));
  double end = 0;
  double passes_end = 0;
  for (auto const& part : parts) {
    CHECK(part.begin >= 0);
    CHECK(part.end >= part.begin);
    end = std::max(end, part.end);
    if (part.what == kind::backward) passes_end = std::max(passes_end, part.end);
  }
  CHECK(end == doctest::Approx(price.total()));
  CHECK(passes_end == doctest::Approx(price.forward + price.backward + price.waiting));

  // One thing at a time: layers with their messages, and what goes on beside them.
  for (const bool beside : {false, true}) {
    std::vector<timed_part> lane;
    for (auto const& part : parts)
      if ((part.what == kind::reduction || part.what == kind::gather) == beside) lane.push_back(part);
    std::sort(lane.begin(), lane.end(),
              [](auto const& a, auto const& b) { return a.begin < b.begin || (a.begin == b.begin && a.end < b.end); });
    for (std::size_t i = 1; i < lane.size(); ++i) CHECK(lane[i].begin >= doctest::Approx(lane[i - 1].end));
  }
}

}  // namespace timelines

TEST_CASE("a timeline ends when the price of the step says, and its parts take what they cost") {
  using namespace timelines;
  check<net<fuse::each>>();
  check<net<fuse::all>>();
  check<net<fuse::bytes<20000>>>({.remembered = 2});
  check<net<fuse::each>>({.overlap = false});
  check<net<fuse::each, optimizer_parallel<dp, 1>>>();
  check<net<fuse::each, optimizer_parallel<dp, 2>>>();
  check<net<fuse::each, optimizer_parallel<dp, 3>>>();
  check<net<fuse::each, optimizer_parallel<dp, 2>>>({.overlap = false});
  check<net<fuse::each, optimizer_parallel<dp, 3>>>({.overlap = false});
}

TEST_CASE("reductions begin when their gradients exist, and wait for messages of layers") {
  using namespace timelines;
  const auto parts = step_timeline<net<fuse::each>, world, cluster>();
  const auto price = price_step<net<fuse::each>, world, cluster>();
  const auto first = std::find_if(parts.begin(), parts.end(), [](auto const& p) { return p.what == kind::reduction; });
  REQUIRE(first != parts.end());
  // That of the last layer's gradients.
  CHECK(first->begin > price.forward);
  CHECK(first->begin < price.forward + price.backward);
  const auto pass = std::find_if(parts.begin(), parts.end(), [](auto const& p) { return p.what == kind::backward; });
  CHECK(first->begin >= doctest::Approx(pass->end));
  // Of reductions those are longer than their price during which layers sent messages.
  CHECK(seconds(parts, kind::reduction) < price.reduction + seconds(parts, kind::messages));
}
