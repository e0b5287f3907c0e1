#include "listed_calls.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/positions.hpp>

namespace {

using namespace against_serial;

// 5 positions of 7, cut unevenly.
template <class A, class B>
using by_sequence = parallel<chain<cut_along<1, B>, linear<4, 6>, learned_positions<7, 6>, linear<6, 3>>,
                             input<dynamic, 5, 4>, data_parallel<A>>;
template <class A, class B>
using by_features =
    parallel<chain<linear<4, 6, split_output<B>>, learned_positions<7, 6>, linear<6, 3, split_input<B>>>,
             input<dynamic, 5, 4>, data_parallel<A>>;

}  // namespace

TEST_CASE("learned positions give the serial outputs and gradients under every split") {
  on_meshes<by_sequence>(shape<3>{3, 5, 4});
  on_meshes<by_features>(shape<3>{3, 5, 4});
  check_all_calls<by_sequence>(shape<3>{3, 5, 4});
  check_all_calls<by_features>(shape<3>{3, 5, 4});
}

TEST_CASE("row s of the table is added to position s, and learns what all sequences say") {
  if (worlds::size() != 1) return;
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  auto net = alone.make<parallel<learned_positions<4, 2>, input<dynamic, dynamic, 2>>>(seed{5});
  const auto table = net.parameters()[0].value;
  const auto x = distribute<replicated>(alone, worlds::values<float>(shape<3>{2, 3, 2}, 1));
  const auto y = net.forward(x);
  net.backward(x);
  for (index_t s = 0; s < 3; ++s)
    for (index_t f = 0; f < 2; ++f) {
      for (index_t n = 0; n < 2; ++n) CHECK(y.read()(n, s, f) == x.read()(n, s, f) + table.data[2 * s + f]);
      CHECK(net.parameters()[0].gradient.data[2 * s + f] == doctest::Approx(x.read()(0, s, f) + x.read()(1, s, f)));
    }
  CHECK(net.parameters()[0].gradient.data[6] == 0);
  CHECK(net.parameters()[0].gradient.data[7] == 0);
  const auto longer = distribute<replicated>(alone, tensor<float, 3>({1, 5, 2}, 0.0f));
  CHECK_THROWS_WITH_AS(net.forward(longer), doctest::Contains("at most the 4 rows"), error);
}
