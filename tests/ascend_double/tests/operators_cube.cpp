#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_batch_matmul.h"
#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_convolution_backward.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_mm.h"
#include "tensors.hpp"

namespace {

using floats = std::vector<float>;

constexpr std::int8_t keep = 0, fastest = 1, use_half = 2, use_hf32 = 3;

floats product(floats const& a, floats const& b, std::size_t m, std::size_t k, std::size_t n) {
  floats result(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t j = 0; j < n; ++j) result[i * n + j] += a[i * k + l] * b[l * n + j];
  return result;
}

// Of images [n, c, h, w], as plainly as it can be written.
struct convolution {
  std::int64_t n, c, h, w, out, kh, kw, groups;
  extents stride, padding, dilation;  // padding: top, bottom, left, right

  std::int64_t rows() const { return (h + padding[0] + padding[1] - dilation[0] * (kh - 1) - 1) / stride[0] + 1; }
  std::int64_t columns() const { return (w + padding[2] + padding[3] - dilation[1] * (kw - 1) - 1) / stride[1] + 1; }
  extents input() const { return {n, c, h, w}; }
  extents weight() const { return {out, c / groups, kh, kw}; }
  extents output() const { return {n, out, rows(), columns()}; }

  // Calls f(element of the output, of the input, of the weight) for each product.
  template <class F>
  void each(F f) const {
    auto per_group = c / groups;
    for (std::int64_t s = 0; s < n; ++s)
      for (std::int64_t o = 0; o < out; ++o)
        for (std::int64_t y = 0; y < rows(); ++y)
          for (std::int64_t x = 0; x < columns(); ++x)
            for (std::int64_t l = 0; l < per_group; ++l)
              for (std::int64_t i = 0; i < kh; ++i)
                for (std::int64_t j = 0; j < kw; ++j) {
                  auto channel = o / (out / groups) * per_group + l;
                  auto at_h = y * stride[0] - padding[0] + i * dilation[0];
                  auto at_w = x * stride[1] - padding[2] + j * dilation[1];
                  if (at_h < 0 || at_h >= h || at_w < 0 || at_w >= w) continue;
                  f(static_cast<std::size_t>(((s * out + o) * rows() + y) * columns() + x),
                    static_cast<std::size_t>(((s * c + channel) * h + at_h) * w + at_w),
                    static_cast<std::size_t>(((o * per_group + l) * kh + i) * kw + j));
                }
  }
};

extents short_padding(convolution const& c) {
  bool even = c.padding[0] == c.padding[1] && c.padding[2] == c.padding[3];
  return even ? extents{c.padding[0], c.padding[2]} : c.padding;
}

// The output, and the gradients of input, weight and bias, against their definition.
void check_convolution(aclrtStream stream, convolution const& c) {
  auto x = some_values(count_of(c.input()), 1), k = some_values(count_of(c.weight()), 2);
  auto b = some_values(static_cast<std::size_t>(c.out), 3), dy = some_values(count_of(c.output()), 4);
  floats y(count_of(c.output())), dx(x.size()), dk(k.size()), db(b.size());
  auto plane = static_cast<std::size_t>(c.rows() * c.columns());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = b[i / plane % b.size()];
    db[i / plane % b.size()] += dy[i];
  }
  c.each([&](std::size_t to, std::size_t from, std::size_t by) {
    y[to] += x[from] * k[by];
    dx[from] += dy[to] * k[by];
    dk[by] += dy[to] * x[from];
  });
  layout const nchw{ACL_FORMAT_NCHW};
  device_tensor<float> input(c.input(), x, nchw), weight(c.weight(), k, nchw), bias({c.out}, b);
  device_tensor<float> gradient(c.output(), dy, nchw), output(c.output(), ACL_FORMAT_NCHW);
  device_tensor<float> of_input(c.input(), ACL_FORMAT_NCHW), of_weight(c.weight(), ACL_FORMAT_NCHW), of_bias({c.out});
  integers stride(c.stride), padding(short_padding(c)), dilation(c.dilation), none({0, 0}), sizes(extents{c.out});
  EXPECT(OPERATION(aclnnConvolution)(stream, input, weight, bias, stride, padding, dilation, false, none, c.groups,
                                     output, fastest) == 0);
  EXPECT(close(output.read(), y, 1e-4));
  three_flags all(true, true, true);
  EXPECT(OPERATION(aclnnConvolutionBackward)(stream, gradient, input, weight, sizes, stride, padding, dilation, false,
                                             none, static_cast<int>(c.groups), all, fastest, of_input, of_weight,
                                             of_bias) == 0);
  EXPECT(close(of_input.read(), dx, 1e-4));
  EXPECT(close(of_weight.read(), dk, 1e-4));
  EXPECT(close(of_bias.read(), db, 1e-4));

