#include "pipeline_case.hpp"

#include <tessera/layer/dropout.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

// Pipelines whose ranks hold two stages or three each, against the serial run.

namespace {

using namespace pipeline_case;

using dropped = dropout<keep_of<std::ratio<7, 8>>>;

template <class, class>
using mlp = chain<linear<12, 9>, relu, dropped, linear<9, 9>, relu, linear<9, 9>, relu, linear<9, 7>>;

}  // namespace

TEST_CASE("the interleaved schedule gives the losses and updates of the serial run") {
  // As many parts as devices divide, and other numbers.
  for (auto const& parts : std::vector<std::vector<index_t>>{{4}, {4, 3, 4, 1}, {3, 4, 2, 5, 1}}) {
    compare<mlp, interleaved<3>, 1, 1, 1>(shape<2>{{0, 12}}, 7, parts);
    compare<mlp, interleaved<2>, 2, 1, 1>(shape<2>{{0, 12}}, 7, parts);
    compare<mlp, interleaved<2>, 4, 1, 1>(shape<2>{{0, 12}}, 7, parts);
  }
}
