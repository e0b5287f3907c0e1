// Sums and products of 1024 x 4096 numbers, element by element and with a row of numbers repeated, cut by rows (no
// messages), and the gradient of what is repeated (one all-reduce).

#include "support/operator.hpp"

#include <tessera/op/broadcast.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t columns = 4096;
constexpr ts::shape<2> extents{{1024, columns}};

template <int Ranks>
void add_all(team<Ranks>& where) {
  using layout = ts::row<ranks<Ranks>>;
  const auto two = [&where] {
    return std::tuple(numbers<layout>(where, extents, 1), numbers<layout>(where, extents, 2));
  };
  const auto with_row = [&where] {
    return std::tuple(numbers<layout>(where, extents, 1), numbers<ts::replicated>(where, ts::shape<1>{{columns}}, 2));
  };
  add_operator(
      "elementwise/add", two, [](auto const& a, auto const& b) { return a + b; },
      [](arrays& y, auto const& a, auto const& b) { y[0] = flat(a) + flat(b); });
  add_operator(
      "elementwise/mul", two, [](auto const& a, auto const& b) { return a * b; },
      [](arrays& y, auto const& a, auto const& b) { y[0] = flat(a) * flat(b); });
  add_operator(
      "elementwise/relu", two, [](auto const& a, auto const&) { return ts::op::relu(a); },
      [](arrays& y, auto const& a, auto const&) { y[0] = flat(a).max(0.0f); });
  add_operator(
      "elementwise/relu_backward", two, [](auto const& y, auto const& dy) { return ts::op::relu_backward(y, dy); },
      [](arrays& dx, auto const& y, auto const& dy) { dx[0] = (flat(y) > 0).select(flat(dy), 0.0f); });
  add_operator(
      "broadcast/add", with_row, [](auto const& a, auto const& b) { return a + ts::along<1>(b); },
      [](arrays& y, auto const& a, auto const& b) { shaped_as(a, y[0]) = map(a).rowwise() + map(b).row(0); });
  add_operator(
      "broadcast/gradient", two,
      [](auto const&, auto const& dy) { return ts::op::sum_along<1>(dy) | ts::to<ts::replicated>; },
      [](arrays& db, auto const&, auto const& dy) {
        add_rows(map(dy), db[0]);
        sum_over_ranks(db[0].data(), columns);
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) { add_all(where); });
}
