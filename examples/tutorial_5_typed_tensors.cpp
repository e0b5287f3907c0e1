// Without layers: tensors that carry their layouts, operators, and each collective in sight.
//
// run: 4

#include "tutorial.hpp"

namespace ts = tessera;

struct dp : ts::axis<2> {};
struct tp : ts::axis<2> {};
using world = ts::mesh<dp, tp>;

template <class X, class Layout>
constexpr bool has_layout = std::is_same_v<typename std::remove_cvref_t<X>::layout_type, ts::canonical<world, Layout>>;

ts::tensor<float, 2> random_matrix(ts::index_t rows, ts::index_t columns, std::uint64_t stream) {
  ts::tensor<float, 2> m({rows, columns});
  const ts::philox draw(3, stream);
  for (ts::index_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(draw.normal(static_cast<std::uint64_t>(i)));
  return m;
}

// Largest difference of two matrices, relative to the largest element of the first.
double difference(ts::tensor<float, 2> const& a, ts::tensor<float, 2> const& b) {
  if (!(a.extents() == b.extents())) return INFINITY;
  double worst = 0;
  double scale = 0;
  for (ts::index_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(a.data()[i] - b.data()[i])));
    scale = std::max(scale, static_cast<double>(std::abs(a.data()[i])));
  }
  return worst / scale;
}

int main(int argc, char** argv) {
  ts::session<world> session{argc, argv};
  const auto x_whole = random_matrix(7, 12, 0);
  const auto up_whole = random_matrix(12, 20, 1);
  const auto down_whole = random_matrix(20, 9, 2);

  // [serial]
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto x0 = ts::distribute<ts::replicated>(alone, x_whole);        // 7 x 12
  const auto up0 = ts::distribute<ts::replicated>(alone, up_whole);      // 12 x 20
  const auto down0 = ts::distribute<ts::replicated>(alone, down_whole);  // 20 x 9
  const auto y0 = ts::op::matmul(ts::op::relu(ts::op::matmul(x0, up0)), down0);
  // [serial]

  // [split]
  const auto x = ts::distribute<ts::row<dp>>(session, x_whole);
  const auto up = ts::distribute<ts::column<tp>>(session, up_whole);
  const auto down = ts::distribute<ts::row<tp>>(session, down_whole);

  // No communication: each rank makes its rows of its columns.
  const auto h = ts::op::relu(ts::op::matmul(x, up));
  static_assert(has_layout<decltype(h), ts::layout<ts::row<dp>, ts::column<tp>>>);

  // No communication either, but the 20 inner terms are cut, so the result is a partial sum along tp.
  const auto part = ts::op::matmul(h, down);
  static_assert(has_layout<decltype(part), ts::layout<ts::row<dp>, ts::partial<tp>>>);

  // One all-reduce along tp.
  const auto y = part | ts::to<ts::row<dp>>;
  static_assert(has_layout<decltype(y), ts::row<dp>>);
  // [split]

  // [other]
  // One reduce-scatter along tp: each rank keeps a quarter of the rows.
  const auto quarter = part | ts::to<ts::shard<0, dp, tp>>;
  constexpr auto route = ts::route_between<world, decltype(part)::placements, decltype(quarter)::placements, 2>;
  static_assert(route.count == 1 && route.steps[0].kind == ts::step_kind::reduce_scatter);

  // An all-reduce along tp, then an all-gather along dp.
  const auto everywhere = part | ts::to<ts::replicated>;
  // [other]

  // [compare]
  const double worst = std::max({difference(y0.local(), ts::gather(y)),
                                 difference(y0.local(), ts::gather(quarter)),
                                 difference(y0.local(), everywhere.local())});
  // [compare]
  if (session.rank() == 0) std::printf("largest difference from the serial product: %.1e of the largest element\n", worst);
  return worst < 1e-6 ? 0 : 1;  // sums of 20 terms in another order
}