  // Transposed, the convolution goes from what was its output to what was its input, and its gradients change places.
  if (c.stride != extents{2, 1}) return;
  extents left{c.h - ((c.rows() - 1) * c.stride[0] - c.padding[0] - c.padding[1] + c.dilation[0] * (c.kh - 1) + 1),
               c.w - ((c.columns() - 1) * c.stride[1] - c.padding[2] - c.padding[3] + c.dilation[1] * (c.kw - 1) + 1)};
  integers remainder(left);
  EXPECT(OPERATION(aclnnConvolution)(stream, gradient, weight, static_cast<aclTensor*>(nullptr), stride, padding,
                                     dilation, true, remainder, c.groups, of_input, fastest) == 0);
  EXPECT(close(of_input.read(), dx, 1e-4));
  three_flags two(true, true, false);
  device_tensor<float> of_gradient(c.output(), ACL_FORMAT_NCHW);
  EXPECT(OPERATION(aclnnConvolutionBackward)(stream, input, gradient, weight, static_cast<aclIntArray*>(nullptr),
                                             stride, padding, dilation, true, remainder, static_cast<int>(c.groups),
                                             two, fastest, of_gradient, of_weight,
                                             static_cast<aclTensor*>(nullptr)) == 0);
  floats without_bias(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) without_bias[i] = y[i] - b[i / plane % b.size()];
  EXPECT(close(of_gradient.read(), without_bias, 1e-4));
  EXPECT(close(of_weight.read(), dk, 1e-4));
}

}  // namespace

