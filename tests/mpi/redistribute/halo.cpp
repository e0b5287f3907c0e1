#include "support/random_windows.hpp"
#include "support/worlds.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/redistribute/halo.hpp>
#include <tessera/redistribute/to.hpp>

#include <array>
#include <tuple>
#include <utility>

// The halo exchange and its transpose against the whole tensor. Values are small whole numbers, so that sums are exact
// in every order.

namespace {

using namespace tessera;
using tessera::index_t;

template <int I, int Size>
struct numbered : axis<Size> {};

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Whole numbers from -8 to 8, the same on every rank.
template <class T, int Rank>
tensor<T, Rank> numbers(shape<Rank> const& extents, std::uint64_t stream) {
  tensor<T, Rank> out(extents);
  const philox draw(17, stream);
  for (index_t i = 0; i < out.size(); ++i)
    out.data()[i] = static_cast<T>(static_cast<int>(17 * draw.uniform(static_cast<std::uint64_t>(i))) - 8);
  return out;
}

template <int Rank>
using place = std::array<index_t, static_cast<std::size_t>(Rank)>;

/// Calls `use` with every place in a box.
template <int Rank, class Use>
void for_each_place(box<Rank> const& part, Use use) {
  if (part.size() == 0) return;
  place<Rank> where = detail::begins(part);
  for (;;) {
    use(std::as_const(where));
    int d = Rank - 1;
    for (; d >= 0; --d) {
      if (++where[at(d)] < part[d].end()) break;
      where[at(d)] = part[d].begin;
    }
    if (d < 0) return;
  }
}

template <class Tensor>
auto& element(Tensor& t, place<Tensor::rank> const& where) {
  return std::apply(
      [&](auto... i) -> auto& { return t(i...); }, where);
}
template <int Rank>
place<Rank> minus(place<Rank> a, box<Rank> const& origin) {
  for (int d = 0; d < Rank; ++d) a[at(d)] -= origin[d].begin;
  return a;
}

/// The windowed sum at one output, whose place is relative to the first one of the block; `before` is the padding of
/// the block that `x` is. Every position of the window has a weight of its own.
template <class T, int Rank, std::size_t Windows>
T windowed(tensor<T, Rank> const& x, place<Rank> const& output, std::array<int, Windows> const& dims,
           std::array<halo_window, Windows> const& windows, std::array<index_t, Windows> const& before) {
  box<static_cast<int>(Windows)> kernel;
  for (std::size_t w = 0; w < Windows; ++w) kernel[static_cast<int>(w)] = {0, windows[w].kernel};
  T sum{};
  for_each_place(kernel, [&](auto const& k) {
    place<Rank> from = output;
    index_t weight = 1;
    for (std::size_t w = 0; w < Windows; ++w) {
      index_t& row = from[at(dims[w])];
      row = row * windows[w].stride - before[w] + k[w] * windows[w].dilation;
      if (row < 0 || row >= x.extent(dims[w])) return;
      weight = 3 * weight + k[w];
    }
    sum = static_cast<T>(sum + static_cast<T>(weight) * element(x, from));
  });
  return sum;
}

struct counts {
  halo_traffic received;
  halo_traffic sent;
  int empty = 0;  // messages of no elements, and calls of any other kind
};
template <class Team>
counts recorded(Team& team) {
  counts c;
  for (auto const& call : team.group(0).calls()) {
    halo_traffic& way = call.kind == collective::receive ? c.received : c.sent;
    way.elements += call.elements;
    ++way.messages;
    c.empty += call.elements == 0 || (call.kind != collective::receive && call.kind != collective::send);
  }
  return c;
}

/// How far a forward and a backward exchange of one geometry are from what the whole tensor gives: number of faults.
template <class Layout, class T, int... Dims, class Team, int Rank>
int faults(Team& team, shape<Rank> const& extents, std::array<halo_window, sizeof...(Dims)> const& windows) {
  using X = sharded<T, Rank, Layout, Team>;
  using plan_type = halo_plan<typename Team::mesh, Rank, Dims...>;
  constexpr std::array<int, sizeof...(Dims)> dims{Dims...};
  int wrong = 0;
  const auto whole = numbers<T>(extents, 1);
  const X x = distribute<Layout>(team, whole);
  std::array<index_t, sizeof...(Dims)> all_before{};
  for (std::size_t w = 0; w < dims.size(); ++w) all_before[w] = windows[w].padding_before;
  const auto serial = [&](place<Rank> const& output) { return windowed(whole, output, dims, windows, all_before); };

  team.group(0).clear();
  auto exchange = start_halo<Dims...>(x, windows);
  const plan_type plan = exchange.plan();

  // The interior, while messages are under way.
  std::array<index_t, sizeof...(Dims)> before{};
  for (int w = 0; w < plan_type::phases; ++w)
    before[at(w)] = plan.window(w).before(plan.interior()[plan.dim(w)], x.part()[plan.dim(w)]);
  for_each_place(plan.interior(), [&](place<Rank> const& output) {
    place<Rank> relative = minus(output, plan.interior());
    for (int d = 0; d < Rank; ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) relative[at(d)] = output[at(d)] - x.part()[d].begin;
    wrong += windowed(x.local(), relative, dims, windows, before) != serial(output);
  });

  const auto padded = exchange.finish();
  const counts forward = recorded(team);
  wrong += !(forward.received == plan.received()) + !(forward.sent == plan.sent()) + forward.empty;

  // The block is a part of the whole tensor, and the operator over it gives this rank's part of the result.
  wrong += !(padded.block.extents() == padded.where.extents());
  for_each_place(padded.where, [&](place<Rank> const& i) {
    wrong += element(padded.block, minus(i, padded.where)) != element(whole, i);
  });
  for_each_place(plan.outputs(), [&](place<Rank> const& output) {
    wrong +=
        windowed(padded.block, minus(output, plan.outputs()), dims, windows, padded.padding_before) != serial(output);
  });
  for (int w = 0; w < plan_type::phases; ++w) {
    const interval side = padded.where[plan.dim(w)];
    wrong += padded.padding_before[at(w)] < 0 || padded.padding_after[at(w)] < 0;
    wrong += padded.padding_before[at(w)] > 0 && side.begin > 0 && side.size > 0;
    wrong += padded.padding_after[at(w)] > 0 && side.end() < extents[plan.dim(w)] && side.size > 0;
  }

  // Backward: each rank has a gradient of its own, and every rank can tell all of them.
  const axis_set group = static_cast<axis_set>((0u | ... | X::placements.shard_axes(Dims)));
  const auto gradient = [&](int rank, shape<Rank> const& s) {
    return numbers<T>(s, 100 + static_cast<std::uint64_t>(rank));
  };
  auto wanted = tensor<T, Rank>(x.local().extents(), T{});
  const int members = Team::mesh::group_size(group);
  for (int m = 0; m < members; ++m) {
    const auto who = Team::mesh::group_member(group, team.coordinates(), m);
    const plan_type other(X::placements, extents, windows, who);
    const auto theirs = gradient(Team::mesh::group_rank(Team::mesh::all, who), other.needed().extents());
    for_each_place(intersect(other.needed(), x.part()), [&](place<Rank> const& i) {
      T& sum = element(wanted, minus(i, x.part()));
      sum = static_cast<T>(sum + element(theirs, minus(i, other.needed())));
    });
  }
  const auto mine = gradient(team.rank(), padded.block.extents());
  const auto kept = mine.clone();
  team.group(0).clear();
  const X dx = exchange_halo_backward<X, Dims...>(team, mine, extents, windows);
  const counts backward = recorded(team);
  wrong += !(backward.received == plan.sent()) + !(backward.sent == plan.received()) + backward.empty;
  wrong += !std::equal(wanted.read().begin(), wanted.read().end(), dx.read().begin(), dx.read().end());
  // Nothing was added to what came in.
  wrong += !std::equal(kept.read().begin(), kept.read().end(), mine.read().begin());

  // <A x, g> = <x, A' g>, over all ranks that exchange.
  std::array<double, 2> products{};
  for (index_t i = 0; i < mine.size(); ++i)
    products[0] += static_cast<double>(mine.data()[i]) * static_cast<double>(padded.block.data()[i]);
  for (index_t i = 0; i < dx.local().size(); ++i)
    products[1] += static_cast<double>(x.local().data()[i]) * static_cast<double>(dx.local().data()[i]);
  team.group(group).all_reduce(products.data(), 2, reduction::sum);
  wrong += products[0] != products[1];
  return wrong;
}

template <class Mesh>
using recorded_team = team<Mesh, recording<mpi_comm>>;

/// Random windows along `Dims` for each of the layouts.
template <class T, int Rank, int... Dims>
struct windowed_along {
  template <class Mesh, class... Layouts>
  static void check(int each, index_t widest) {
    if (worlds::size() != Mesh::devices) return;
    recorded_team<Mesh> team{recording<mpi_comm>(mpi_comm{})};
    random_windows random{15};
    int wrong = 0;
    for (int i = 0; i < each; ++i) {
      shape<Rank> extents;
      for (int d = 0; d < Rank; ++d) extents[d] = random.draw(16) == 0 ? 0 : 1 + random.draw(3);
      ((extents[Dims] = 1 + random.draw(widest)), ...);
      const std::array<halo_window, sizeof...(Dims)> windows{random.window(extents[Dims])...};
      ((wrong += faults<Layouts, T, Dims...>(team, extents, windows) != 0), ...);
    }
    CHECK(wrong == 0);
  }
};

using a2 = numbered<0, 2>;
using b2 = numbered<1, 2>;
using c2 = numbered<2, 2>;
using a3 = numbered<3, 3>;
using a4 = numbered<4, 4>;
using b4 = numbered<5, 4>;
using a8 = numbered<6, 8>;

}  // namespace

