// Gelu of 1024 x 4096 numbers and its gradient, cut by rows (no messages). By hand the exact form is the error function
// of the standard library, element by element, and Eigen's exponential; the form with tanh is Eigen's.

#include "support/operator.hpp"

#include <tessera/op/activation.hpp>

#include <cmath>

namespace {

using namespace comparison;

array distribution(Eigen::Map<array const> const& x) {
  return x.unaryExpr([](float v) { return 0.5f * (1 + std::erf(v * 0.70710678f)); });
}

template <int Ranks>
void add_gelu(team<Ranks>& where) {
  using layout = ts::row<ranks<Ranks>>;
  const auto prepare = [&where] {
    constexpr ts::shape<2> extents{{1024, 4096}};
    return std::tuple(numbers<layout>(where, extents, 1), numbers<layout>(where, extents, 2));
  };
  add_operator(
      "gelu/forward", prepare, [](auto const& x, auto const&) { return ts::op::gelu(x); },
      [](arrays& y, auto const& x, auto const&) { y[0] = flat(x) * distribution(flat(x)); });
  add_operator(
      "gelu/backward", prepare, [](auto const& x, auto const& dy) { return ts::op::gelu_backward(x, dy); },
      [](arrays& dx, auto const& x, auto const& dy) {
        const auto v = flat(x);
        dx[0] = flat(dy) * (distribution(v) + v * (v.square() * -0.5f).exp() * 0.39894228f);
      });
  add_operator(
      "gelu/tanh_forward", prepare,
      [](auto const& x, auto const&) { return ts::op::gelu<ts::gelu_form::tanh_approximation>(x); },
      [](arrays& y, auto const& x, auto const&) {
        const auto v = flat(x);
        y[0] = 0.5f * v * (1 + (0.79788456f * (v + 0.044715f * v.cube())).tanh());
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) { add_gelu(where); });
}
