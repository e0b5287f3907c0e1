#include "support/random_windows.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

// The arithmetic of the halo exchange against counting, for all ranks of many meshes. Nothing is sent.

namespace {

using namespace tessera;
using tessera::index_t;

template <int I, int Size>
struct numbered : axis<Size> {};
using four = mesh<numbered<0, 4>>;
using nine = mesh<numbered<0, 3>, numbered<1, 3>>;

// A 3x3 window over 9x9 elements on 3x3 ranks: the inner rank has four neighbours and gets the corners from them.
using inner_plan = halo_plan<nine, 4, 2, 3>;
constexpr placements<2> by_rows_and_columns{{shard_placement(2), shard_placement(3)}};
constexpr halo_window three{3, 1, 1, 1, 1};
constexpr inner_plan inner(by_rows_and_columns, {{2, 5, 9, 9}}, {{three, three}}, {{1, 1}});
static_assert(inner.received() == halo_traffic{2 * 5 * (2 * 3 + 2 * 5), 4});
static_assert(inner.sent() == inner.received());
static_assert(inner.needed()[2] == interval{2, 5} && inner.needed()[3] == interval{2, 5});
static_assert(inner.interior()[2] == interval{4, 1} && inner.interior()[3] == interval{4, 1});
// A corner rank has two.
constexpr inner_plan corner(by_rows_and_columns, {{2, 5, 9, 9}}, {{three, three}}, {{0, 2}});
static_assert(corner.received() == halo_traffic{2 * 5 * (3 + 4), 2});
static_assert(corner.window(0).before(corner.outputs()[2], corner.needed()[2]) == 1);
static_assert(corner.window(0).after(corner.outputs()[2], corner.needed()[2]) == 0);

// Where nothing is cut nothing is sent, and where windows do not overlap the neighbours neither.
static_assert(halo_plan<four, 3, 1>({{shard_placement(0)}}, {{8, 9, 2}}, {{three}}, {{2}}).received() ==
              halo_traffic{});
static_assert(halo_plan<four, 3, 1>({{shard_placement(1)}}, {{8, 8, 2}}, {{{2, 2}}}, {{2}}).received() ==
              halo_traffic{});
// One row a rank and a window of seven: three ranks away.
static_assert(halo_plan<four, 3, 1>({{shard_placement(1)}}, {{1, 4, 2}}, {{{7, 1, 3, 3}}}, {{0}}).received() ==
              halo_traffic{6, 3});
// The last of four ranks has no row of three, yet an output of four, which reads padding and the row before.
constexpr halo_plan<four, 1, 0> without_rows({{shard_placement(0)}}, {{3}}, {{{2, 1, 1, 1}}}, {{3}});
static_assert(without_rows.own()[0].size == 0 && without_rows.outputs()[0].size == 1);
static_assert(without_rows.received() == halo_traffic{1, 1} && without_rows.interior()[0].size == 0);

/// The layouts of a tensor of `rank` dimensions without partial values.
template <int Axes>
std::vector<placements<Axes>> cuts_only(int rank) {
  std::vector<placements<Axes>> all;
  placements<Axes> value;
  const auto place = [&](auto&& self, int a) -> void {
    if (a == Axes) {
      if (value == value.normalized()) all.push_back(value);
      return;
    }
    value[a] = replicated_placement();
    self(self, a + 1);
    for (int d = 0; d < rank; ++d)
      for (int order = 0; order < Axes; ++order) {
        value[a] = shard_placement(d, order);
        self(self, a + 1);
      }
  };
  place(place, 0);
  return all;
}

/// The rows that an output reads, padding included, one after the other.
std::vector<index_t> taps(halo_window const& w, index_t output) {
  std::vector<index_t> rows;
  for (index_t k = 0; k < w.kernel; ++k) rows.push_back(output * w.stride - w.padding_before + k * w.dilation);
  return rows;
}

/// Compares one dimension of a plan with counting; the number of differences.
int differences(halo_window const& w, interval outputs, interval needed, interval interior, interval own,
                index_t extent) {
  int wrong = 0;
  for (index_t o = outputs.begin; o < outputs.end(); ++o) {
    const auto rows = taps(w, o);
    bool reads = false;
    bool here = true;
    for (index_t row = rows.front(); row <= rows.back(); ++row)
      if (row >= 0 && row < extent) {
        reads = true;
        here = here && row >= own.begin && row < own.end();
      }
    const bool inside = o >= interior.begin && o < interior.end();
    wrong += inside ? !here : here && reads;  // an output of padding alone may be left out
  }
  // From the first row to the last, those between two windows included.
  index_t before = 0;
  index_t after = 0;
  std::vector<index_t> inside;
  if (outputs.size > 0)
    for (index_t row = taps(w, outputs.begin).front(); row <= taps(w, outputs.end() - 1).back(); ++row) {
      before += row < 0;
      after += row >= extent;
      if (row >= 0 && row < extent) inside.push_back(row);
    }
  wrong += needed.size != static_cast<index_t>(inside.size());
  wrong += !inside.empty() && needed.begin != inside.front();
  wrong += w.before(outputs, needed) != before;
  wrong += w.after(outputs, needed) != after;
  return wrong;
}

/// Carries out the plans of all ranks on sets of elements: the number of faults.
template <class Mesh, int Rank, int... Dims>
int faults(placements<Mesh::axes> const& layout, shape<Rank> const& extents,
           std::array<halo_window, sizeof...(Dims)> const& windows) {
  using plan_type = halo_plan<Mesh, Rank, Dims...>;
  constexpr int phases = plan_type::phases;
  std::vector<plan_type> plans;
  for (int r = 0; r < Mesh::devices; ++r) plans.emplace_back(layout, extents, windows, Mesh::coordinates(r));
  const auto inside = [](box<Rank> const& part, std::array<index_t, Rank> const& at) {
    for (int d = 0; d < Rank; ++d)
      if (at[static_cast<std::size_t>(d)] < part[d].begin || at[static_cast<std::size_t>(d)] >= part[d].end())
        return false;
    return true;
  };
  std::vector<std::array<index_t, Rank>> places;
  for (index_t i = 0; i < extents.size(); ++i) {
    std::array<index_t, Rank> at{};
    index_t rest = i;
    for (int d = Rank - 1; d >= 0; --d) {
      at[static_cast<std::size_t>(d)] = rest % extents[d];
      rest /= extents[d];
    }
    places.push_back(at);
  }

  int wrong = 0;
  // Whether windows of a dimension leave rows out between them.
  bool gaps = false;
  for (auto const& w : windows) gaps = gaps || w.stride > w.reach();
  std::vector<std::vector<char>> holds;
  std::vector<halo_traffic> received(plans.size());
  std::vector<halo_traffic> sent(plans.size());
  for (auto const& plan : plans) {
    auto& mine = holds.emplace_back(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) mine[i] = inside(plan.own(), places[i]);
    for (int p = 0; p < phases; ++p) {
      const int d = plan.dim(p);
      wrong += differences(plan.window(p), plan.outputs()[d], plan.needed()[d], plan.interior()[d], plan.own()[d],
                           extents[d]);
    }
  }
  for (int p = 0; p < phases; ++p) {
    auto next = holds;
    for (std::size_t t = 0; t < plans.size(); ++t) {
      auto const& target = plans[t];
      const auto at = Mesh::coordinates(static_cast<int>(t));
      for (int r = 0; r < target.members(p); ++r) {
        const auto source_at = Mesh::group_member(target.group(p), at, r);
        const auto s = static_cast<std::size_t>(Mesh::group_rank(Mesh::all, source_at));
        const auto part = target.received(p, r);
        if (part.size() == 0) continue;
        wrong += !(part == plans[s].sent(p, Mesh::group_rank(target.group(p), at)));
        received[t].elements += part.size();
        sent[s].elements += part.size();
        ++received[t].messages;
        ++sent[s].messages;
        for (std::size_t i = 0; i < places.size(); ++i) {
          if (!inside(part, places[i])) continue;
          wrong += !holds[s][i];  // nobody sends what it does not have
          wrong += next[t][i];    // nor what the other has
          next[t][i] = 1;
          bool wanted = inside(target.needed(), places[i]);
          for (int later = p + 1; later < phases; ++later)
            for (int to = 0; to < target.members(later); ++to)
              wanted = wanted || inside(target.sent(later, to), places[i]);
          wrong += !gaps && !wanted;
        }
      }
    }
    holds = next;
  }
  for (std::size_t t = 0; t < plans.size(); ++t) {
    for (std::size_t i = 0; i < places.size(); ++i) wrong += inside(plans[t].needed(), places[i]) && !holds[t][i];
    wrong += !(plans[t].received() == received[t]);
    wrong += !(plans[t].sent() == sent[t]);
  }
  return wrong;
}

template <class Mesh, int Rank, int... Dims>
void check_random(int each, index_t widest) {
  random_windows random{12};
  std::int64_t wrong = 0;
  std::int64_t plans = 0;
  for (auto const& layout : cuts_only<Mesh::axes>(Rank))
    for (int i = 0; i < each; ++i) {
      shape<Rank> extents;
      for (int d = 0; d < Rank; ++d) extents[d] = 1 + random.draw(2);
      ((extents[Dims] = 1 + random.draw(widest)), ...);
      wrong += faults<Mesh, Rank, Dims...>(layout, extents, {{random.window(extents[Dims])...}}) != 0;
      ++plans;
    }
  CHECK(plans > each);
  CHECK(wrong == 0);
}

template <class Plan>
void make(halo_window const& w) {
  Plan({{shard_placement(2)}}, {{1, 1, 4, 4}}, {{w, {}}}, {{0}});
}

}  // namespace

