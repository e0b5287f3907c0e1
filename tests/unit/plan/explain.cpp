#include "support/errors.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/explain.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace explained {

using namespace tessera;
using errors::error_of;

struct dp : axis<2> {};
struct tp : axis<2> {};
using world = mesh<dp, tp>;

struct cluster {
  static constexpr machine_description about{
      .peak = {.float64 = 0, .float32 = 1e12, .float16 = 0, .bfloat16 = 0},
      .bytes_per_second = 1e10,
      .memory = 1'000'000'000,
      .launch = 1e-7,
      .levels = {{.ranks = 0, .link = {.latency = 1e-7, .seconds_per_byte = 2e-10}, .name = "net"}}};
};

template <int In, int Out>
struct bottleneck_of_mine : chain<linear<In, Out, split_output<tp>>, relu, linear<Out, In, split_input<tp>>> {};
using layers =
    chain<linear<64, 64>, residual<bottleneck_of_mine<64, 256>>, shard<0, dp, tp>,
          recompute<chain<linear<64, 64>, gelu>>, residual<linear<64, 32>, linear<64, 32, no_bias>>, linear<32, 8>>;
using unknown_batch = parallel<layers, data_parallel<dp>>;
using known = parallel<layers, input<128, 64>, data_parallel<dp>>;
using images = parallel<chain<conv2d<3, 8, window<3, 1, 1>, split_height<tp>>, batch_norm2d<8>, relu, flatten<>>,
                        input<16, 3, 8, 8>, data_parallel<dp>, fuse::each, optimizer_parallel<dp, 2>>;

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

double number(nlohmann::json const& json) { return json.get<double>(); }
index_t whole(nlohmann::json const& json) { return json.get<index_t>(); }
std::string text(nlohmann::json const& json) { return json.get<std::string>(); }

/// Whether each tag that opens is closed in order. Returns the first fault.
std::string fault_of_tags(std::string const& page) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = page.find('<', at)) != std::string::npos; ++at) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag that does not end";
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "< in a tag: " + tag;
    if (tag.starts_with("!") || tag.ends_with("/")) continue;
    if (!tag.starts_with("/")) {
      open.push_back(tag.substr(0, tag.find(' ')));
    } else {
      if (open.empty() || open.back() != tag.substr(1)) return "not open: " + tag;
      open.pop_back();
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

std::size_t count(std::string const& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

template <class Model>
void check_numbers(step_settings settings = {}) {
  const auto e = explain<Model, world, cluster>(settings);
  const auto price = price_step<Model, world, cluster>(settings);
  const auto rows = price_model<Model, world, cluster>(settings).rows;
  const auto json = nlohmann::json::parse(e.to_json().dump());

  CHECK(number(json["step_seconds"]["total"]) == price.total());
  CHECK(number(json["step_seconds"]["forward"]) == price.forward);
  CHECK(number(json["step_seconds"]["backward"]) == price.backward);
  CHECK(number(json["step_seconds"]["exposed"]) == price.exposed);
  CHECK(number(json["step_seconds"]["update"]) == price.update);
  double reductions = 0;
  for (auto const& bucket : json["buckets"]) reductions += number(bucket["seconds"]);
  CHECK(reductions == doctest::Approx(price.reduction));

  REQUIRE(json["layers"].size() == rows.size());
  index_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto const& layer = json["layers"][i];
    CHECK(text(layer["path"]) == rows[i].path.text());
    CHECK(number(layer["forward_seconds"]) == rows[i].forward);
    CHECK(number(layer["backward_seconds"]) == rows[i].backward);
    CHECK(number(layer["message_seconds"]) == rows[i].forward_messages + rows[i].backward_messages);
    CHECK(whole(layer["parameter_bytes"]) == rows[i].parameter_bytes);
    for (std::size_t a = 0; a < 2; ++a) {
      auto const& split = layer["split"];
      const char* const axis = a == 0 ? "dp" : "tp";
      CHECK((split.contains(axis) ? text(split[axis]) : "") == rows[i].cut[a]);
    }
    REQUIRE(layer["collectives"].size() == rows[i].calls.size());
    for (std::size_t c = 0; c < rows[i].calls.size(); ++c) {
      CHECK(number(layer["collectives"][c]["bytes"]) == rows[i].calls[c].bytes);
      CHECK(number(layer["collectives"][c]["seconds"]) == rows[i].calls[c].seconds);
    }
    if (!layer["kept_bytes"].is_null()) kept += whole(layer["kept_bytes"]);
  }
  using input = typename plan<Model, world>::input;
  CHECK(e.memory.has_value() == tessera::detail::all_known(input::extents));
  if constexpr (tessera::detail::all_known(input::extents)) {
    const auto memory = training_memory<Model, world, float, input>(tessera::detail::remembering{settings.remembered});
    CHECK(kept == memory.activations);
    CHECK(whole(json["memory_bytes"]["peak"]) == memory.peak());
    CHECK(e.moments.front().bytes == memory.total());
    CHECK(e.moments.back().bytes == memory.total());
    index_t most = 0;
    for (auto const& moment : e.moments) most = std::max(most, moment.bytes);
    CHECK(most == memory.total() + memory.activations);
  }
}

}  // namespace explained