TEST_CASE("products of matrices, of views and of batches") {
  on_device(exact, [](aclrtStream stream) {
    auto a = some_values(15, 1), b = some_values(35, 2), c = some_values(7, 3);
    auto ab = product(a, b, 3, 5, 7);
    device_tensor<float> x({3, 5}, a), y({5, 7}, b), z({3, 7});
    EXPECT(OPERATION(aclnnMm)(stream, x, y, z, fastest) == 0 && close(z.read(), ab));
    EXPECT(OPERATION(aclnnMatmul)(stream, x, y, z, fastest) == 0 && close(z.read(), ab));

    // The same elements stored the other way round, behind a gap.
    floats stored(3 + 15);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 5; ++j) stored[3 + j * 3 + i] = a[i * 5 + j];
    device_tensor<float> view({3, 5}, stored, {ACL_FORMAT_ND, {1, 3}, 3});
    EXPECT(OPERATION(aclnnMm)(stream, view, y, z, fastest) == 0 && close(z.read(), ab));

    device_tensor<float> row({5}, floats(a.begin(), a.begin() + 5)), of_row({7}), of_column({3}), dot(extents{});
    EXPECT(OPERATION(aclnnMatmul)(stream, row, y, of_row, fastest) == 0);
    EXPECT(close(of_row.read(), floats(ab.begin(), ab.begin() + 7)));
    EXPECT(OPERATION(aclnnMatmul)(stream, x, row, of_column, fastest) == 0);
    EXPECT(close(of_column.read(), product(a, floats(a.begin(), a.begin() + 5), 3, 5, 1)));
    EXPECT(OPERATION(aclnnMatmul)(stream, row, row, dot, fastest) == 0);

    auto many = some_values(2 * 15, 4);
    device_tensor<float> batch({2, 1, 3, 5}, many), both({2, 1, 3, 7});
    EXPECT(OPERATION(aclnnMatmul)(stream, batch, y, both, fastest) == 0);
    auto wanted = product(floats(many.begin(), many.begin() + 15), b, 3, 5, 7);
    auto second = product(floats(many.begin() + 15, many.end()), b, 3, 5, 7);
    wanted.insert(wanted.end(), second.begin(), second.end());
    EXPECT(close(both.read(), wanted));

    device_tensor<float> flat({2, 3, 5}, many), pair({2, 5, 7}, some_values(70, 5)), flat_out({2, 3, 7});
    EXPECT(OPERATION(aclnnBatchMatMul)(stream, flat, pair, flat_out, fastest) == 0);
    auto of_pair = some_values(70, 5);
    auto first =
        product(floats(many.begin(), many.begin() + 15), floats(of_pair.begin(), of_pair.begin() + 35), 3, 5, 7);
    second = product(floats(many.begin() + 15, many.end()), floats(of_pair.begin() + 35, of_pair.end()), 3, 5, 7);
    first.insert(first.end(), second.begin(), second.end());
    EXPECT(close(flat_out.read(), first));

    device_tensor<float> added({7}, c);
    number beta(2.0f), alpha(0.5f);
    EXPECT(OPERATION(aclnnAddmm)(stream, added, x, y, beta, alpha, z, fastest) == 0);
    auto sum = ab;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = 2 * c[i % 7] + 0.5f * ab[i];
    EXPECT(close(z.read(), sum));
    EXPECT(OPERATION(aclnnInplaceAddmm)(stream, z, x, y, beta, alpha, fastest) == 0);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = 2 * sum[i] + 0.5f * ab[i];
    EXPECT(close(z.read(), sum));
  });
}

TEST_CASE("products that do not fit are refused") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({3, 5}), y({5, 7}), z({3, 7}), cube({2, 3, 5}), other({3, 5, 7}), out({2, 3, 7});
    device_tensor<std::uint16_t> narrow({3, 7});
    EXPECT(OPERATION(aclnnMm)(stream, x, x, z, fastest) == invalid_parameter);
    EXPECT(OPERATION(aclnnMm)(stream, x, y, x, fastest) == invalid_parameter);
    EXPECT(OPERATION(aclnnMm)(stream, x, y, narrow, fastest) == invalid_parameter);
    EXPECT(OPERATION(aclnnMm)(stream, cube, y, out, fastest) == invalid_parameter);
    EXPECT(OPERATION(aclnnBatchMatMul)(stream, x, y, z, fastest) == invalid_parameter);
    EXPECT(OPERATION(aclnnBatchMatMul)(stream, cube, other, out, fastest) == invalid_parameter);
    EXPECT(OPERATION(aclnnMatmul)(stream, cube, other, out, fastest) == invalid_parameter);
    number one(1.0f);
    EXPECT(OPERATION(aclnnAddmm)(stream, x, x, y, one, one, z, fastest) == invalid_parameter);
    EXPECT(OPERATION(aclnnMm)(stream, x, y, z, std::int8_t{9}) == invalid_parameter);
  });
}

