#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "tensors.hpp"

namespace {

using floats = std::vector<float>;
using doubles = std::vector<double>;

constexpr std::size_t batch = 2, heads = 4, key_heads = 2, length = 3, key_length = 5, width = 2;
constexpr double scale = 0.7;

// Where element (b, h, s, d) of so many heads and positions lies.
using place = std::size_t (*)(std::size_t b, std::size_t h, std::size_t s, std::size_t d, std::size_t of_heads,
                              std::size_t of_length);
std::size_t bnsd(std::size_t b, std::size_t h, std::size_t s, std::size_t d, std::size_t n, std::size_t l) {
  return ((b * n + h) * l + s) * width + d;
}
std::size_t bsnd(std::size_t b, std::size_t h, std::size_t s, std::size_t d, std::size_t n, std::size_t l) {
  return ((b * l + s) * n + h) * width + d;
}
std::size_t sbnd(std::size_t b, std::size_t h, std::size_t s, std::size_t d, std::size_t n, std::size_t) {
  return ((s * batch + b) * n + h) * width + d;
}

template <class Hidden>
doubles attend(place at, doubles const& q, doubles const& k, doubles const& v, Hidden hidden) {
  doubles y(q.size());
  for (std::size_t b = 0; b < batch; ++b)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < length; ++i) {
        doubles weights(key_length);
        double total = 0;
        auto of_key = h / (heads / key_heads);
        for (std::size_t j = 0; j < key_length; ++j) {
          if (hidden(i, j)) continue;
          double score = 0;
          for (std::size_t d = 0; d < width; ++d)
            score += q[at(b, h, i, d, heads, length)] * k[at(b, of_key, j, d, key_heads, key_length)];
          total += weights[j] = std::exp(score * scale);
        }
        for (std::size_t j = 0; j < key_length && total > 0; ++j)
          for (std::size_t d = 0; d < width; ++d)
            y[at(b, h, i, d, heads, length)] += weights[j] / total * v[at(b, of_key, j, d, key_heads, key_length)];
      }
  return y;
}

struct shapes {
  extents query, key;
  char const* layout;
  place at;
};

template <class Hidden>
void check(aclrtStream stream, shapes const& how, aclTensor* mask, std::int64_t mode, Hidden hidden) {
  auto q = some_values(batch * heads * length * width, 1), k = some_values(batch * key_heads * key_length * width, 2);
  auto v = some_values(k.size(), 3), dy = some_values(q.size(), 4);
  device_tensor<float> query(how.query, q), key(how.key, k), value(how.key, v), out(how.query), gradient(how.query, dy);
  device_tensor<float> largest({batch, heads, length, 8}), sums({batch, heads, length, 8});
  device_tensor<float> of_query(how.query), of_key(how.key), of_value(how.key);
  auto none = static_cast<aclTensor*>(nullptr);
  auto nothing = static_cast<aclIntArray*>(nullptr);
  auto* layout = const_cast<char*>(how.layout);
  std::int64_t const all = 65536, zero = 0, of_heads = heads;
  EXPECT(OPERATION(aclnnFlashAttentionScore)(stream, query, key, value, none, none, none, mask, nothing, scale, 1.0,
                                             all, all, of_heads, layout, zero, mode, largest, sums, none, out) == 0);
  doubles const x(q.begin(), q.end()), y(k.begin(), k.end()), z(v.begin(), v.end());
  EXPECT(close(out.read(), attend(how.at, x, y, z, hidden), 1e-4));
  EXPECT(OPERATION(aclnnFlashAttentionScoreGrad)(stream, query, key, value, gradient, none, none, none, mask, largest,
                                                 sums, none, out, nothing, scale, 1.0, all, all, of_heads, layout, zero,
                                                 mode, of_query, of_key, of_value, none) == 0);
  auto slopes = [&](doubles of, auto f) {
    doubles result(of.size());
    for (std::size_t i = 0; i < of.size(); ++i) {
      auto before = of[i];
      auto total = [&](double moved) {
        of[i] = before + moved;
        double sum = 0;
        auto found = f(of);
        for (std::size_t j = 0; j < found.size(); ++j) sum += static_cast<double>(dy[j]) * found[j];
        return sum;
      };
      auto above = total(1e-4);
      result[i] = (above - total(-1e-4)) / 2e-4;
      of[i] = before;
    }
    return result;
  };
  EXPECT(close(of_query.read(), slopes(x, [&](doubles const& w) { return attend(how.at, w, y, z, hidden); }), 1e-4));
  EXPECT(close(of_key.read(), slopes(y, [&](doubles const& w) { return attend(how.at, x, w, z, hidden); }), 1e-4));
  EXPECT(close(of_value.read(), slopes(z, [&](doubles const& w) { return attend(how.at, x, y, w, hidden); }), 1e-4));
}

