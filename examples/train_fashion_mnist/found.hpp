#pragma once

#include "on_mesh.hpp"

#include <tessera/plan/auto_parallel.hpp>
#include <tessera/plan/collectives.hpp>
#include <tessera/plan/machines/shared_memory.hpp>

// [found]
// The splits of the serial network that take a step of 256 images the least time on the ranks of a host.
template <int Ranks>
using search = ts::auto_parallel_search<ts::model::resnet_small<10>, ts::input<256, 1, 28, 28>,
                                        ts::mesh<dp<Ranks>, tp<1>>, ts::machine::shared_memory>;
// [found]

// [any_batch]
// A plan that was found for one batch, for batches of any size.
template <class Found>
struct for_any_batch;
template <class Model, class Input, class Layout>
struct for_any_batch<ts::parallel<Model, Input, Layout>> {
  using type = ts::parallel<Model, ts::input<ts::dynamic, 1, 28, 28>, Layout>;
};
// [any_batch]

/// Trains the plan that was found. Where it calls what data parallelism calls it is data parallelism, whose program is
/// there already.
template <int Ranks>
void train_as_found(settings const& s) {
  using mesh = ts::mesh<dp<Ranks>, tp<1>>;
  using found = typename for_any_batch<typename search<Ranks>::type>::type;
  using copies = resnet<dp<Ranks>, tp<1>>;
  using model = std::conditional_t<hash_of(ts::collectives<found, mesh>) == hash_of(ts::collectives<copies, mesh>),
                                   copies, found>;
  train_model<model, mesh>(s);
}
