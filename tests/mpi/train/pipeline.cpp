#include "pipeline_case.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/dropout.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>

// Pipelines of one rank a stage against the serial run.

namespace {

using namespace pipeline_case;

using dropped = dropout<keep_of<std::ratio<7, 8>>>;

template <class, class>
using mlp = chain<linear<12, 20>, gelu, layer_norm<20>, dropped, linear<20, 9>, linear<9, 7>>;

template <class Schedule, int Pp>
void compare_on(std::vector<index_t> const& parts, options const& choice = {}) {
  compare<mlp, Schedule, Pp, 1, 1>(shape<2>{{0, 12}}, 7, parts, choice);
}

}  // namespace

TEST_CASE("GPipe gives the losses and updates of the serial run") {
  compare_on<gpipe, 2>({4});
  compare_on<gpipe, 2>({3, 4, 2, 5, 1});
}

TEST_CASE("one forward, one backward gives the losses and updates of the serial run") {
  for (auto const& parts : std::vector<std::vector<index_t>>{{4}, {4, 4}, {3, 4, 2, 5, 1, 2, 2}}) {
    compare_on<one_forward_one_backward, 1>(parts);
    compare_on<one_forward_one_backward, 2>(parts, {.clip_norm = 0.5});
    compare_on<one_forward_one_backward, 4>(parts, {.clip_norm = 0.5});
  }
}
