// Exact gelu of 1024 x 4096 numbers and its gradient, cut by rows (no messages). By hand it is the error function of
// the standard library, element by element, and Eigen's exponential.

#include "support/program.hpp"

#include <tessera/op/activation.hpp>

#include <cmath>

namespace {

using namespace comparison;

constexpr ts::shape<2> extents{{1024, 4096}};

auto flat_map(auto const& x) { return Eigen::Map<array const>(x.read().data, x.read().size()); }

array distribution(Eigen::Map<array const> const& x) {
  return x.unaryExpr([](float v) { return 0.5f * (1 + std::erf(v * 0.70710678f)); });
}

template <int Ranks>
void add_gelu(team<Ranks>& where) {
  using layout = ts::row<ranks<Ranks>>;
  using tensor = decltype(numbers<layout>(where, extents, 1));
  const auto with_memory = [&where] {
    struct memory {
      tensor x, dy, result;
      array by_hand;
    };
    const auto m = std::make_shared<memory>();
    m->x = numbers<layout>(where, extents, 1);
    m->dy = numbers<layout>(where, extents, 2);
    m->by_hand.resize(m->x.local().size());
    return m;
  };
  const auto by_hand = [](auto const& m) {
    return results{{m->by_hand.data(), static_cast<std::size_t>(m->by_hand.size())}};
  };
  add("gelu/forward", [=] {
    const auto m = with_memory();
    return std::vector<way>{{"ours",
                             [=] {
                               m->result = {};
                               m->result = ts::op::gelu(m->x);
                               return results{values(m->result)};
                             }},
                            {"by_hand", [=] {
                               m->by_hand = flat_map(m->x) * distribution(flat_map(m->x));
                               return by_hand(m);
                             }}};
  });
  add("gelu/backward", [=] {
    const auto m = with_memory();
    return std::vector<way>{{"ours",
                             [=] {
                               m->result = {};
                               m->result = ts::op::gelu_backward(m->x, m->dy);
                               return results{values(m->result)};
                             }},
                            {"by_hand", [=] {
                               const auto x = flat_map(m->x);
                               m->by_hand =
                                   flat_map(m->dy) * (distribution(x) + x * (x.square() * -0.5f).exp() * 0.39894228f);
                               return by_hand(m);
                             }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) { add_gelu(where); });
}
