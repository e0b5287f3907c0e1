#pragma once

#include <tessera/model/resnet.hpp>

#include <string>
#include <type_traits>
#include <vector>

namespace tessera::model {

/// The names that torchvision gives the parameters and running statistics of a `resnet`, in the order in which
/// `network::parameters()` lists them: conv1.weight, bn1.weight, ..., layer1.0.conv1.weight, ..., fc.bias. `Model` is
/// the model without its policies, as in `torchvision_names<resnet50<1000>>()`.
///
/// torchvision also stores `num_batches_tracked` after the statistics of each batch norm, which has no counterpart
/// here.
template <class Model>
std::vector<std::string> torchvision_names() {
  std::vector<std::string> names;
  const auto unit = [&](std::string const& convolution, std::string const& norm) {
    names.push_back(convolution + ".weight");
    for (char const* part : {".weight", ".bias", ".running_mean", ".running_var"}) names.push_back(norm + part);
  };
  constexpr bool basic_blocks = std::is_same_v<typename Model::kind, basic>;
  unit("conv1", "bn1");
  for (int s = 0; s < 4; ++s)
    for (int b = 0; b < Model::blocks[s]; ++b) {
      const std::string block = "layer" + std::to_string(s + 1) + "." + std::to_string(b) + ".";
      for (int c = 1; c <= (basic_blocks ? 2 : 3); ++c)
        unit(block + "conv" + std::to_string(c), block + "bn" + std::to_string(c));
      // The first stage of basic blocks keeps size and channels.
      if (b == 0 && !(basic_blocks && s == 0)) unit(block + "downsample.0", block + "downsample.1");
    }
  names.push_back("fc.weight");
  names.push_back("fc.bias");
  return names;
}

}  // namespace tessera::model