TEST_CASE_TEMPLATE("one dimension cut by one axis", T, float, double, std::int32_t) {
  windowed_along<T, 4, 2>::template check<mesh<a2>, shard<2, a2>>(200, 13);
  windowed_along<T, 3, 1>::template check<mesh<a4>, shard<1, a4>>(200, 13);
  windowed_along<T, 4, 3>::template check<mesh<a8>, shard<3, a8>>(200, 13);
}

TEST_CASE("one dimension cut by two axes in either order, beside axes that cut others or replicate") {
  windowed_along<float, 4, 2>::check<mesh<a2, b2>, shard<2, a2, b2>, shard<2, b2, a2>,
                                     layout<shard<2, b2>, shard<0, a2>>, shard<2, a2>,
                                     layout<shard<2, a2>, shard<3, b2>>, shard<0, a2>, replicated>(100, 13);
  windowed_along<float, 2, 0>::check<mesh<a2, a4>, shard<0, a2, a4>, shard<0, a4, a2>,
                                     layout<shard<0, a4>, shard<1, a2>>>(100, 13);
  windowed_along<float, 3, 1>::check<mesh<a3, b2>, shard<1, b2, a3>, layout<shard<1, a3>, shard<2, b2>>>(100, 13);
  windowed_along<float, 3, 1>::check<mesh<a2, b2, c2>, shard<1, c2, a2, b2>>(100, 13);
}