TEST_CASE("the JSON of a plan has the numbers of the step's price, of its layers and of its memory") {
  using namespace explained;
  check_numbers<known>();
  check_numbers<known>({.remembered = 2});
  check_numbers<unknown_batch>({.unknown = 48});
  check_numbers<images>();
}

TEST_CASE("layers are named alike by all compilers, without their split words") {
  using namespace explained;
  const auto rows = layer_rows<known, world>();
  std::vector<std::string> names;
  for (auto const& row : rows) names.push_back(row.path + " " + row.layer);
  CHECK(names == std::vector<std::string>{"0 linear<64, 64>", "1.branch.0 linear<64, 256>", "1.branch.1 relu",
                                          "1.branch.2 linear<256, 64>", "1 sum", " layout", "2.0 linear<64, 64>",
                                          "2.1 gelu", "3.branch linear<64, 32>", "3.shortcut linear<64, 32, no_bias>",
                                          "3 sum", "4 linear<32, 8>", " output"});
  CHECK(rows[1].split == std::vector<std::string>{"batch", "output"});
  CHECK(rows[1].output == "[dp,tp]");
  CHECK(rows[3].output == "[dp,-] partial(tp)");
}

TEST_CASE("memory is told where the input is known, the model's or one that is named") {
  using namespace explained;
  const auto open = explain<unknown_batch, world, cluster>();
  CHECK(!open.memory);
  CHECK(open.moments.empty());
  CHECK(open.to_json()["memory_bytes"].is_null());
  CHECK(open.to_json()["layers"][0]["kept_bytes"].is_null());

  auto named_here = explain<unknown_batch, world, cluster, float, input<128, 64>>();
  const auto of_model = explain<known, world, cluster>();
  CHECK(named_here.memory->peak() == of_model.memory->peak());
  named_here.model = of_model.model;
  CHECK(named_here.to_json() == of_model.to_json());
  CHECK(explain<known, world, cluster, float, input<64, 64>>().step.forward < of_model.step.forward);
  CHECK(has(error_of([] { explain<known, world, cluster, double>(); }), "8 bytes"));
}

TEST_CASE("the table has a line for each layer and the sums") {
  using namespace explained;
  const auto e = explain<known, world, cluster>();
  std::vector<std::string> lines;
  std::string text = e.table();
  for (std::size_t at; (at = text.find('\n')) != std::string::npos; text.erase(0, at + 1))
    lines.push_back(text.substr(0, at));
  CHECK(text.empty());
  REQUIRE(lines.size() > e.layers.size() + 2);
  CHECK(lines[0].starts_with("place"));
  for (std::size_t i = 0; i < e.layers.size(); ++i) {
    CHECK(lines[i + 1].starts_with(e.layers[i].path));
    CHECK(has(lines[i + 1], e.layers[i].layer));
    CHECK(has(lines[i + 1], e.layers[i].output));
    for (auto const& call : e.layers[i].calls) CHECK(has(lines[i + 1], call.kind + "(" + call.axes + ")"));
  }
  CHECK(has(lines[e.layers.size() + 1], "all layers"));
  CHECK(lines[e.layers.size() + 2].starts_with("step "));
  CHECK(has(e.table(), "peak memory"));
}

TEST_CASE("times and sizes are written with three digits") {
  using tessera::detail::bytes_text;
  using tessera::detail::seconds_text;
  CHECK(seconds_text(0) == "0");
  CHECK(seconds_text(1.2345e-6) == "1.23 us");
  CHECK(seconds_text(0.0123) == "12.3 ms");
  CHECK(seconds_text(0.9996) == "1.00 s");
  CHECK(seconds_text(3e-10) == "0.30 ns");
  CHECK(bytes_text(64) == "64 B");
  CHECK(bytes_text(123456) == "123 kB");
  CHECK(bytes_text(99960) == "100 kB");
}

TEST_CASE("the page needs nothing else and is well formed") {
  using namespace explained;
  const auto e = explain<images, world, cluster>();
  const std::string page = e.html();
  CHECK(page.starts_with("<!DOCTYPE html>"));
  for (char const* const far : {"http://", "https://", "src=", "@import", "url("}) CHECK(!has(page, far));
  CHECK(fault_of_tags(page) == "");
  CHECK(has(page, "conv2d&lt;3, 8, window&lt;3, 1, 1&gt;&gt;"));
  CHECK(count(page, "<tr>") == 1 + e.layers.size());
  const auto shown = std::count_if(e.timeline.begin(), e.timeline.end(), [](auto const& p) { return p.end > p.begin; });
  CHECK(count(page, "</title></rect>") == static_cast<std::size_t>(shown));
  CHECK(has(page, "Memory over time"));
  const std::string without = explain<unknown_batch, world, cluster>().html();
  CHECK(!has(without, "Memory over time"));
  CHECK(fault_of_tags(without) == "");
}

TEST_CASE("a pipeline is explained without a timeline") {
  using namespace explained;
  using stages = parallel<chain<linear<64, 64>, stage<1>, linear<64, 8>>, input<32, 64>, pipeline<dp>>;
  const auto e = explain<stages, world, cluster>({.parts = 4});
  CHECK(e.step.bubble == price_step<stages, world, cluster>({.parts = 4}).bubble);
  CHECK(e.step.bubble > 0);
  CHECK(e.timeline.empty());
  CHECK(e.memory->parts == 4);
  CHECK(fault_of_tags(e.html()) == "");
  CHECK(has(e.table(), "waiting in the pipeline"));
}
