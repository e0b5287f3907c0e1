#include "conv2d_case.hpp"

#include <tessera/op/pool2d.hpp>

namespace {

using namespace tessera;

pool2d_geometry pool_of(golden::attributes const& given) {
  auto g = geometry_of<pool2d_geometry>(given);
  g.ceil_mode = given.is("ceil_mode");
  g.count_include_pad = given.number("count_include_pad", 1) != 0;
  return g;
}

template <class Cuts>
using images = typename Cuts::template of<'n', 'c', 'h', 'w'>;

struct max_pool_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    const auto g = pool_of(t.what().given);
    const auto x = golden::put<T, 4, images<Cuts>>(team, t["x"]);
    const auto pooled = op::max_pool2d(x, g);
    golden::expect(t, "out", pooled.y);
    const auto dy = golden::put<T, 4, images<Cuts>>(team, t["grad_out"]);
    golden::expect(t, "grad_x", op::max_pool2d_backward(dy, pooled.argmax, x.extents(), g));
  }
};

struct avg_pool_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    const auto g = pool_of(t.what().given);
    const auto x = golden::put<T, 4, images<Cuts>>(team, t["x"]);
    golden::expect(t, "out", op::avg_pool2d(x, g));
    const auto dy = golden::put<T, 4, images<Cuts>>(team, t["grad_out"]);
    golden::expect(t, "grad_x", op::avg_pool2d_backward(dy, x.extents(), g));
  }
};

struct global_avg_pool_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    const auto x = golden::put<T, 4, images<Cuts>>(team, t["x"]);
    const auto y = op::global_avg_pool(x);
    golden::expect(t, "out", y);
    const auto dy = golden::put_gradient<std::remove_const_t<decltype(y)>>(team, t["grad_out"]);
    golden::expect(t, "grad_x", op::global_avg_pool_backward<std::remove_const_t<decltype(x)>>(dy, x.extents()));
  }
};

struct adaptive_avg_pool_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    auto const& size = t.what().given.list("output_size");
    const auto x = golden::put<T, 4, images<Cuts>>(team, t["x"]);
    const auto y = op::adaptive_avg_pool(x, static_cast<index_t>(size.front()), static_cast<index_t>(size.back()));
    golden::expect(t, "out", y);
    const auto dy = golden::put_gradient<std::remove_const_t<decltype(y)>>(team, t["grad_out"]);
    golden::expect(t, "grad_x", op::adaptive_avg_pool_backward<std::remove_const_t<decltype(x)>>(dy, x.extents()));
  }
};

const golden::built here[] = {golden::built("max_pool2d"), golden::built("avg_pool2d"),
                              golden::built("adaptive_avg_pool2d")};

}  // namespace

TEST_CASE("max_pool2d equals its reference cases") {
  golden::run("max_pool2d", golden::run_cuts<max_pool_case, 'n', 'c', 'h', 'w'>);
}

TEST_CASE("avg_pool2d equals its reference cases") {
  golden::run("avg_pool2d", golden::run_cuts<avg_pool_case, 'n', 'c', 'h', 'w'>);
}

TEST_CASE("adaptive pooling equals its reference cases") {
  golden::run("adaptive_avg_pool2d", [](golden::teams& all, golden::test_case const& c) {
    auto const& size = c.given.list("output_size");
    if (size.front() == 1 && size.back() == 1) golden::run_cuts<global_avg_pool_case, 'n', 'c', 'h', 'w'>(all, c);
    return golden::run_cuts<adaptive_avg_pool_case, 'n', 'c', 'h', 'w'>(all, c);
  });
}