TEST_CASE_TEMPLATE("two dimensions", T, float, double, std::int32_t) {
  windowed_along<T, 4, 2, 3>::template check<mesh<a2, b2>, layout<shard<2, a2>, shard<3, b2>>>(150, 9);
}

TEST_CASE("two dimensions cut in other ways") {
  windowed_along<float, 4, 3, 2>::check<mesh<a2, b2>, layout<shard<2, a2>, shard<3, b2>>,
                                        layout<shard<2, b2>, shard<3, a2>>, shard<2, a2, b2>, shard<3, a2>,
                                        shard<1, b2>>(80, 9);
  windowed_along<float, 4, 2, 3>::check<mesh<a2, b4>, layout<shard<2, a2>, shard<3, b4>>,
                                        layout<shard<2, b4>, shard<3, a2>>, shard<3, b4, a2>>(80, 9);
  windowed_along<float, 3, 0, 2>::check<mesh<a3, b2>, layout<shard<0, a3>, shard<2, b2>>, shard<2, a3, b2>>(80, 9);
  windowed_along<float, 4, 2, 3>::check<mesh<a2, b2, c2>, layout<shard<2, c2, a2>, shard<3, b2>>,
                                        layout<shard<0, a2>, shard<2, b2>, shard<3, c2>>>(80, 9);
}

TEST_CASE("three dimensions") {
  windowed_along<float, 5, 2, 3, 4>::check<mesh<a2, b2, c2>, layout<shard<2, a2>, shard<3, b2>, shard<4, c2>>>(20, 6);
}

