#include <tessera/backend/onednn.hpp>

#include "reference.hpp"

#include <tessera/backend/deterministic.hpp>
#include <tessera/backend/rounded.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

// The kernels by oneDNN against those of Eigen in double, from the same operands.

namespace {

using namespace tessera;
using namespace tessera::test;
using tessera::index_t;

/// Numbers from a to b.
class dice {
 public:
  explicit dice(unsigned seed) : engine_(seed) {}
  index_t operator()(index_t a, index_t b) { return std::uniform_int_distribution<index_t>(a, b)(engine_); }
  bool flip() { return (*this)(0, 1) == 1; }
  template <std::size_t N>
  index_t of(index_t const (&choices)[N]) {
    return choices[(*this)(0, static_cast<index_t>(N) - 1)];
  }

 private:
  std::mt19937 engine_;
};

struct problem {
  shape<4> x{};
  shape<4> w{};
  shape<4> y{};
  conv2d_geometry geometry{};
};

std::string to_string(problem const& p) {
  auto const& g = p.geometry;
  const auto pair = [](pair2d const& v) { return std::to_string(v[0]) + "," + std::to_string(v[1]) + " "; };
  return tessera::to_string(p.x) + tessera::to_string(p.w) + tessera::to_string(p.y) + " stride " + pair(g.stride) +
         "before " + pair(g.padding_before) + "after " + pair(g.padding_after) + "dilation " + pair(g.dilation) +
         "groups " + std::to_string(g.groups);
}

problem random_problem(dice& roll) {
  problem p;
  auto& g = p.geometry;
  g.groups = roll.of({1, 1, 1, 2, 3, 16});
  const index_t in = g.groups * roll.of({1, 1, 2, 3, 8, 16, 19});
  const index_t out = g.groups * roll.of({1, 1, 2, 5, 16, 32});
  p.x = {roll(1, 3), in, roll(1, 12), roll(1, 14)};
  p.y = {p.x[0], out, 0, 0};
  const bool skips = roll(0, 4) == 0;
  for (int d = 0; d < 2; ++d) {
    const auto at = static_cast<std::size_t>(d);
    do {
      g.kernel[at] = roll(1, 4);
      g.stride[at] = roll(1, 3);
      g.dilation[at] = roll.of({1, 1, 2});
      g.padding_before[at] = roll(skips ? -1 : 0, 3);
      g.padding_after[at] = roll(skips ? -1 : 0, 3);
      p.y[2 + d] = g.output_extent(d, p.x[2 + d]);
    } while (p.y[2 + d] == 0);
  }
  p.w = {out, in / g.groups, g.kernel[0], g.kernel[1]};
  return p;
}

/// A result with what it should be.
struct computed {
  tensor<float, 4> found;
  tensor<double, 4> wanted;

  explicit computed(shape<4> const& extents) : found(unwritten<float>(extents)), wanted(extents) {}
  double root_mean_square_error() const {
    double sum = 0;
    for (index_t i = 0; i < found.size(); ++i) {
      const double error = static_cast<double>(found.data()[i]) - wanted.data()[i];
      sum += error * error;
    }
    return std::sqrt(sum / static_cast<double>(found.size()));
  }
};

/// The result of a convolution, the gradient of its input and that of its weight.
std::array<computed, 3> compute(onednn& k, problem const& p) {
  const auto x = random_values<float>(p.x, 1);
  const auto w = random_values<float>(p.w, 2);
  const auto dy = random_values<float>(p.y, 3);
  std::array<computed, 3> out{computed(p.y), computed(p.x), computed(p.w)};
  auto& [y, dx, dw] = out;
  k.conv2d_forward(x.read(), w.read(), y.found.view(), p.geometry);
  k.conv2d_backward_input(w.read(), dy.read(), dx.found.view(), p.geometry);
  k.conv2d_backward_weight(x.read(), dy.read(), dw.found.view(), p.geometry);

  eigen plain;
  const auto wide_x = as_double(x);
  const auto wide_w = as_double(w);
  const auto wide_dy = as_double(dy);
  plain.conv2d_forward(wide_x.read(), wide_w.read(), y.wanted.view(), p.geometry);
  plain.conv2d_backward_input(wide_w.read(), wide_dy.read(), dx.wanted.view(), p.geometry);
  plain.conv2d_backward_weight(wide_x.read(), wide_dy.read(), dw.wanted.view(), p.geometry);
  return out;
}

void check(onednn& k, problem const& p) {
  INFO(to_string(p));
  for (computed const& one : compute(k, p)) CHECK(worst(one.found, one.wanted) < 4 * tolerance<float>);
}

constexpr conv2d_geometry padded{.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}};

