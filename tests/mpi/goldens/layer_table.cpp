#include "support/golden_worlds.hpp"

#include <tessera/model/resnet_names.hpp>
#include <tessera/plan/parallel.hpp>

#include <nlohmann/json.hpp>

#include <fstream>

// The large models against tables of their layers: every parameter and statistic by name, order and extents, and the
// extents of what stem, stages and the whole give. All of it follows from the type of the model alone.

namespace {

using namespace tessera;
using nlohmann::json;

struct row {
  std::string name;
  std::vector<index_t> extents;
  friend bool operator==(row const&, row const&) = default;
};

std::vector<row> rows_of(json const& table) {
  std::vector<row> rows;
  for (json const& layer : table.at("layers")) {
    json all = layer.at("params");
    all.update(layer.at("buffers"));
    for (char const* part : {"weight", "bias", "running_mean", "running_var"})
      if (all.contains(part))
        rows.push_back({layer.at("name").get<std::string>() + "." + part, all.at(part).get<std::vector<index_t>>()});
  }
  return rows;
}

/// Extents without the batch of the layer in front of `name`, or of the last one.
std::vector<index_t> output_before(json const& table, std::string const& name) {
  json const* before = nullptr;
  for (json const& layer : table.at("layers")) {
    if (layer.at("name") == name) break;
    // The projection comes last of its block and gives the same as the branch.
    before = &layer;
  }
  return before->at("output_shape").get<std::vector<index_t>>();
}

template <class Bound>
std::vector<index_t> output_of() {
  std::vector<index_t> out;
  for (int d = 1; d < Bound::output::rank; ++d) out.push_back(Bound::output::extents[d]);
  return out;
}

template <class Model>
void compare(golden::folder const& from, golden::test_case const& c) {
  CAPTURE(c.name);
  std::ifstream text(from.path + "/" + c.expected_file);
  REQUIRE(text);
  const json table = json::parse(text);
  using planned = plan<parallel<Model, input<dynamic, 3, 224, 224>>, mesh<>>;

  const auto names = model::torchvision_names<Model>();
  const auto parameters = planned::parameters();
  REQUIRE(names.size() == parameters.size());
  std::vector<row> found;
  double count = 0;
  double tensors = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto const& p = parameters[i];
    found.push_back({names[i], {p.extents, p.extents + p.rank}});
    if (!p.trainable) continue;
    double size = 1;
    for (const index_t e : found.back().extents) size *= static_cast<double>(e);
    count += size;
    ++tensors;
  }
  CHECK(found == rows_of(table));
  CHECK(count == c.expected.number("parameter_count"));
  CHECK(tensors == c.expected.number("parameter_tensors"));

  using bound = typename planned::bound;
  CHECK(output_of<typename bound::template at<0>>() == output_before(table, "layer1.0.conv1"));
  CHECK(output_of<typename bound::template at<1>>() == output_before(table, "layer2.0.conv1"));
  CHECK(output_of<typename bound::template at<2>>() == output_before(table, "layer3.0.conv1"));
  CHECK(output_of<typename bound::template at<3>>() == output_before(table, "layer4.0.conv1"));
  CHECK(output_of<typename bound::template at<4>>() == output_before(table, "avgpool"));
  CHECK(output_of<bound>() == output_before(table, ""));
}

const golden::built here("layer_table");

}  // namespace

TEST_CASE("the parameters and stages of ResNet-18 and ResNet-50 are those of their tables") {
  if (worlds::size() > 1) return;
  for (golden::folder const& from : golden::folders())
    for (golden::test_case const& c : from.cases) {
      if (c.name == "facts_resnet18") compare<model::resnet18<1000>>(from, c);
      if (c.name == "facts_resnet50") compare<model::resnet50<1000>>(from, c);
    }
}
