#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "aclnnop/aclnn_adaptive_avg_pool2d.h"
#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "aclnnop/aclnn_avgpool2d.h"
#include "aclnnop/aclnn_avgpool2d_backward.h"
#include "aclnnop/aclnn_max_pool2d_with_indices.h"
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "tensors.hpp"

namespace {

using floats = std::vector<float>;

layout const nchw{ACL_FORMAT_NCHW};
constexpr std::int8_t keep = 0, fastest = 1;

struct pooled {
  floats largest, mean, of_largest, of_mean;  // results, and gradients of dy
  std::vector<std::int32_t> places;
};

// Windows of 3 x 2, stride 2, padding 1 and 0, over planes of 6 x 5 whose outputs are 3 x 2.
pooled reference(floats const& x, floats const& dy, bool counts_padding) {
  pooled result;
  result.of_largest.resize(x.size());
  result.of_mean.resize(x.size());
  for (std::size_t plane = 0; plane < x.size() / 30; ++plane)
    for (int row = 0; row < 3; ++row)
      for (int column = 0; column < 2; ++column) {
        std::vector<std::size_t> covered;
        for (int i = 2 * row - 1; i < 2 * row + 2; ++i)
          for (int j = 2 * column; j < 2 * column + 2; ++j)
            if (i >= 0 && i < 6) covered.push_back(plane * 30 + static_cast<std::size_t>(i * 5 + j));
        auto most = covered.front();
        float sum = 0;
        for (auto at : covered) {
          if (x[at] > x[most]) most = at;
          sum += x[at];
        }
        auto divisor = counts_padding ? 6.0f : static_cast<float>(covered.size());
        auto upstream = dy[result.largest.size()];
        result.largest.push_back(x[most]);
        result.mean.push_back(sum / divisor);
        result.places.push_back(static_cast<std::int32_t>(most % 30));
        result.of_largest[most] += upstream;
        for (auto at : covered) result.of_mean[at] += upstream / divisor;
      }
  return result;
}

// FP16 numbers, that the 910 pools as they are.
floats halves(std::size_t count, unsigned seed) {
  auto values = some_values(count, seed);
  for (auto& value : values) value = std::round(value * 512) / 512;
  return values;
}

}  // namespace

TEST_CASE("maxima of windows and their gradients") {
  auto x = halves(2 * 3 * 30, 1), dy = halves(2 * 3 * 6, 2);
  for (auto& value : x) value = std::round(value * 2);  // of which many are equal: the first counts
  auto wanted = reference(x, dy, true);
  auto with_mask = [=](aclrtStream stream) {
    device_tensor<float> in({2, 3, 6, 5}, x, nchw), gradient({2, 3, 3, 2}, dy, nchw);
    device_tensor<float> out({2, 3, 3, 2}, ACL_FORMAT_NCHW), of_in({2, 3, 6, 5}, ACL_FORMAT_NCHW);
    device_tensor<std::int8_t> mask({2, 3, 6, 64}, ACL_FORMAT_NCHW), small({2, 3, 6, 32}, ACL_FORMAT_NCHW);
    integers kernel({3, 2}), stride(extents{2}), padding({1, 0}), one({1, 1}), two({2, 2});
    EXPECT(OPERATION(aclnnMaxPool2dWithMask)(stream, in, kernel, stride, padding, one, false, out, mask) == 0);
    EXPECT(close(out.read(), wanted.largest, 0));
    EXPECT(OPERATION(aclnnMaxPool2dWithMaskBackward)(stream, gradient, in, mask, kernel, stride, padding, one, false,
                                                     of_in) == 0);
    EXPECT(close(of_in.read(), wanted.of_largest));
    EXPECT(OPERATION(aclnnMaxPool2dWithMask)(stream, in, kernel, stride, padding, one, false, out, small) ==
           invalid_parameter);
    EXPECT(OPERATION(aclnnMaxPool2dWithMask)(stream, in, kernel, stride, padding, two, false, out, mask) ==
           invalid_parameter);
    EXPECT(OPERATION(aclnnMaxPool2dWithMask)(stream, in, kernel, stride, two, one, false, out, mask) ==
           invalid_parameter);
    EXPECT(OPERATION(aclnnMaxPool2dWithMask)(stream, in, kernel, stride, padding, one, true, out, mask) ==
           invalid_parameter);
  };
  on_device({}, with_mask);
  on_device(a2, with_mask);
  auto with_indices = [=](bool there) {
    return [=](aclrtStream stream) {
      device_tensor<float> in({2, 3, 6, 5}, x, nchw), gradient({2, 3, 3, 2}, dy, nchw);
      device_tensor<float> out({2, 3, 3, 2}, ACL_FORMAT_NCHW), of_in({2, 3, 6, 5}, ACL_FORMAT_NCHW);
      device_tensor<std::int32_t> places({2, 3, 3, 2}, ACL_FORMAT_NCHW);
      integers kernel({3, 2}), stride(extents{2}), padding({1, 0}), one({1, 1});
      auto status = OPERATION(aclnnMaxPool2dWithIndices)(stream, in, kernel, stride, padding, one, false, out, places);
      auto backward = OPERATION(aclnnMaxPool2dWithIndicesBackward)(stream, gradient, in, places, kernel, stride,
                                                                   padding, one, false, of_in);
      EXPECT(status == (there ? 0 : no_kernel));
      EXPECT(backward == (there ? 0 : no_kernel));
      if (!there) return;
      EXPECT(close(out.read(), wanted.largest, 0));
      EXPECT(places.read() == wanted.places);
      EXPECT(close(of_in.read(), wanted.of_largest));
    };
  };
  on_device({}, with_indices(false));
  on_device(a2, with_indices(true));
}

