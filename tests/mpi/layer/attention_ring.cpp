#include "listed_calls.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>

namespace {

using namespace against_serial;

template <class A, class B>
using sequences = parallel<chain<linear<6, 12>, multi_head_attention<12, 3, split_sequence<B>>,
                                 multi_head_attention<12, 2, no_bias, causal, split_sequence<B>>, linear<12, 4>>,
                           input<dynamic, 7, 6>, data_parallel<A>>;
// Heads by one axis and positions by the other, and more ranks than positions.
template <class A, class B>
using heads_and_sequences = parallel<
    chain<linear<6, 12>, multi_head_attention<12, 4, causal, split_heads<A>, split_sequence<B>>, linear<12, 4>>,
    input<dynamic, 3, 6>>;

}  // namespace

TEST_CASE("attention of split sequences equals the serial one") {
  on_meshes<sequences>(shape<3>{3, 7, 6});
  check_all_calls<sequences>(shape<3>{3, 7, 6});
}

TEST_CASE("attention of split heads and sequences equals the serial one") {
  on_mesh<heads_and_sequences, 2, 2>(shape<3>{2, 3, 6});
  on_mesh<heads_and_sequences, 1, 4>(shape<3>{2, 3, 6});
  check_calls<heads_and_sequences, 2, 2>(shape<3>{2, 3, 6}, [](auto const& s) { return worlds::values<double>(s, 5); });
}
