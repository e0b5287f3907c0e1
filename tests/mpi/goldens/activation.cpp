#include "support/golden_worlds.hpp"

#include <tessera/op/activation.hpp>

namespace {

using namespace tessera;

template <gelu_form Form>
struct gelu_functions {
  static auto forward(auto const& x) { return op::gelu<Form>(x); }
  static auto backward(auto const& x, auto const&, auto const& dy) { return op::gelu_backward<Form>(x, dy); }
};
struct silu_functions {
  static auto forward(auto const& x) { return op::silu(x); }
  static auto backward(auto const& x, auto const&, auto const& dy) { return op::silu_backward(x, dy); }
};
struct sigmoid_functions {
  static auto forward(auto const& x) { return op::sigmoid(x); }
  static auto backward(auto const&, auto const& y, auto const& dy) { return op::sigmoid_backward(y, dy); }
};
struct tanh_functions {
  static auto forward(auto const& x) { return op::tanh(x); }
  static auto backward(auto const&, auto const& y, auto const& dy) { return op::tanh_backward(y, dy); }
};

template <class Functions, char... Dims>
struct activation_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    constexpr int rank = static_cast<int>(sizeof...(Dims));
    using layout = typename Cuts::template of<Dims...>;
    const auto x = golden::put<T, rank, layout>(team, t["x"]);
    const auto y = Functions::forward(x);
    golden::expect(t, "out", y);
    golden::expect(t, "grad_x", Functions::backward(x, y, golden::put<T, rank, layout>(team, t["grad_out"])));
  }
};

template <class Functions>
bool run_by_rank(golden::teams& all, golden::test_case const& c) {
  switch (c["x"].extents.size()) {
    case 1: return golden::run_cuts<activation_case<Functions, 'a'>, 'a'>(all, c);
    case 3: return golden::run_cuts<activation_case<Functions, 'a', 'b', 'c'>, 'a', 'b', 'c'>(all, c);
    default: return false;
  }
}

template <class Functions>
void run(char const* op) {
  golden::run(op, run_by_rank<Functions>);
}

const golden::built here[] = {golden::built("gelu"), golden::built("silu"), golden::built("sigmoid"),
                              golden::built("tanh")};

}  // namespace

TEST_CASE("gelu equals its reference cases") {
  golden::run("gelu", [](golden::teams& all, golden::test_case const& c) {
    const std::string form = c.given.text("approximate");
    if (form == "none") return run_by_rank<gelu_functions<gelu_form::exact>>(all, c);
    return form == "tanh" && run_by_rank<gelu_functions<gelu_form::tanh_approximation>>(all, c);
  });
}

TEST_CASE("silu equals its reference cases") { run<silu_functions>("silu"); }

TEST_CASE("sigmoid equals its reference cases") { run<sigmoid_functions>("sigmoid"); }

TEST_CASE("tanh equals its reference cases") { run<tanh_functions>("tanh"); }