TEST_CASE("one dimension: all kernels, strides and dilations on images of 1 to 13 rows") {
  random_windows random{12};
  std::int64_t wrong = 0;
  std::int64_t plans = 0;
  for (index_t extent = 1; extent <= 13; ++extent)
    for (index_t kernel = 1; kernel <= 7; ++kernel)
      for (index_t stride = 1; stride <= 3; ++stride)
        for (index_t dilation = 1; dilation <= 2; ++dilation)
          for (int padding = 0; padding < 5; ++padding) {
            const halo_window w{kernel, stride, random.draw(5), random.draw(5), dilation};
            if (w.output_extent(extent) == 0) continue;
            wrong += faults<four, 2, 1>({{shard_placement(1)}}, {{2, extent}}, {{w}}) != 0;
            ++plans;
          }
  CHECK(plans > 1500);
  CHECK(wrong == 0);
}

TEST_CASE("one dimension cut by any axes in any order") {
  check_random<mesh<numbered<0, 8>>, 1, 0>(300, 13);
  check_random<mesh<numbered<0, 2>, numbered<1, 3>>, 3, 1>(20, 13);
  check_random<mesh<numbered<0, 2>, numbered<1, 1>, numbered<2, 2>>, 2, 0>(6, 13);
}

TEST_CASE("two dimensions") {
  check_random<nine, 2, 0, 1>(60, 13);
  check_random<nine, 4, 3, 2>(4, 9);
  check_random<mesh<numbered<0, 2>, numbered<1, 4>>, 3, 0, 2>(20, 9);
  check_random<mesh<numbered<0, 2>, numbered<1, 2>, numbered<2, 2>>, 2, 1, 0>(8, 13);
}