TEST_CASE("all kernels, strides and dilations on images of 1 to 13 rows") {
  if (worlds::size() != 4) return;
  recorded_team<mesh<a4>> team{recording<mpi_comm>(mpi_comm{})};
  random_windows random{15};
  int wrong = 0;
  for (index_t extent = 1; extent <= 13; extent += 2)
    for (index_t kernel = 1; kernel <= 7; ++kernel)
      for (index_t stride = 1; stride <= 3; ++stride)
        for (index_t dilation = 1; dilation <= 2; ++dilation) {
          const halo_window w{kernel, stride, random.draw(4), random.draw(4), dilation};
          if (w.output_extent(extent) > 0)
            wrong += faults<shard<2, a4>, float, 2>(team, shape<4>{{1, 2, extent, 2}}, {{w}}) != 0;
        }
  CHECK(wrong == 0);
}

TEST_CASE("one row a rank: rows come from several ranks away") {
  if (worlds::size() != 8) return;
  recorded_team<mesh<a8>> team{recording<mpi_comm>(mpi_comm{})};
  const halo_window seven{7, 1, 3, 3, 1};
  CHECK(faults<shard<2, a8>, float, 2>(team, shape<4>{{2, 3, 8, 2}}, {{seven}}) == 0);
  const auto x = distribute<shard<2, a8>>(team, numbers<float>(shape<4>{{2, 3, 8, 2}}, 1));
  const int r = team.rank();
  const int neighbours = std::min(r, 3) + std::min(7 - r, 3);
  CHECK(start_halo<2>(x, {{seven}}).plan().received() == halo_traffic{neighbours * 2 * 3 * 2, neighbours});
}

TEST_CASE("contributions are added in the order of ranks, after the rank's own") {
  if (worlds::size() != 4) return;
  worlds::parallel_team<mesh<a4>> team{mpi_comm{}};
  // One row a rank, and every rank reads all rows. The sum depends on its order.
  const std::array<halo_window, 1> windows{{{7, 1, 3, 3, 1}}};
  const shape<2> extents{{4, 1}};
  const std::array<float, 4> parts{1.0e8f, 1.0f, -1.0e8f, 3.0f};
  const auto me = at(team.rank());
  const tensor<float, 2> padded(extents, parts[me]);
  using X = sharded<float, 2, shard<0, a4>, decltype(team)>;
  const X dx = exchange_halo_backward<X, 0>(team, padded, extents, windows);
  float wanted = parts[me];
  for (std::size_t r = 0; r < 4; ++r)
    if (r != me) wanted += parts[r];
  CHECK(dx.local()(0, 0) == wanted);
}

TEST_CASE("a partial gradient is exchanged part by part") {
  if (worlds::size() != 4) return;
  using world = mesh<a2, b2>;
  worlds::parallel_team<world> team{mpi_comm{}};
  const std::array<halo_window, 1> windows{{{3, 1, 1, 1, 1}}};
  const shape<3> extents{{2, 5, 3}};
  using X = sharded<double, 3, shard<1, a2>, decltype(team)>;
  using P = sharded<double, 3, layout<shard<1, a2>, partial<b2>>, decltype(team)>;
  const halo_plan<world, 3, 1> plan(X::placements, extents, windows, team.coordinates());
  const auto mine = numbers<double>(plan.needed().extents(), static_cast<std::uint64_t>(team.rank()));
  const X late = exchange_halo_backward<P, 1>(team, mine, extents, windows) | to<shard<1, a2>>;
  auto sum = mine.clone();
  team.group(world::set_of<b2>).all_reduce(sum.data(), sum.size(), reduction::sum);
  const X early = exchange_halo_backward<X, 1>(team, sum, extents, windows);
  CHECK(worlds::difference(late.local(), early.local()) == 0);
}

TEST_CASE("a window that reads its own block only shares it") {
  if (worlds::size() != 2) return;
  worlds::parallel_team<mesh<a2>> team{mpi_comm{}};
  const auto x = distribute<shard<2, a2>>(team, numbers<float>(shape<4>{{1, 2, 6, 3}}, 1));
  const auto pointwise = exchange_halo<2>(x, {{{}}});
  CHECK(std::as_const(pointwise.block).data() == x.local().data());
  const auto other = exchange_halo<2>(x, {{{3, 1, 1, 1, 1}}});
  CHECK(std::as_const(other.block).data() != x.local().data());
}

