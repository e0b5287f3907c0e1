#include "support/held.hpp"
#include "support/layouts.hpp"
#include "support/worlds.hpp"

#include <tessera/layer/resolve.hpp>
#include <tessera/redistribute/execute.hpp>
#include <tessera/redistribute/route.hpp>

// The gradient of a change of layout: the same values, brought to the layout that the rule for gradients names.

namespace {

using namespace tessera;
using tessera::index_t;
using worlds::held;
using worlds::mesh_of;
using worlds::reduced;

/// The layouts in which the gradient of a value of layout `value` may arrive: cut alike, equal on the ranks along an
/// axis that replicates or is partial, or, where it replicates, a part on each.
template <int Axes>
std::vector<placements<Axes>> arriving_layouts(placements<Axes> const& value) {
  std::vector<placements<Axes>> all;
  for (unsigned parts = 0; parts < 1u << Axes; ++parts) {
    placements<Axes> gradient = dual(value);
    bool possible = true;
    for (int a = 0; a < Axes; ++a) {
      if ((parts >> a & 1) == 0) continue;
      possible = possible && value[a].is_replicated();
      gradient[a] = partial_placement();
    }
    if (possible) all.push_back(gradient);
  }
  return all;
}

/// What the design says, axis by axis.
template <int Axes>
bool follows_rule(placements<Axes> const& value, placements<Axes> const& arriving, placements<Axes> const& gradient) {
  for (int a = 0; a < Axes; ++a) {
    if (value[a].is_shard() && !(gradient[a] == value[a])) return false;
    if (value[a].is_partial() && !gradient[a].is_replicated()) return false;
    if (value[a].is_replicated() &&
        !(arriving[a].is_partial() ? gradient[a].is_partial() : gradient[a].is_replicated()))
      return false;
  }
  return true;
}

template <class Mesh, class T, int Rank>
void check_gradients(shape<Rank> const& extents) {
  if (worlds::size() != Mesh::devices) return;
  CAPTURE(to_string(extents));
  worlds::parallel_team<Mesh> team{mpi_comm{}};
  tensor<T, Rank> whole(extents);
  for (index_t i = 0; i < whole.size(); ++i) whole.data()[i] = static_cast<T>(i + 20);
  const auto at = team.coordinates();
  const auto layouts = layouts::all<Mesh::axes>(Rank);
  int wrong_layout = 0;
  int wrong_values = 0;
  int gathers = 0;
  for (auto const& from : layouts)
    for (auto const& to : layouts) {
      if (!can_reach(from, to)) continue;
      for (auto const& arriving : arriving_layouts(to)) {
        const auto gradient = gradient_for(from, arriving);
        wrong_layout += !follows_rule(from, arriving, gradient);
        const auto route = find_route(Mesh::value, arriving, gradient, Rank);
        // An all-gather's gradient: a reduce-scatter where each rank has a part, a slice where all have the same.
        const auto forward = one_step(from, to);
        if (forward.kind == step_kind::all_gather) {
          ++gathers;
          unsigned parts = 0;
          for (int a = 0; a < Mesh::axes; ++a)
            if ((forward.group >> a & 1) != 0 && arriving[a].is_partial()) parts |= 1u << a;
          const step_kind wanted = parts == 0 ? step_kind::slice : step_kind::reduce_scatter;
          wrong_layout += route.count != 1 || route.steps[0].kind != wanted || route.steps[0].group != parts;
        }
        auto local = held<Mesh>(whole, arriving, at);
        for (auto const& s : route) local = detail::execute_step<T>(team, s, extents, local);
        const auto found = reduced<Mesh>(team, gradient, local);
        const auto wanted = reduced<Mesh>(team, gradient, held<Mesh>(whole, gradient, at));
        wrong_values += !(found.extents() == wanted.extents() &&
                          std::equal(wanted.read().begin(), wanted.read().end(), found.read().begin()));
      }
    }
  CHECK(gathers > 0);
  CHECK(wrong_layout == 0);
  CHECK(wrong_values == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("the gradient of every change of layout has the layout and the values of the rule", T, float, double,
                   std::int32_t) {
  check_gradients<mesh_of<2>, T>(shape<2>{{6, 5}});
  check_gradients<mesh_of<4>, T>(shape<3>{{4, 0, 3}});
  check_gradients<mesh_of<8>, T>(shape<2>{{11, 8}});
  check_gradients<mesh_of<2, 2>, T>(shape<2>{{4, 8}});
  check_gradients<mesh_of<2, 2>, T>(shape<3>{{5, 1, 3}});
  check_gradients<mesh_of<3, 2>, T>(shape<2>{{7, 5}});
  check_gradients<mesh_of<2, 4>, T>(shape<3>{{8, 3, 5}});
  check_gradients<mesh_of<4, 2>, T>(shape<4>{{8, 4, 2, 3}});
  check_gradients<mesh_of<2, 2, 2>, T>(shape<2>{{9, 5}});
}