template <class T, int Rank>
bool same_bytes(tensor<T, Rank> const& a, tensor<T, Rank> const& b) {
  return a.extents() == b.extents() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0;
}

template <class T, int Rank>
index_t count_nan(tensor<T, Rank> const& t) {
  return std::count_if(t.read().begin(), t.read().end(), [](T v) { return std::isnan(v); });
}

}  // namespace

TEST_CASE("onednn is a backend, also with rounding and with a fixed order of sums") {
  CHECK(backend<onednn>);
  CHECK(backend<rounded<onednn, bfloat16>>);
  CHECK(backend<deterministic<8, onednn>>);
  CHECK_THROWS_AS(onednn(0), error);
}

TEST_CASE("oneDNN's convolutions and their gradients equal Eigen's") {
  onednn k;
  dice roll(7);
  for (int i = 0; i < 150; ++i) check(k, random_problem(roll));
}

TEST_CASE("oneDNN's convolutions of layers that networks have equal Eigen's") {
  onednn k;
  SUBCASE("7x7, stride 2, colours") {
    check(k, {{2, 3, 33, 32},
              {64, 3, 7, 7},
              {2, 64, 17, 16},
              {.kernel = {7, 7}, .stride = {2, 2}, .padding_before = {3, 3}, .padding_after = {3, 3}}});
  }
  SUBCASE("3x3, stride 2") {
    check(k, {{2, 32, 28, 28},
              {48, 32, 3, 3},
              {2, 48, 14, 14},
              {.kernel = {3, 3}, .stride = {2, 2}, .padding_before = {1, 1}, .padding_after = {1, 1}}});
  }
  SUBCASE("1x1") { check(k, {{2, 96, 9, 7}, {33, 96, 1, 1}, {2, 33, 9, 7}, {}}); }
  SUBCASE("1x1, stride 2") { check(k, {{2, 96, 9, 8}, {40, 96, 1, 1}, {2, 40, 5, 4}, {.stride = {2, 2}}}); }
  SUBCASE("depthwise") {
    auto g = padded;
    g.groups = 96;
    check(k, {{2, 96, 14, 15}, {96, 1, 3, 3}, {2, 96, 14, 15}, g});
  }
  SUBCASE("a last row of windows that is not wanted") {
    check(k, {{1, 16, 9, 9}, {16, 16, 3, 3}, {1, 16, 5, 9}, padded});
  }
}

TEST_CASE("oneDNN's convolutions by Winograd's method and without it equal Eigen's") {
  onednn k;
  const auto both = [&](problem const& p) {
    check(k, p);
    k.use_winograd(false);
    check(k, p);
    k.use_winograd(true);
    check(k, p);
  };
  SUBCASE("whole tiles") { both({{2, 64, 24, 24}, {32, 64, 3, 3}, {2, 32, 24, 24}, padded}); }
  SUBCASE("parts of tiles") { both({{3, 32, 19, 22}, {48, 32, 3, 3}, {3, 48, 19, 22}, padded}); }
  SUBCASE("channels that fill no vector") { both({{2, 40, 21, 23}, {33, 40, 3, 3}, {2, 33, 21, 23}, padded}); }
  SUBCASE("no padding") { both({{2, 32, 27, 26}, {32, 32, 3, 3}, {2, 32, 25, 24}, {.kernel = {3, 3}}}); }
  SUBCASE("padding of the width") {
    both({{2, 32, 26, 24}, {32, 32, 3, 3}, {2, 32, 24, 24}, {.kernel = {3, 3}, .padding_before = {0, 1}}});
  }
  SUBCASE("padding of two rows") {
    both({{2, 32, 24, 24}, {32, 32, 3, 3}, {2, 32, 26, 26}, {.kernel = {3, 3}, .padding_before = {2, 2}}});
  }
  SUBCASE("padding on one side") {
    both({{2, 32, 24, 24}, {32, 32, 3, 3}, {2, 32, 23, 23}, {.kernel = {3, 3}, .padding_before = {1, 1}}});
  }
}

TEST_CASE("errors of convolutions by Winograd's method are at most eight times those of the direct one") {
  onednn tiles, direct;
  direct.use_winograd(false);
  for (const index_t channels : {32, 64, 256}) {
    const problem p{{2, channels, 28, 28}, {channels, channels, 3, 3}, {2, channels, 28, 28}, padded};
    const auto found = compute(tiles, p);
    const auto plain = compute(direct, p);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(channels);
      CAPTURE(i);
      CHECK(found[i].root_mean_square_error() <= 8 * plain[i].root_mean_square_error());
    }
  }
}