TEST_CASE("three dimensions") { check_random<mesh<numbered<0, 2>, numbered<1, 2>, numbered<2, 2>>, 3, 0, 1, 2>(2, 6); }

TEST_CASE("windows that cannot walk the tensor are refused") {
  using plan = halo_plan<four, 4, 2, 3>;
  CHECK_THROWS_WITH_AS(make<plan>({0, 1, 0, 0, 1}),
                       "tessera: a window of kernel 0, stride 1 and dilation 1 along dimension 2; wanted 1 or more of "
                       "each; correct the window",
                       error);
  CHECK_THROWS_WITH_AS(make<plan>({1, 0, 0, 0, 1}),
                       "tessera: a window of kernel 1, stride 0 and dilation 1 along dimension 2; wanted 1 or more of "
                       "each; correct the window",
                       error);
  CHECK_THROWS_WITH_AS(make<plan>({1, 1, 0, 0, 0}),
                       "tessera: a window of kernel 1, stride 1 and dilation 0 along dimension 2; wanted 1 or more of "
                       "each; correct the window",
                       error);
  CHECK_THROWS_WITH_AS(make<plan>({3, 1, -1, 2, 1}),
                       "tessera: a window with padding -1 before and 2 after along dimension 2; wanted 0 or more of "
                       "each; cut the tensor instead, or correct the window",
                       error);
  CHECK_THROWS_WITH_AS(make<plan>({3, 1, 2, -1, 1}),
                       "tessera: a window with padding 2 before and -1 after along dimension 2; wanted 0 or more of "
                       "each; cut the tensor instead, or correct the window",
                       error);
  CHECK_THROWS_WITH_AS(make<plan>({4, 1, 1, 1, 2}),
                       "tessera: a window that reaches over 7 of 6 padded elements along dimension 2; wanted room for "
                       "at least one window; make the window smaller, or the tensor or its padding larger",
                       error);
  CHECK_NOTHROW(make<plan>({4, 1, 1, 2, 2}));
}