shapes const layouts[]{
    {{batch, heads, length, width}, {batch, key_heads, key_length, width}, "BNSD", bnsd},
    {{batch, length, heads, width}, {batch, key_length, key_heads, width}, "BSND", bsnd},
    {{batch, length, heads* width}, {batch, key_length, key_heads* width}, "BSH", bsnd},
    {{length, batch, heads* width}, {key_length, batch, key_heads* width}, "SBH", sbnd},
};

}  // namespace

TEST_CASE("attention in each layout, with shared keys") {
  on_device(a2, [](aclrtStream stream) {
    for (auto const& layout : layouts) check(stream, layout, nullptr, 0, [](auto, auto) { return false; });
  });
}

TEST_CASE("attention under masks") {
  on_device(a2, [](aclrtStream stream) {
    // Of all pairs; the second row sees nothing.
    device_tensor<std::uint8_t> dense({3, 5}, {0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0});
    auto hidden = [](std::size_t i, std::size_t j) {
      return i == 1 || (i == 0 && (j == 1 || j == 4)) || (i == 2 && j == 0);
    };
    check(stream, layouts[0], dense, 0, hidden);
    check(stream, layouts[2], dense, 1, hidden);
    device_tensor<std::uint8_t> triangle({2048, 2048});
    check(stream, layouts[0], triangle, 2, [](std::size_t i, std::size_t j) { return j > i; });
    check(stream, layouts[1], triangle, 3, [](std::size_t i, std::size_t j) { return j > i + key_length - length; });
  });
}

TEST_CASE("attention that does not fit, or on the 910") {
  auto run = [](aclrtStream stream, extents const& rows, std::int64_t of_heads, char const* layout, double kept) {
    device_tensor<float> x({1, 2, 3, 4}), out({1, 2, 3, 4}), largest(rows), sums(rows);
    auto none = static_cast<aclTensor*>(nullptr);
    return OPERATION(aclnnFlashAttentionScore)(stream, x, x, x, none, none, none, none,
                                               static_cast<aclIntArray*>(nullptr), scale, kept, std::int64_t{65536},
                                               std::int64_t{65536}, of_heads, const_cast<char*>(layout),
                                               std::int64_t{0}, std::int64_t{0}, largest, sums, none, out);
  };
  on_device({}, [=](aclrtStream stream) { EXPECT(run(stream, {1, 2, 3, 8}, 2, "BNSD", 1) == no_kernel); });
  on_device(a2, [=](aclrtStream stream) {
    EXPECT(run(stream, {1, 2, 3, 8}, 2, "BNSD", 1) == 0);
    EXPECT(run(stream, {1, 2, 3}, 2, "BNSD", 1) == invalid_parameter);
    EXPECT(run(stream, {1, 2, 3, 8}, 3, "BNSD", 1) == invalid_parameter);
    EXPECT(run(stream, {1, 2, 3, 8}, 2, "BSH", 1) == invalid_parameter);
    EXPECT(run(stream, {1, 2, 3, 8}, 2, "NHWC", 1) == invalid_parameter);
    EXPECT(run(stream, {1, 2, 3, 8}, 2, "BNSD", 0.9) == invalid_parameter);
    EXPECT(run(stream, {1, 2, 3, 8}, 2, nullptr, 1) == null_parameter);
  });
}
