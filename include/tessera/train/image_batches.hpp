#pragma once

#include <tessera/backend/transfer.hpp>
#include <tessera/data/batch.hpp>
#include <tessera/data/sampler.hpp>
#include <tessera/train/batches.hpp>

namespace tessera {

/// Images in global batches, each rank reading its own block of them. The targets are their classes.
struct image_batches {
  image_dataset const& data;
  index_t batch = 256;
  float mean = 0;
  float deviation = 1;
  sampler_options sampling{};

  index_t rows() const { return data.size(); }

  template <class Network>
  loaded_batch<typename Network::input_type> load(Network& model, std::span<index_t const> chosen) const {
    using input_type = typename Network::input_type;
    using mesh = typename input_type::mesh;
    auto extents = data.extents;
    extents[0] = static_cast<index_t>(chosen.size());
    const box<4> mine = local_box<mesh>(input_type::placements, extents, model.where().coordinates());
    auto& kernels = model.where().kernels();
    tensor<typename input_type::value_type, 4, host_memory, input_type::context_type::backend::order> local;
    std::vector<std::int64_t> labels;
    load_batch(data, chosen, mine, mean, deviation, local, labels);
    const interval out = output_rows(model, extents[0]);
    if (!(out == mine[0])) {
      labels.clear();
      for (index_t i = out.begin; i < out.end(); ++i)
        labels.push_back(data.labels[static_cast<std::size_t>(chosen[static_cast<std::size_t>(i)])]);
    }
    return {input_type(model.where(), extents, from_host(kernels, std::move(local))), std::move(labels)};
  }
};

}  // namespace tessera