TEST_CASE("what the cube does to FP32") {
  // 1 + 2^-11 is an HF32 number, and 1 in FP16; 1 + 2^-13 is 1 in HF32.
  auto one_by_one = [](aclrtStream stream, float of, std::int8_t type, int status, float wanted) {
    device_tensor<float> x({1, 1}, {of}), one({1, 1}, {1}), z({1, 1});
    EXPECT(OPERATION(aclnnMm)(stream, x, one, z, type) == status);
    if (status == 0) EXPECT(z.read()[0] == wanted);
  };
  float const little = 1 + 1.0f / 4096, less = 1 + 1.0f / 16384;
  on_device({}, [=](aclrtStream stream) {
    one_by_one(stream, little, keep, invalid_parameter, 0);
    one_by_one(stream, little, use_hf32, invalid_parameter, 0);
    one_by_one(stream, little, fastest, 0, 1);
    one_by_one(stream, little, use_half, 0, 1);
    // FP16 as it is.
    device_tensor<std::uint16_t> two({1, 1}, {0x4000}), three({1, 1}, {0x4200}), six({1, 1});
    EXPECT(OPERATION(aclnnMm)(stream, two, three, six, keep) == 0 && six.read()[0] == 0x4600);
  });
  on_device(exact, [=](aclrtStream stream) { one_by_one(stream, less, fastest, 0, less); });
  on_device(a2, [=](aclrtStream stream) {
    one_by_one(stream, less, keep, 0, less);
    one_by_one(stream, less, fastest, 0, 1);
    one_by_one(stream, 1 + 1.0f / 1024, use_hf32, 0, 1 + 1.0f / 1024);
    one_by_one(stream, little, use_half, 0, 1);
  });
}

TEST_CASE("convolutions and their gradients") {
  on_device(exact, [](aclrtStream stream) {
    check_convolution(stream, {2, 3, 7, 6, 4, 3, 3, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}});
    check_convolution(stream, {1, 4, 10, 8, 6, 3, 2, 2, {2, 1}, {0, 0, 1, 1}, {2, 1}});
    check_convolution(stream, {2, 2, 5, 5, 3, 2, 3, 1, {2, 2}, {0, 1, 1, 2}, {1, 1}});
    check_convolution(stream, {3, 5, 1, 1, 5, 1, 1, 5, {1, 1}, {0, 0, 0, 0}, {1, 1}});
  });
}

TEST_CASE("a convolution of one dimension") {
  on_device(exact, [](aclrtStream stream) {
    layout const ncl{ACL_FORMAT_NCL};
    device_tensor<float> x({1, 1, 4}, {1, 2, 3, 4}, ncl), k({1, 1, 2}, {1, -1}, ncl), y({1, 1, 3}, ACL_FORMAT_NCL);
    integers one({1}), zero(extents{0});
    EXPECT(OPERATION(aclnnConvolution)(stream, x, k, static_cast<aclTensor*>(nullptr), one, zero, one, false, zero,
                                       std::int64_t{1}, y, fastest) == 0);
    EXPECT(y.read() == floats{-1, -1, -1});
  });
}

TEST_CASE("convolutions that do not fit are refused") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({1, 2, 4, 4}, ACL_FORMAT_NCHW), k({3, 2, 3, 3}, ACL_FORMAT_NCHW);
    device_tensor<float> y({1, 3, 2, 2}, ACL_FORMAT_NCHW), wide({1, 3, 4, 4}, ACL_FORMAT_NCHW);
    device_tensor<float> bare({1, 2, 4, 4}), bias({2});
    integers one({1, 1}), zero({0, 0}), short_one({1});
    auto none = static_cast<aclTensor*>(nullptr);
    auto run = [&](auto const& input, auto const& weight, aclTensor* b, auto const& stride, aclIntArray* output_padding,
                   std::int64_t groups, auto const& out, std::int8_t type) {
      return OPERATION(aclnnConvolution)(stream, input, weight, b, stride, zero, one, false, output_padding, groups,
                                         out, type);
    };
    EXPECT(run(x, k, none, one, zero, 1, y, fastest) == 0);
    EXPECT(run(bare, k, none, one, zero, 1, y, fastest) == invalid_parameter);
    EXPECT(run(x, k, none, one, zero, 1, wide, fastest) == invalid_parameter);
    EXPECT(run(x, k, none, short_one, zero, 1, y, fastest) == invalid_parameter);
    EXPECT(run(x, k, bias, one, zero, 1, y, fastest) == invalid_parameter);
    EXPECT(run(x, k, none, one, nullptr, 1, y, fastest) == null_parameter);
    EXPECT(run(x, k, none, one, zero, 2, y, fastest) == invalid_parameter);
    EXPECT(run(x, k, none, one, zero, 1, y, keep) == invalid_parameter);
  });
}
