#include "pipeline_case.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>

// Stages whose ranks own slices of their parameters, against the serial run.

namespace {

using namespace pipeline_case;

template <class, class Tp>
using mlp = chain<linear<12, 20, split_output<Tp>>, gelu, linear<20, 15, split_input<Tp>>, layer_norm<15>,
                  linear<15, 9>, linear<9, 7>>;

}  // namespace

TEST_CASE("pipelines whose ranks own slices give the losses and updates of the serial run") {
  const shape<2> extents{{0, 12}};
  const std::vector<index_t> parts{3, 4, 2, 5};
  compare<mlp, one_forward_one_backward, 2, 2, 1, 1>(extents, 7, parts, {.clip_norm = 0.5});
  compare<mlp, one_forward_one_backward, 2, 2, 1, 2>(extents, 7, parts, {.clip_norm = 0.5});
  compare<mlp, one_forward_one_backward, 2, 2, 1, 3>(extents, 7, parts, {.clip_norm = 0.5});
  compare<mlp, gpipe, 2, 2, 2, 2>(extents, 7, parts);
  compare<mlp, interleaved<2>, 2, 2, 2, 3>(extents, 7, parts);
}
