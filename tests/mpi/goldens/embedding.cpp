#include "support/golden_worlds.hpp"

#include <tessera/op/embedding.hpp>

namespace {

const golden::built here("embedding");

/// An embedding of indices whose dimensions have the letters `Dims`.
template <char... Dims>
struct embedding_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using namespace tessera;
    constexpr int rank = static_cast<int>(sizeof...(Dims));
    const auto indices = golden::put<std::int64_t, rank, typename Cuts::template of<Dims...>>(team, t["indices"]);
    const auto weight = golden::put<T, 2, typename Cuts::template of<'v', 'f'>>(team, t["weight"]);
    const auto y = op::embedding(indices, weight);
    golden::expect(t, "out", y);
    const auto dy = golden::put_gradient<std::remove_const_t<decltype(y)>>(team, t["grad_out"]);
    relaid<std::remove_const_t<decltype(weight)>, 2,
           gradient<typename Cuts::mesh>(weight.placements, indices.placements)>
        dweight(team, weight.extents());
    const auto padding = static_cast<std::int64_t>(t.what().given.number("padding_idx", no_padding));
    op::embedding_backward(indices, dy, dweight, padding);
    golden::expect(t, "grad_weight", dweight);
  }

 private:
  template <class Mesh, class Placements>
  static constexpr auto gradient(Placements layout, Placements const& indices) {
    for (int a = 0; a < Mesh::axes; ++a)
      if (indices[a].is_shard()) layout[a] = tessera::partial_placement();
    return layout;
  }
};

}  // namespace

TEST_CASE("embedding equals its reference cases") {
  golden::run("embedding", [](golden::teams& all, golden::test_case const& c) {
    switch (c["indices"].extents.size()) {
      case 1: return golden::run_cuts<embedding_case<'n'>, 'n', 'v', 'f'>(all, c);
      case 2: return golden::run_cuts<embedding_case<'n', 's'>, 'n', 's', 'v', 'f'>(all, c);
      default: return false;
    }
  });
}
