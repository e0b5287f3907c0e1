#include "support/worlds.hpp"

#include <tessera/redistribute/call.hpp>
#include <tessera/redistribute/to.hpp>

#include <utility>

// Every change between two layouts gives the bits that cutting the whole tensor by the target layout gives.

namespace {

using namespace tessera;
using tessera::index_t;

template <int I, int Size>
struct numbered : axis<Size> {};

/// All layouts of a tensor of `rank` dimensions: each axis replicates, is a partial sum, or cuts a dimension, and axes
/// that cut the same dimension do so in every order.
template <int Axes>
std::vector<placements<Axes>> all_layouts(int rank) {
  std::vector<placements<Axes>> all;
  placements<Axes> value;
  const auto orders = [&](auto&& self, int a) -> void {
    if (a == Axes) {
      for (int i = 0; i < Axes; ++i)
        if (value[i].is_shard() && value.axis_cutting(value[i].dim, value[i].order) != i) return;
      for (int d = 0; d < rank; ++d)
        for (int order = 0; order < value.cuts(d); ++order)
          if (value.axis_cutting(d, order) < 0) return;
      all.push_back(value);
      return;
    }
    value[a] = replicated_placement();
    self(self, a + 1);
    value[a] = partial_placement();
    self(self, a + 1);
    for (int d = 0; d < rank; ++d)
      for (int order = 0; order < Axes; ++order) {
        value[a] = shard_placement(d, order);
        self(self, a + 1);
      }
  };
  orders(orders, 0);
  return all;
}

/// What the device at `at` holds of a whole tensor in a layout. Partial values are made of unequal parts that add up
/// exactly: the coordinate along the axis, and what is missing on the first rank.
template <class Mesh, class T, int Rank>
tensor<T, Rank> held(tensor<T, Rank> const& whole, placements<Mesh::axes> const& layout,
                     decltype(Mesh::sizes) const& at) {
  const auto part = local_box<Mesh>(layout, whole.extents(), at);
  tensor<T, Rank> out(part.extents());
  copy_box<T>(whole.read(), part, out.view(), {});
  const axis_set partial = layout.partial_axes();
  const int parts = Mesh::group_size(partial);
  const int mine = Mesh::group_rank(partial, at);
  if (parts == 1) return out;
  T others{};
  for (int p = 1; p < parts; ++p) others += static_cast<T>(p);
  for (T& v : out.view()) v = mine == 0 ? v - others : static_cast<T>(mine);
  return out;
}

template <class Mesh, class T, int Rank>
void check_all(shape<Rank> const& extents) {
  if (worlds::size() != Mesh::devices) return;
  CAPTURE(to_string(extents));
  worlds::parallel_team<Mesh> team{mpi_comm{}};
  tensor<T, Rank> whole(extents);
  for (index_t i = 0; i < whole.size(); ++i) whole.data()[i] = static_cast<T>(i + 1);
  const auto at = team.coordinates();
  const auto layouts = all_layouts<Mesh::axes>(Rank);
  std::int64_t wrong = 0;
  std::int64_t changes = 0;
  for (auto const& from : layouts)
    for (auto const& to : layouts) {
      if (!can_reach(from, to)) continue;
      ++changes;
      const auto route = find_route(from, to);
      auto local = held<Mesh>(whole, from, at);
      for (auto const& s : route) local = detail::execute_step<T>(team, s, extents, local);
      const auto wanted = held<Mesh>(whole, to, at);
      bool good = local.extents() == wanted.extents();
      if (good && to.partial_axes() == 0)
        good = std::equal(wanted.read().begin(), wanted.read().end(), local.read().begin());
      if (good && to.partial_axes() != 0) {
        // The parts may have moved; their sum is what counts.
        auto sum = local.clone();
        team.group(to.partial_axes()).all_reduce(sum.data(), sum.size(), reduction::sum);
        auto total = wanted.clone();
        team.group(to.partial_axes()).all_reduce(total.data(), total.size(), reduction::sum);
        good = std::equal(total.read().begin(), total.read().end(), sum.read().begin());
      }
      wrong += !good;
    }
  CHECK(changes > static_cast<std::int64_t>(layouts.size()));
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("all changes of layout on one axis are exact", T, float, double, std::int32_t) {
  check_all<mesh<numbered<0, 2>>, T>(shape<2>{{6, 4}});
  check_all<mesh<numbered<0, 2>>, T>(shape<4>{{3, 5, 2, 1}});
  check_all<mesh<numbered<0, 4>>, T>(shape<2>{{5, 3}});
  check_all<mesh<numbered<0, 4>>, T>(shape<3>{{4, 0, 2}});
  check_all<mesh<numbered<0, 8>>, T>(shape<1>{{11}});
}

TEST_CASE_TEMPLATE("all changes of layout on two axes are exact", T, float, std::int32_t) {
  using square = mesh<numbered<0, 2>, numbered<1, 2>>;
  check_all<square, T>(shape<2>{{8, 4}});
  check_all<square, T>(shape<2>{{5, 3}});
  check_all<square, T>(shape<3>{{3, 1, 5}});
  check_all<square, T>(shape<4>{{3, 4, 2, 5}});
  check_all<mesh<numbered<0, 3>, numbered<1, 2>>, T>(shape<2>{{7, 5}});
  check_all<mesh<numbered<0, 2>, numbered<1, 4>>, T>(shape<2>{{7, 9}});
}

TEST_CASE("all changes of layout on three axes are exact") {
  check_all<mesh<numbered<0, 2>, numbered<1, 2>, numbered<2, 2>>, double>(shape<2>{{9, 5}});
}

TEST_CASE("C08: an exchange in which some ranks send nothing completes") {
  check_all<mesh<numbered<0, 4>>, float>(shape<2>{{1, 3}});
  check_all<mesh<numbered<0, 4>>, float>(shape<2>{{0, 0}});
}