TEST_CASE("a convolution by Winograd's method keeps a NaN, within its tiles") {
  onednn k;
  auto x = random_values<float>(shape<4>{2, 32, 28, 28}, 1);
  const auto w = random_values<float>(shape<4>{32, 32, 3, 3}, 2);
  auto y = unwritten<float>(x.extents());
  x(1, 5, 9, 3) = std::numeric_limits<float>::quiet_NaN();
  k.conv2d_forward(x.read(), w.read(), y.view(), padded);
  for (index_t o = 0; o < 32; ++o)
    for (index_t h = 8; h < 11; ++h)
      for (index_t v = 2; v < 5; ++v) CHECK(std::isnan(y(1, o, h, v)));
  // Tiles are of 4 x 4 results, and a value is read for those of two neighbours at most.
  CHECK(count_nan(y) <= 32 * 8 * 8);
}

TEST_CASE("oneDNN's convolutions of nothing equal Eigen's") {
  onednn k;
  const conv2d_geometry plain{.kernel = {3, 3}};
  SUBCASE("no images") { check(k, {{0, 2, 6, 5}, {3, 2, 3, 3}, {0, 3, 4, 3}, plain}); }
  SUBCASE("no input channels") { check(k, {{2, 0, 6, 5}, {3, 0, 3, 3}, {2, 3, 4, 3}, plain}); }
  SUBCASE("no output channels") { check(k, {{2, 2, 6, 5}, {0, 2, 3, 3}, {2, 0, 4, 3}, plain}); }
  SUBCASE("no rows but padding") {
    const conv2d_geometry g{.kernel = {3, 3}, .padding_before = {2, 1}, .padding_after = {2, 1}};
    check(k, {{2, 2, 0, 5}, {3, 2, 3, 3}, {2, 3, 2, 5}, g});
  }
}

TEST_CASE("a convolution by oneDNN is right again where its weights have changed") {
  onednn k;
  const auto x = random_values<float>(shape<4>{1, 8, 6, 6}, 1);
  auto w = random_values<float>(shape<4>{8, 8, 3, 3}, 2);
  auto y = unwritten<float>(shape<4>{1, 8, 6, 6});
  k.conv2d_forward(x.read(), w.read(), y.view(), padded);
  const auto before = y.clone();
  for (float& v : w.view()) v *= 2;
  k.conv2d_forward(x.read(), w.read(), y.view(), padded);
  for (index_t i = 0; i < y.size(); ++i) CHECK(y.data()[i] == 2 * before.data()[i]);
}

TEST_CASE("a convolution by oneDNN keeps a NaN and does not spread it") {
  onednn k;
  auto x = random_values<float>(shape<4>{2, 16, 7, 8}, 1);
  const auto w = random_values<float>(shape<4>{32, 16, 3, 3}, 2);
  auto y = unwritten<float>(shape<4>{2, 32, 7, 8});
  x(1, 5, 0, 3) = std::numeric_limits<float>::quiet_NaN();
  k.conv2d_forward(x.read(), w.read(), y.view(), padded);
  CHECK(count_nan(y) == 32 * 6);
  for (index_t o = 0; o < 32; ++o)
    for (index_t h = 0; h < 2; ++h)
      for (index_t v = 2; v < 5; ++v) CHECK(std::isnan(y(1, o, h, v)));
}

TEST_CASE("oneDNN's matrix products equal Eigen's") {
  onednn k;
  dice roll(3);
  for (int i = 0; i < 200; ++i) {
    const bool ta = roll.flip();
    const bool tb = roll.flip();
    const bool accumulate = roll.flip();
    const index_t m = roll.of({0, 1, 2, 17, 48, 100});
    const index_t n = roll.of({0, 1, 3, 16, 33, 96});
    const index_t depth = roll.of({0, 1, 5, 32, 129});
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(depth);
    const auto a = random_values<float>(ta ? shape<2>{depth, m} : shape<2>{m, depth}, 1);
    const auto b = random_values<float>(tb ? shape<2>{n, depth} : shape<2>{depth, n}, 2);
    auto out = accumulate ? random_values<float>(shape<2>{m, n}, 4)
                          : tensor<float, 2>(shape<2>{m, n}, std::numeric_limits<float>::quiet_NaN());
    auto wanted = as_double(out);
    k.matmul(a.read(), ta, b.read(), tb, out.view(), accumulate);
    eigen().matmul(as_double(a).read(), ta, as_double(b).read(), tb, wanted.view(), accumulate);
    CHECK(worst(out, wanted) < 4 * tolerance<float>);
  }
}

