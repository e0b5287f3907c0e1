// alone: tells doctest names of types
#include <tessera/backend/rounded.hpp>

#include "reference.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

// What `rounded` computes is what its backend computes from rounded operands, rounded.

namespace {

using namespace tessera;
using namespace tessera::test;
using tessera::index_t;

template <class F, class T>
struct of {
  using format = F;
  using element = T;
};

/// Values whose products with each other are from below the smallest number of float16 to beyond its largest.
template <class T, int Rank>
tensor<T, Rank> wide_values(shape<Rank> extents, unsigned seed) {
  auto t = random_values<T>(extents, seed);
  for (index_t i = 0; i < t.size(); ++i) t.data()[i] *= static_cast<T>(std::ldexp(1.0, static_cast<int>(i % 22) - 13));
  return t;
}

template <class F, class T, int Rank>
tensor<T, Rank> rounded_copy(tensor<T, Rank> const& t) {
  auto copy = t.clone();
  for (T& v : copy.view()) v = rounded_to<F>(v);
  return copy;
}

template <class T, int Rank>
bool same_bytes(tensor<T, Rank> const& a, tensor<T, Rank> const& b) {
  return a.extents() == b.extents() &&
         (a.size() == 0 || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0);
}

/// Checks `kernel(backend, a, b, out)` on operands that are not numbers of the format.
template <class F, class T, int A, int B, int Out, class Kernel>
void check(shape<A> const& of_a, shape<B> const& of_b, shape<Out> const& of_out, Kernel kernel) {
  const auto a = wide_values<T>(of_a, 1);
  const auto b = wide_values<T>(of_b, 2);
  auto found = random_values<T>(of_out, 3);
  auto wanted = found.clone();
  auto exact = found.clone();
  rounded<eigen, F> k;
  kernel(k, a.read(), b.read(), found.view());
  eigen plain;
  kernel(plain, rounded_copy<F>(a).read(), rounded_copy<F>(b).read(), wanted.view());
  CHECK(same_bytes(found, rounded_copy<F>(wanted)));
  kernel(plain, a.read(), b.read(), exact.view());
  CHECK(found.size() > 0);
  CHECK_FALSE(same_bytes(found, rounded_copy<F>(exact)));
}

}  // namespace

TYPE_TO_STRING_AS("bfloat16 of float", of<bfloat16, float>);
TYPE_TO_STRING_AS("bfloat16 of double", of<bfloat16, double>);
TYPE_TO_STRING_AS("float16 of float", of<float16, float>);
TYPE_TO_STRING_AS("float16 of double", of<float16, double>);
#define FORMATS of<bfloat16, float>, of<bfloat16, double>, of<float16, float>, of<float16, double>

TEST_CASE("a rounded backend is a backend that computes in its format alone") {
  using half = rounded<eigen, float16>;
  CHECK(backend<half>);
  CHECK(backend<rounded<eigen, bfloat16>>);
  CHECK(computes_in<half, float16>);
  CHECK_FALSE(computes_in<half, bfloat16>);
  CHECK_FALSE(computes_in<half, float>);
  CHECK(computes_in<eigen, float>);
  CHECK(computes_in<eigen, double>);
  CHECK_FALSE(computes_in<eigen, float16>);
}

TEST_CASE_TEMPLATE("matrix products are those of rounded operands, rounded", Of, FORMATS) {
  using F = typename Of::format;
  using T = typename Of::element;
  for (const bool transpose : {false, true})
    for (const bool accumulate : {false, true})
      check<F, T>(transpose ? shape<2>{{33, 40}} : shape<2>{{40, 33}},
                  transpose ? shape<2>{{21, 33}} : shape<2>{{33, 21}}, shape<2>{{40, 21}},
                  [&](auto& k, auto a, auto b, auto out) { k.matmul(a, transpose, b, transpose, out, accumulate); });
  check<F, T>(shape<4>{{2, 3, 9, 5}}, shape<4>{{2, 3, 5, 8}}, shape<4>{{2, 3, 9, 8}},
              [](auto& k, auto a, auto b, auto out) { k.batch_matmul(a, false, b, false, out); });
}

TEST_CASE_TEMPLATE("convolutions and their gradients are those of rounded operands, rounded", Of, FORMATS) {
  using F = typename Of::format;
  using T = typename Of::element;
  const conv2d_geometry g{.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}};
  const shape<4> x{{2, 3, 7, 6}}, w{{4, 3, 3, 3}}, y{{2, 4, 7, 6}};
  check<F, T>(x, w, y, [&](auto& k, auto a, auto b, auto out) { k.conv2d_forward(a, b, out, g); });
  check<F, T>(w, y, x, [&](auto& k, auto a, auto b, auto out) { k.conv2d_backward_input(a, b, out, g); });
  check<F, T>(x, y, w, [&](auto& k, auto a, auto b, auto out) { k.conv2d_backward_weight(a, b, out, g); });
}

