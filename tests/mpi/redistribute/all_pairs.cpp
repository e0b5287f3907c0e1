#include "support/held.hpp"
#include "support/layouts.hpp"
#include "support/worlds.hpp"

#include <tessera/redistribute/call.hpp>
#include <tessera/redistribute/to.hpp>

#include <utility>

// Every change between two layouts gives the bits that cutting the whole tensor by the target layout gives.

namespace {

using namespace tessera;
using tessera::index_t;
using worlds::held;
using worlds::mesh_of;
using worlds::reduced;

/// Checks every `stride`-th change between two layouts.
template <class Mesh, class T, int Rank>
void check_all(shape<Rank> const& extents, std::vector<reduction> const& reductions = {reduction::sum},
               std::size_t stride = 1, mpi_options const& options = {}) {
  if (worlds::size() != Mesh::devices) return;
  CAPTURE(to_string(extents));
  worlds::parallel_team<Mesh> team{mpi_comm{MPI_COMM_WORLD, options}};
  tensor<T, Rank> whole(extents);
  for (index_t i = 0; i < whole.size(); ++i) whole.data()[i] = static_cast<T>(i + 20);
  const auto at = team.coordinates();
  const auto layouts = layouts::all<Mesh::axes>(Rank, reductions);
  std::int64_t wrong = 0;
  std::int64_t changes = 0;
  for (std::size_t pair = 0; pair < layouts.size() * layouts.size(); pair += stride) {
    auto const& from = layouts[pair / layouts.size()];
    auto const& to = layouts[pair % layouts.size()];
    if (!can_reach(from, to)) continue;
    ++changes;
    auto local = held<Mesh>(whole, from, at);
    for (auto const& s : find_route(Mesh::value, from, to, Rank))
      local = detail::execute_step<T>(team, s, extents, local);
    const auto wanted = reduced<Mesh>(team, to, held<Mesh>(whole, to, at));
    const auto found = reduced<Mesh>(team, to, local);
    wrong += !(found.extents() == wanted.extents() &&
               std::equal(wanted.read().begin(), wanted.read().end(), found.read().begin()));
  }
  CHECK(changes > 0);
  CHECK(wrong == 0);
}

const std::vector<reduction> both{reduction::sum, reduction::maximum};

}  // namespace

TEST_CASE_TEMPLATE("all changes of layout on one axis are exact", T, float, double, std::int32_t) {
  check_all<mesh_of<2>, T>(shape<2>{{6, 4}}, both);
  check_all<mesh_of<2>, T>(shape<4>{{3, 5, 2, 1}}, both);
  check_all<mesh_of<4>, T>(shape<2>{{5, 3}}, both);
  check_all<mesh_of<4>, T>(shape<3>{{4, 0, 2}}, both);
  check_all<mesh_of<8>, T>(shape<2>{{11, 8}});
  check_all<mesh_of<8>, T>(shape<3>{{3, 16, 5}});
  check_all<mesh_of<8>, T>(shape<4>{{2, 8, 3, 9}});
}

TEST_CASE_TEMPLATE("all changes of layout on two axes are exact", T, float, double, std::int32_t) {
  check_all<mesh_of<2, 2>, T>(shape<2>{{5, 3}}, both);
  check_all<mesh_of<2, 2>, T>(shape<3>{{3, 1, 5}});
  check_all<mesh_of<2, 2>, T>(shape<4>{{3, 4, 2, 5}});
  check_all<mesh_of<3, 2>, T>(shape<2>{{7, 5}});
  check_all<mesh_of<3, 2>, T>(shape<3>{{6, 12, 6}});
  check_all<mesh_of<3, 2>, T>(shape<4>{{2, 7, 3, 6}});
  check_all<mesh_of<2, 4>, T>(shape<2>{{7, 9}});
  check_all<mesh_of<2, 4>, T>(shape<3>{{8, 3, 8}});
  check_all<mesh_of<2, 4>, T>(shape<4>{{3, 8, 1, 5}});
  check_all<mesh_of<4, 2>, T>(shape<2>{{8, 16}});
  check_all<mesh_of<4, 2>, T>(shape<3>{{5, 2, 7}});
  check_all<mesh_of<4, 2>, T>(shape<4>{{8, 4, 2, 3}});
}

TEST_CASE_TEMPLATE("all changes of layout on three axes are exact", T, float, double, std::int32_t) {
  using cube = mesh_of<2, 2, 2>;
  check_all<cube, T>(shape<2>{{9, 5}});
  // All of them with float; how elements move does not depend on what they are.
  constexpr std::size_t stride = std::is_same_v<T, float> ? 1 : 7;
  check_all<cube, T>(shape<3>{{4, 3, 8}}, {reduction::sum}, stride);
  check_all<cube, T>(shape<4>{{5, 2, 3, 4}}, {}, stride);
}

TEST_CASE("changes of layout of scalars, long shapes and four axes are exact") {
  check_all<mesh_of<2, 2>, float>(shape<0>{}, both);
  check_all<mesh_of<2, 2>, float>(shape<1>{{1}}, both);
  check_all<mesh_of<2, 2>, std::int32_t>(shape<5>{{2, 1, 3, 2, 2}}, {reduction::sum}, 5);
  check_all<mesh_of<2, 2>, double>(shape<6>{{2, 1, 3, 2, 1, 2}}, {reduction::sum}, 7);
  check_all<mesh_of<2, 1, 2, 2>, float>(shape<2>{{5, 6}}, {reduction::sum}, 101);
  check_all<mesh_of<2, 2, 1, 2>, double>(shape<3>{{3, 2, 4}}, {}, 1009);
}

TEST_CASE("messages of a few elements at a time bring the same") {
  const mpi_options few{3, 64};
  check_all<mesh_of<2>, float>(shape<2>{{6, 4}}, both, 1, few);
  check_all<mesh_of<2, 2>, double>(shape<2>{{5, 3}}, both, 1, few);
  check_all<mesh_of<2, 4>, std::int32_t>(shape<3>{{5, 3, 2}}, {reduction::sum}, 3, few);
}

TEST_CASE("C08: an exchange in which some ranks send nothing completes") {
  check_all<mesh_of<4>, float>(shape<2>{{1, 3}});
  check_all<mesh_of<4>, float>(shape<2>{{0, 0}});
}