TEST_CASE("a matrix product by oneDNN keeps a NaN, also one that meets zeros") {
  onednn k;
  tensor<float, 2> a(shape<2>{40, 50}, 0.0f);
  const tensor<float, 2> b(shape<2>{50, 60}, 0.0f);
  tensor<float, 2> out(shape<2>{40, 60}, 1.0f);
  a(7, 11) = std::numeric_limits<float>::quiet_NaN();
  k.matmul(a.read(), false, b.read(), false, out.view());
  CHECK(count_nan(out) == 60);
  CHECK(std::isnan(out(7, 59)));
}

TEST_CASE("oneDNN's products of many matrices equal Eigen's") {
  onednn k;
  dice roll(5);
  for (int i = 0; i < 200; ++i) {
    const bool ta = roll.flip();
    const bool tb = roll.flip();
    const index_t count = roll.of({0, 1, 2, 5});
    const index_t inner = roll.of({1, 1, 1, 3});
    const index_t m = roll.of({1, 2, 17, 40});
    const index_t n = roll.of({1, 3, 16, 33});
    const index_t depth = roll.of({0, 1, 5, 32});
    const bool one_a = roll(0, 3) == 0;
    const bool one_b = !one_a && roll(0, 3) == 0;
    const bool summed = !one_a && !one_b && roll(0, 2) == 0;
    const auto extents = [&](bool one, index_t rows, index_t columns) {
      return one ? shape<4>{1, 1, rows, columns} : shape<4>{count, inner, rows, columns};
    };
    const auto a = random_values<float>(ta ? extents(one_a, depth, m) : extents(one_a, m, depth), 1);
    const auto b = random_values<float>(tb ? extents(one_b, n, depth) : extents(one_b, depth, n), 2);
    auto out = unwritten<float>(extents(summed, m, n));
    auto wanted = as_double(out);
    CAPTURE(tessera::to_string(a.extents()));
    CAPTURE(tessera::to_string(b.extents()));
    CAPTURE(tessera::to_string(out.extents()));
    CAPTURE(ta);
    CAPTURE(tb);
    k.batch_matmul(a.read(), ta, b.read(), tb, out.view());
    eigen().batch_matmul(as_double(a).read(), ta, as_double(b).read(), tb, wanted.view());
    CHECK(worst(out, wanted) < 4 * tolerance<float>);
  }
}

TEST_CASE("oneDNN's kernels on several threads equal those on one") {
  onednn one;
  onednn two(2, 64);
  dice roll(11);
  for (int i = 0; i < 20; ++i) check(two, random_problem(roll));
  const auto a = random_values<float>(shape<4>{6, 1, 20, 30}, 1);
  const auto b = random_values<float>(shape<4>{6, 1, 30, 25}, 2);
  auto found = unwritten<float>(shape<4>{6, 1, 20, 25});
  auto wanted = found.clone();
  two.batch_matmul(a.read(), false, b.read(), false, found.view());
  one.batch_matmul(a.read(), false, b.read(), false, wanted.view());
  CHECK(worst(found, as_double(wanted)) < tolerance<float>);
  // The number may change; what was made for another one is not used.
  two.use_threads(1);
  CHECK(two.threads() == 1);
  for (int i = 0; i < 5; ++i) check(two, random_problem(roll));
}

TEST_CASE("deterministic kernels by oneDNN give rows that do not depend on those beside them") {
  const auto x = random_values<float>(shape<4>{8, 16, 9, 9}, 1);
  const auto w = random_values<float>(shape<4>{16, 16, 3, 3}, 2);
  auto whole = unwritten<float>(shape<4>{8, 16, 9, 9});
  auto parts = whole.clone();
  deterministic<4, onednn> k;
  k.begin_batch<1>(8, true);
  k.conv2d_forward(x.read(), w.read(), whole.view(), padded);
  k.begin_batch<2>(8, true);
  for (index_t half = 0; half < 2; ++half) {
    const index_t at = half * parts.size() / 2;
    k.conv2d_forward(block<float const, 4>{x.data() + at, {4, 16, 9, 9}}, w.read(),
                     block<float, 4>{parts.data() + at, {4, 16, 9, 9}}, padded);
  }
  CHECK(same_bytes(whole, parts));
}

TEST_CASE("double is Eigen's") {
  const auto a = random_values<double>(shape<2>{13, 21}, 1);
  const auto b = random_values<double>(shape<2>{21, 18}, 2);
  auto found = unwritten<double>(shape<2>{13, 18});
  auto wanted = found.clone();
  onednn().matmul(a.read(), false, b.read(), false, found.view());
  eigen().matmul(a.read(), false, b.read(), false, wanted.view());
  CHECK(same_bytes(found, wanted));
}
