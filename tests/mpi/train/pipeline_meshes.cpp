#include "pipeline_case.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/dropout.hpp>
#include <tessera/layer/linear.hpp>

// Pipelines whose stages are split by batch and by features, against the serial run.

namespace {

using namespace pipeline_case;

using dropped = dropout<keep_of<std::ratio<7, 8>>>;

// The value is cut by features where the stages part, its gradient too.
template <class, class Tp>
using sharded_cut = chain<linear<12, 20, split_output<Tp>>, gelu, dropped, stage<1>, linear<20, 9, split_input<Tp>>,
                          gelu, linear<9, 7, split_output<Tp>>>;
// A partial sum parts the stages here, and its gradient is whole.
template <class, class Tp>
using partial_cut = chain<linear<12, 20, split_output<Tp>>, gelu, linear<20, 9, split_input<Tp>>, stage<1>, gelu,
                          linear<9, 7, split_output<Tp>>>;
// The gradient is a partial sum here.
template <class, class Tp>
using partial_gradient = chain<linear<12, 20>, gelu, stage<1>, linear<20, 7, split_output<Tp>>>;

template <class Schedule, template <class, class> class Model, int Pp, int Dp, int Tp>
void compare_on(std::vector<index_t> const& parts) {
  compare<Model, Schedule, Pp, Dp, Tp>(shape<2>{{0, 12}}, 7, parts, {.clip_norm = 0.5});
}

}  // namespace

TEST_CASE("stages that are split by batch or by features train like the serial run") {
  const std::vector<index_t> parts{4, 3, 5};
  compare_on<one_forward_one_backward, sharded_cut, 2, 2, 1>(parts);
  compare_on<one_forward_one_backward, sharded_cut, 2, 1, 2>(parts);
  compare_on<one_forward_one_backward, partial_cut, 2, 1, 2>(parts);
  compare_on<one_forward_one_backward, partial_gradient, 2, 1, 2>(parts);
}

TEST_CASE("stages that are split both ways train like the serial run") {
  compare_on<one_forward_one_backward, sharded_cut, 2, 2, 2>({4, 3, 5});
  compare_on<gpipe, sharded_cut, 2, 2, 2>({4, 3, 5});
}
