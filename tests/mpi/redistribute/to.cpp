#include "support/worlds.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

struct x : axis<4> {};
using line = mesh<x>;

/// Messages cost, bytes hardly.
struct far_apart {
  template <class Axis>
  static constexpr link_cost along{1e-3, 1e-9};
};
/// The other way round.
struct narrow {
  template <class Axis>
  static constexpr link_cost along{1e-9, 1e-3};
};

tensor<float, 2> numbered(shape<2> extents) {
  tensor<float, 2> t(extents);
  for (index_t i = 0; i < t.size(); ++i) t.data()[i] = static_cast<float>(i);
  return t;
}

}  // namespace

TEST_CASE("the machine decides which steps lead to a layout, and all of them lead there") {
  if (worlds::size() != 4) return;
  recording<mpi_comm> all{mpi_comm{}};
  team<line, recording<mpi_comm>> where{all};
  using rows = row<x>;
  using columns = column<x>;
  const auto kinds = [&](auto change) {
    all.clear();
    change();
    std::vector<collective> made;
    for (recorded_call const& call : all.calls()) made.push_back(call.kind);
    return made;
  };
  // Extents that the cheapest steps were not made for arrive as well.
  for (const shape<2> extents : {shape<2>{{8, 8}}, shape<2>{{5, 3}}, shape<2>{{0, 2}}}) {
    const auto whole = numbered(extents);
    const auto from = distribute<rows>(where, whole);
    const auto wanted = distribute<columns>(where, whole);
    const auto check = [&](auto const& found) {
      CHECK(std::equal(wanted.read().begin(), wanted.read().end(), found.read().begin()));
      CHECK(found.local().extents() == wanted.local().extents());
    };
    CHECK(kinds([&] { check(from | to<columns>); }) == std::vector{collective::all_to_all});
    CHECK(kinds([&] { check(from | to<columns, narrow, shape<2>{{8, 8}}>); }) == std::vector{collective::all_to_all});
    CHECK(kinds([&] {
            check(from | to<columns, far_apart, shape<2>{{8, 8}}>);
          }) == std::vector{collective::all_gather});
  }
}
