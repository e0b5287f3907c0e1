#pragma once

#include "support/golden_worlds.hpp"

#include <tessera/op/conv2d.hpp>

/// The geometry that a case of a convolution or pooling describes.
template <class Geometry>
Geometry geometry_of(golden::attributes const& given) {
  const auto two = [&](char const* name, tessera::index_t otherwise) {
    if (!given.has(name)) return tessera::pair2d{otherwise, otherwise};
    auto const& values = given.list(name);
    return tessera::pair2d{static_cast<tessera::index_t>(values.front()), static_cast<tessera::index_t>(values.back())};
  };
  Geometry g;
  g.kernel = two("kernel", 1);
  g.stride = two("stride", 1);
  g.padding_before = g.padding_after = two("padding", 0);
  g.dilation = two("dilation", 1);
  return g;
}

/// Convolutions with `Groups` groups. Without groups the letters are n, o and i, with groups n and g.
template <tessera::index_t Groups>
struct conv2d_case {
  template <class Cuts>
  static constexpr bool takes() {
    return Groups == 1 || Groups % Cuts::parts('g') == 0;
  }

  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    namespace op = tessera::op;
    constexpr char out = Groups == 1 ? 'o' : 'g';
    constexpr char in = Groups == 1 ? 'i' : 'g';
    constexpr char weight_in = Groups == 1 ? 'i' : '1';
    auto g = geometry_of<tessera::conv2d_geometry>(t.what().given);
    g.groups = Groups;
    const auto x = golden::put<T, 4, typename Cuts::template of<'n', in, 'h', 'w'>>(team, t["x"]);
    const auto w = golden::put<T, 4, typename Cuts::template of<out, weight_in, 'r', 's'>>(team, t["weight"]);
    auto y = op::conv2d<Groups>(x, w, g);
    if (t.has("bias")) op::add_bias_once(y, golden::put<T, 1, typename Cuts::template of<out>>(team, t["bias"]));
    golden::expect(t, "out", y);

    const auto dy = golden::put_gradient<decltype(y)>(team, t["grad_out"]);
    using gradient_type = std::remove_const_t<decltype(dy)>;
    golden::expect(t, "grad_x", op::conv2d_backward_input<Groups>(dy, w, x.extents(), g));
    using x_type = std::remove_const_t<decltype(x)>;
    using weight_op = tessera::detail::conv2d_weight_gradient_op<Groups>;
    tessera::result_of<weight_op, 4, gradient_type, x_type> dw(team, w.extents());
    op::conv2d_backward_weight<Groups>(dy, x, dw, g);
    golden::expect(t, "grad_weight", dw);
    if (t.has("bias")) {
      tessera::result_of<tessera::detail::bias_gradient_op<4>, 1, gradient_type> db(team, {{w.extent(0)}});
      op::bias_backward(dy, db);
      golden::expect(t, "grad_bias", db);
    }
  }
};

/// The cases of `op::conv2d` with groups; false where the number of groups has no run of its own.
bool run_conv2d_with_groups(golden::teams& all, golden::test_case const& c, tessera::index_t groups);
