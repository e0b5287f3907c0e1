#pragma once

#include "network_case.hpp"
#include "policies.hpp"

#include <tessera/train/trainer.hpp>

/// The small reference ResNet under policies.
namespace policies {

/// With channels cut where there is an axis.
template <class... Tp>
using small_resnet = model::resnet<model::small_image_stem<1, 8, Tp...>, model::basic, 2, 2, 2, 2, 8, 10, Tp...>;
using images = input<dynamic, 1, dynamic, dynamic>;

/// Trains the network of the case under policies and compares losses, parameters and statistics. The batch comes whole:
/// batch norm takes its statistics.
template <class Mesh, class Model, class... Policies>
void check_resnet(char const* name) {
  if (worlds::size() != Mesh::devices) return;
  const auto names = model::torchvision_names<small_resnet<>>();
  network_case::for_cases("resnet18_small", [&](golden::test_case const& c, nlohmann::json const& expected) {
    golden::trial t(c, {"float", Mesh::devices, name});
    whole_model<parallel<small_resnet<>, images>> whole;
    network_case::start<float>(whole.team, whole.net, names, expected);
    whole.save();
    const std::vector<std::int64_t> labels(t["target"].values.begin(), t["target"].values.end());
    const auto losses = train<parallel<Model, images, Policies...>, Mesh, 4>(
        whole, t["x"], 1, static_cast<index_t>(c.given.number("steps")), cross_entropy{},
        network_case::optimizer_of(c.given), {}, [&](auto& net, interval part) {
          const interval mine = output_rows(net, part.size);
          return worlds::rows_of(labels, {part.begin + mine.begin, mine.size});
        });
    t.expect("losses", t["losses"].extents, losses);
    whole.load();
    network_case::compare_final<float>(t, whole.net, names, expected, c.stats_rtol);
  });
}

}  // namespace policies