TEST_CASE("means of windows and their gradients") {
  auto x = halves(3 * 30, 1), dy = halves(3 * 6, 2);
  auto run = [=](std::int8_t right, std::int8_t wrong) {
    return [=](aclrtStream stream) {
      device_tensor<float> in({1, 3, 6, 5}, x, nchw), gradient({1, 3, 3, 2}, dy, nchw);
      device_tensor<float> out({1, 3, 3, 2}, ACL_FORMAT_NCHW), of_in({1, 3, 6, 5}, ACL_FORMAT_NCHW);
      device_tensor<float> bare({1, 3, 6, 5});
      integers kernel({3, 2}), stride({2, 2}), padding({1, 0});
      for (bool counts : {false, true}) {
        auto wanted = reference(x, dy, counts);
        EXPECT(OPERATION(aclnnAvgPool2d)(stream, in, kernel, stride, padding, false, counts, std::int64_t{0}, right,
                                         out) == 0);
        EXPECT(close(out.read(), wanted.mean));
        EXPECT(OPERATION(aclnnAvgPool2dBackward)(stream, gradient, in, kernel, stride, padding, false, counts,
                                                 std::int64_t{0}, right, of_in) == 0);
        EXPECT(close(of_in.read(), wanted.of_mean));
      }
      // Sums.
      EXPECT(OPERATION(aclnnAvgPool2d)(stream, in, kernel, stride, padding, false, true, std::int64_t{1}, right, out) ==
             0);
      auto sums = reference(x, dy, true).mean;
      for (auto& sum : sums) sum *= 6;
      EXPECT(close(out.read(), sums));
      EXPECT(OPERATION(aclnnAvgPool2d)(stream, in, kernel, stride, padding, false, true, std::int64_t{0}, wrong, out) ==
             invalid_parameter);
      EXPECT(OPERATION(aclnnAvgPool2d)(stream, bare, kernel, stride, padding, false, true, std::int64_t{0}, right,
                                       out) == invalid_parameter);
    };
  };
  on_device({}, run(fastest, keep));
  on_device(a2, run(keep, fastest));
}

TEST_CASE("a ceiling's last window begins within the input or its padding in front") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({1, 1, 1, 5}, {1, 2, 3, 4, 5}, nchw), y({1, 1, 1, 3}, ACL_FORMAT_NCHW);
    integers kernel({1, 2}), stride({1, 2}), none({0, 0});
    EXPECT(OPERATION(aclnnAvgPool2d)(stream, x, kernel, stride, none, true, true, std::int64_t{0}, fastest, y) == 0);
    EXPECT(y.read() == floats{1.5f, 3.5f, 5});
  });
}

TEST_CASE("the 910 pools FP32 as FP16, and no NaN") {
  auto pool = [](float value, int status, float wanted) {
    return [=](aclrtStream stream) {
      device_tensor<float> x({1, 1, 1, 1}, {value}, nchw), y({1, 1, 1, 1}, ACL_FORMAT_NCHW);
      device_tensor<std::int8_t> mask({1, 1, 1, 64}, ACL_FORMAT_NCHW);
      integers one({1, 1}), none({0, 0});
      EXPECT(OPERATION(aclnnMaxPool2dWithMask)(stream, x, one, one, none, one, false, y, mask) == status);
      if (status == 0) EXPECT(y.read()[0] == wanted);
    };
  };
  float const little = 1 + 1.0f / 4096;
  on_device({}, pool(little, 0, 1));
  on_device(exact, pool(little, 0, little));
  on_device(a2, pool(little, 0, little));
  auto result = in_child({}, [&] {
    session s;
    pool(std::numeric_limits<float>::quiet_NaN(), 507015, 0)(s.stream);
    _exit(0);
  });
  CHECK_MESSAGE(result.code == 0, result.errors);
}

TEST_CASE("windows of about equal size") {
  on_device({}, [](aclrtStream stream) {
    auto x = some_values(2 * 35, 1), dy = some_values(2 * 6, 2);
    floats y(12), dx(70);
    for (std::size_t plane = 0; plane < 2; ++plane)
      for (std::size_t row = 0; row < 3; ++row)
        for (std::size_t column = 0; column < 2; ++column) {
          auto top = row * 7 / 3, bottom = ((row + 1) * 7 + 2) / 3, left = column * 5 / 2,
               right = ((column + 1) * 5 + 1) / 2;
          auto to = plane * 6 + row * 2 + column;
          auto count = static_cast<float>((bottom - top) * (right - left));
          for (auto i = top; i < bottom; ++i)
            for (auto j = left; j < right; ++j) {
              y[to] += x[plane * 35 + i * 5 + j] / count;
              dx[plane * 35 + i * 5 + j] += dy[to] / count;
            }
        }
    device_tensor<float> in({1, 2, 7, 5}, x, nchw), out({1, 2, 3, 2}, ACL_FORMAT_NCHW);
    device_tensor<float> gradient({1, 2, 3, 2}, dy, nchw), of_in({1, 2, 7, 5}, ACL_FORMAT_NCHW);
    integers size({3, 2}), other({2, 2});
    EXPECT(OPERATION(aclnnAdaptiveAvgPool2d)(stream, in, size, out) == 0);
    EXPECT(close(out.read(), y));
    EXPECT(OPERATION(aclnnAdaptiveAvgPool2dBackward)(stream, gradient, in, of_in) == 0);
    EXPECT(close(of_in.read(), dx));
    EXPECT(OPERATION(aclnnAdaptiveAvgPool2d)(stream, in, other, out) == invalid_parameter);
  });
}