TEST_CASE("the interior is computed while messages are under way") {
  if (worlds::size() != 4) return;
  using rows = a2;
  using columns = b2;
  worlds::parallel_team<mesh<rows, columns>> session{mpi_comm{}};
  const auto image = numbers<float>(shape<4>{{2, 3, 10, 9}}, 1);
  std::int64_t computed = 0;
  const auto compute = [&](box<4> const& outputs) { computed += outputs.size(); };
  // [halo]
  const auto x = distribute<layout<shard<2, rows>, shard<3, columns>>>(session, image);
  const halo_window height{.kernel = 3, .padding_before = 1, .padding_after = 1};
  const halo_window width{.kernel = 5, .stride = 2, .padding_before = 2, .padding_after = 2};
  auto exchange = start_halo<2, 3>(x, {{height, width}});
  compute(exchange.plan().interior());  // the outputs that need nothing of other ranks
  const auto padded = exchange.finish();
  // What this rank's outputs read is here, and this much zero padding is left to its kernel.
  auto [block, where, above_left, below_right] = padded;

  using gradient = std::remove_const_t<decltype(x)>;
  const auto dx = exchange_halo_backward<gradient, 2, 3>(session, block, x.extents(), {{height, width}});
  // [halo]
  CHECK(computed == exchange.plan().interior().size());
  CHECK(above_left[0] == (session.coordinates()[0] == 0 ? 1 : 0));
  CHECK(above_left[1] == (session.coordinates()[1] == 0 ? 2 : 0));
  CHECK(below_right[0] == (session.coordinates()[0] == 1 ? 1 : 0));
  CHECK(below_right[1] == (session.coordinates()[1] == 1 ? 2 : 0));
  CHECK(block.extents() == where.extents());
  // Elements that two ranks read come back twice.
  const auto whole = gather(dx);
  CHECK(whole(0, 0, 0, 0) == image(0, 0, 0, 0));
  CHECK(whole(0, 0, 4, 0) == 2 * image(0, 0, 4, 0));
  CHECK(whole(1, 2, 5, 4) == 4 * image(1, 2, 5, 4));
}

TEST_CASE("exchanges under way at the same time, in any order of progress, moved or dropped") {
  if (worlds::size() != 4) return;
  worlds::parallel_team<mesh<a2, b2>> team{mpi_comm{}};
  const shape<4> extents{{1, 2, 7, 7}};
  const auto first = numbers<float>(extents, 1);
  const auto second = numbers<float>(extents, 2);
  using grid = layout<shard<2, a2>, shard<3, b2>>;
  const std::array<halo_window, 2> windows{{{3, 1, 1, 1, 1}, {3, 1, 1, 1, 1}}};
  auto one = start_halo<2, 3>(distribute<grid>(team, first), windows, 1);
  auto two = start_halo<2, 3>(distribute<grid>(team, second), windows, 2);
  { const auto dropped = start_halo<2, 3>(distribute<grid>(team, second), windows, 3); }
  auto moved = std::move(one);
  // Ranks let them progress in different orders.
  auto& sooner = team.rank() % 2 == 0 ? moved : two;
  auto& later = team.rank() % 2 == 0 ? two : moved;
  for (bool complete = false; !complete;) {
    complete = sooner.test();
    complete = later.test() && complete;
  }
  const auto b = two.finish();
  const auto a = moved.finish();
  int wrong = 0;
  for_each_place(a.where, [&](place<4> const& i) {
    wrong += element(a.block, minus(i, a.where)) != element(first, i);
    wrong += element(b.block, minus(i, b.where)) != element(second, i);
  });
  CHECK(wrong == 0);
}

TEST_CASE("a gradient of other extents than the padded block is refused") {
  if (worlds::size() != 2) return;
  worlds::parallel_team<mesh<a2>> team{mpi_comm{}};
  using X = sharded<float, 3, shard<1, a2>, decltype(team)>;
  CHECK_THROWS_WITH_AS(
      (exchange_halo_backward<X, 1>(team, tensor<float, 3>(shape<3>{{2, 3, 4}}), {{2, 6, 4}}, {{{3, 1, 1, 1, 1}}})),
      "tessera: the gradient of a padded block has the extents [2, 3, 4]; wanted [2, 4, 4]; pass the "
      "gradient of the block that the halo exchange gave",
      error);
}
