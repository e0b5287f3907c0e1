#include "listed_calls.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>

namespace {

using namespace against_serial;

// 3 heads and 7 positions over 2 or 4 ranks: uneven blocks, and ranks without a head.
template <class A, class B>
using heads = parallel<chain<linear<6, 12>, multi_head_attention<12, 3, causal, split_heads<B>>, linear<12, 4>>,
                       input<dynamic, 7, 6>, data_parallel<A>>;
// Positions are cut between the layers, heads inside.
template <class A, class B>
using positions_between =
    parallel<chain<linear<6, 12>, layout<shard<0, A>, shard<1, B>>, linear<12, 12>,
                   multi_head_attention<12, 4, split_heads<B>>, layout<shard<0, A>, shard<1, B>>, linear<12, 4>>,
             input<dynamic, 7, 6>, data_parallel<A>>;

}  // namespace

TEST_CASE("attention of split heads equals the serial one") {
  on_meshes<heads>(shape<3>{3, 7, 6});
  check_all_calls<heads>(shape<3>{3, 7, 6});
}

TEST_CASE("attention of heads between positions equals the serial one") {
  on_meshes<positions_between>(shape<3>{3, 7, 6});
  check_all_calls<positions_between>(shape<3>{3, 7, 6});
}

TEST_CASE("weights of attention start as the matrices of the usual form would") {
  worlds::serial_team<mesh<>> team{serial_comm{}};
  auto net = team.make<multi_head_attention<12, 3>, double>(seed{7});
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    CAPTURE(name);
    double largest = 0;
    for (const double one : value.read()) largest = std::max(largest, std::abs(one));
    // Xavier: sqrt(6 / (inputs + outputs)).
    const double bound = name == "in_proj_weight" ? std::sqrt(6.0 / 48) : std::sqrt(6.0 / 24);
    if (name.ends_with("weight")) {
      CHECK(largest <= bound);
      CHECK(largest > 0.9 * bound);
    } else {
      CHECK(largest == 0);
    }
  });
}
