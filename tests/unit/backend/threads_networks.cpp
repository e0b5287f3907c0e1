#include "threads.hpp"

namespace {

using namespace tessera;
using namespace tessera::test;
using tessera::index_t;

}  // namespace

TEST_CASE_TEMPLATE("several threads: products", T, float, double) {
  struct extents {
    index_t m, n, k;
  };
  for (extents const& s : {extents{61, 77, 35}, extents{1, 401, 61}, extents{401, 1, 61}, extents{3, 5, 5003},
                           extents{0, 7, 3}, extents{7, 3, 0}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const auto a = random_values<T, 2>(ta ? shape<2>{s.k, s.m} : shape<2>{s.m, s.k}, 1);
        const auto b = random_values<T, 2>(tb ? shape<2>{s.n, s.k} : shape<2>{s.k, s.n}, 2);
        compare(
            [&](eigen& e, written& out) {
              auto y = unwritten<T>(shape<2>{s.m, s.n});
              e.matmul(a.read(), ta, b.read(), tb, y.view());
              e.matmul(a.read(), ta, b.read(), tb, y.view(), true);
              out.add(y);
            },
            tolerance<T>);
      }
  // Many matrices, some side by side, with an operand that is repeated and with an output that is a sum.
  for (const index_t outer : {1, 7})
    for (const index_t inner : {1, 5})
      for (const bool summed : {false, true}) {
        const auto a = random_values<T>(shape<4>{outer, inner, 61, 33}, 3);
        const auto b = random_values<T>(summed ? shape<4>{outer, inner, 61, 45} : shape<4>{1, 1, 33, 45}, 4);
        compare(
            [&](eigen& e, written& out) {
              auto y = unwritten<T>(summed ? shape<4>{1, 1, 33, 45} : shape<4>{outer, inner, 61, 45});
              e.batch_matmul(a.read(), summed, b.read(), false, y.view());
              out.add(y);
            },
            tolerance<T>);
      }
}

TEST_CASE_TEMPLATE("several threads: convolutions", T, float, double) {
  struct problem {
    index_t images, in, out, groups, stride, size;
  };
  // Images that divide among the threads, many, few, one; strides, groups, one weight a channel; none at all.
  for (auto const& p : {problem{6, 19, 21, 1, 1, 13}, problem{13, 6, 10, 2, 2, 15}, problem{1, 17, 33, 1, 2, 31},
                        problem{5, 24, 24, 24, 1, 17}, problem{0, 3, 4, 1, 1, 9}}) {
    conv2d_geometry g{
        .kernel = {3, 3}, .stride = {p.stride, p.stride}, .padding_before = {1, 1}, .padding_after = {1, 1}};
    g.groups = p.groups;
    const index_t made = g.output_extent(0, p.size);
    const auto x = random_values<T>(shape<4>{p.images, p.in, p.size, p.size}, 1);
    const auto w = random_values<T>(shape<4>{p.out, p.in / p.groups, 3, 3}, 2);
    const auto dy = random_values<T>(shape<4>{p.images, p.out, made, made}, 3);
    compare([&](eigen& e, written& out) {
      auto y = unwritten<T>(dy.extents());
      auto dx = unwritten<T>(x.extents());
      e.conv2d_forward(x.read(), w.read(), y.view(), g);
      e.conv2d_backward_input(w.read(), dy.read(), dx.view(), g);
      out.add(y);
      out.add(dx);
    });
    compare(
        [&](eigen& e, written& out) {
          auto dw = unwritten<T>(w.extents());
          e.conv2d_backward_weight(x.read(), dy.read(), dw.view(), g);
          out.add(dw);
        },
        tolerance<T>);
  }
}