TEST_CASE_TEMPLATE("attention and its gradients are those of rounded operands, rounded", Of, FORMATS) {
  using F = typename Of::format;
  using T = typename Of::element;
  const attention_geometry g{
      .batch = 2, .heads = 3, .queries = 5, .keys = 7, .width = 4, .value_width = 6, .scale = 0.5};
  const shape<3> rows{{2, 3, 5}};
  // Vectors [batch, positions, heads, width], other ones between those of a head.
  struct vectors {
    tensor<T, 4> memory;
    vectors(index_t positions, index_t width, unsigned seed)
        : memory(random_values<T>(shape<4>{{2, positions, 3, width}}, seed)) {}
    head_rows<T> view() {
      auto const& e = memory.extents();
      return {memory.data(), e[1] * e[2] * e[3], e[3], e[2] * e[3]};
    }
  };
  const auto run = [&](auto& k, bool round) {
    std::array<vectors, 8> v{vectors(5, 4, 1), vectors(7, 4, 2), vectors(7, 6, 3), vectors(5, 6, 4),
                             vectors(5, 6, 5), vectors(5, 4, 6), vectors(7, 4, 7), vectors(7, 6, 8)};
    auto& [q, keys, values, dy, out, dq, dk, dv] = v;
    const auto rounding = [&](auto&... some) {
      if (round) ((some.memory = rounded_copy<F>(some.memory)), ...);
    };
    rounding(q, keys, values, dy);
    tensor<double, 3> log_sum(rows), delta(rows);
    k.attention_forward(q.view(), keys.view(), values.view(), out.view(), log_sum.view(), g);
    rounding(out);
    k.template attention_delta<T>(out.view(), dy.view(), delta.view(), g);
    k.attention_backward(q.view(), keys.view(), values.view(), dy.view(), log_sum.read(), delta.read(), dq.view(),
                         dk.view(), dv.view(), g);
    rounding(dq, dk, dv);
    return v;
  };
  rounded<eigen, F> k(3, 64);
  eigen plain;
  const auto found = run(k, false);
  const auto wanted = run(plain, true);
  const auto exact = run(plain, false);
  for (std::size_t i = 4; i < found.size(); ++i) {
    CAPTURE(i);
    auto const& f = found[i].memory;
    CHECK(same_bytes(f, rounded_copy<F>(f)));
    CHECK_FALSE(same_bytes(exact[i].memory, f));
    // Sums of the plain kernel may be taken in another order for other strides: one step of the format apart.
    for (index_t j = 0; j < f.size(); ++j) {
      const auto a = static_cast<double>(f.data()[j]);
      const auto b = static_cast<double>(wanted[i].memory.data()[j]);
      CHECK(std::abs(a - b) <= std::ldexp(std::max(std::abs(b), 1e-2), -F::fraction_bits));
    }
  }
}

TEST_CASE("what is beyond float16 is infinite, what is below it is gone, NaN stays") {
  rounded<eigen, float16> k;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  tensor<float, 2> one(shape<2>{{1, 1}}, 1.0f), x(shape<2>{{4, 1}}), out(shape<2>{{4, 1}});
  std::copy_n(std::array{70000.0f, 1e-8f, nan, -60000.0f}.begin(), 4, x.data());
  k.matmul(x.read(), false, one.read(), false, out.view());
  CHECK(out.data()[0] == std::numeric_limits<float>::infinity());
  CHECK(out.data()[1] == 0);
  CHECK(std::isnan(out.data()[2]));
  CHECK(out.data()[3] == -60000.0f);
  // Sums are float's inside; only their result has to be in range.
  tensor<float, 2> row(shape<2>{{1, 3}}), column(shape<2>{{3, 1}}, 1.0f), sum(shape<2>{{1, 1}});
  std::copy_n(std::array{60000.0f, 60000.0f, -60000.0f}.begin(), 3, row.data());
  k.matmul(row.read(), false, column.read(), false, sum.view());
  CHECK(sum.data()[0] == 60000.0f);
}

TEST_CASE("sums, norms, softmax and updates stay float") {
  rounded<eigen, bfloat16> k;
  eigen plain;
  const auto x = random_values<float>(shape<2>{{30, 17}}, 1);
  tensor<float, 1> found(shape<1>{{17}}), wanted(shape<1>{{17}});
  k.sum_rows(x.read(), found.view());
  plain.sum_rows(x.read(), wanted.view());
  CHECK(same_bytes(found, wanted));
  auto a = random_values<float>(shape<1>{{500}}, 2);
  auto b = a.clone();
  const auto gradient = random_values<float>(shape<1>{{500}}, 3);
  const sgd_step step{.learning_rate = 0.1};
  k.sgd_update(a.view(), gradient.read(), block<float, 1>{}, step);
  plain.sgd_update(b.view(), gradient.read(), block<float, 1>{}, step);
  CHECK(same_bytes(a, b));
}

TEST_CASE("empty blocks are accepted, and threads change nothing but the order of sums") {
  rounded<eigen, bfloat16> k;
  const tensor<float, 2> none(shape<2>{{0, 3}});
  const auto b = random_values<float>(shape<2>{{3, 2}}, 1);
  tensor<float, 2> out(shape<2>{{0, 2}});
  k.matmul(none.read(), false, b.read(), false, out.view());

  const shape<4> x{{5, 3, 8, 8}}, w{{4, 3, 1, 1}}, y{{5, 4, 8, 8}};
  const auto in = random_values<float>(x, 1);
  const auto weight = random_values<float>(w, 2);
  const auto run = [&](int threads) {
    rounded<eigen, bfloat16> some(threads, 64);
    CHECK(some.threads() == threads);
    tensor<float, 4> result(y);
    some.conv2d_forward(in.read(), weight.read(), result.view(), {});
    return result;
  };
  CHECK(same_bytes(run(1), run(3)));
  k.use_threads(2);
  CHECK(k.threads() == 2);
  CHECK_THROWS_AS(k.use_threads(0), error);
}
