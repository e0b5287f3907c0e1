#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "aclnnop/aclnn_amax.h"
#include "aclnnop/aclnn_amin.h"
#include "aclnnop/aclnn_arange.h"
#include "aclnnop/aclnn_argmax.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_constant_pad_nd.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_embedding.h"
#include "aclnnop/aclnn_embedding_dense_backward.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_gather.h"
#include "aclnnop/aclnn_gather_v2.h"
#include "aclnnop/aclnn_index_select.h"
#include "aclnnop/aclnn_max_dim.h"
#include "aclnnop/aclnn_mean.h"
#include "aclnnop/aclnn_one_hot.h"
#include "aclnnop/aclnn_ones.h"
#include "aclnnop/aclnn_permute.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_slice.h"
#include "aclnnop/aclnn_slice_v2.h"
#include "aclnnop/aclnn_zero.h"
#include "tensors.hpp"

namespace {

using floats = std::vector<float>;
using longs = std::vector<std::int64_t>;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

floats counted(std::size_t count) {
  floats result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<float>(i);
  return result;
}

}  // namespace

TEST_CASE("copies convert, broadcast, and go between views") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> row({3}, {1, 2, 3});
    device_tensor<std::int32_t> to({2, 3}, std::vector<std::int32_t>(10, -1), {ACL_FORMAT_ND, {1, 3}, 1});
    EXPECT(OPERATION(aclnnInplaceCopy)(stream, to, row) == 0);
    EXPECT(to.read() == std::vector<std::int32_t>{-1, 1, 1, -1, 2, 2, -1, 3, 3, -1});
    EXPECT(OPERATION(aclnnInplaceCopy)(stream, row, to) == invalid_parameter);

    device_tensor<float> odd({5}, {not_a_number, infinity, -infinity, -2.75f, 2.75f});
    device_tensor<std::int32_t> whole({5});
    EXPECT(OPERATION(aclnnCast)(stream, odd, ACL_INT32, whole) == 0);
    auto constexpr most = std::numeric_limits<std::int32_t>::max();
    EXPECT(whole.read() == std::vector<std::int32_t>{0, most, -most - 1, -2, 2});
    EXPECT(OPERATION(aclnnCast)(stream, odd, ACL_INT64, whole) == invalid_parameter);
    device_tensor<std::int64_t> large({1}, {(std::int64_t{1} << 62) + 1}), again({1});
    EXPECT(OPERATION(aclnnCast)(stream, large, ACL_INT64, again) == 0 && again.read() == large.read());
    device_tensor<std::uint16_t> half({5});
    EXPECT(OPERATION(aclnnCast)(stream, odd, ACL_FLOAT16, half) == 0);
    EXPECT(half.read()[1] == 0x7c00 && half.read()[4] == 0x4180);
    device_tensor<std::uint8_t> truth({3});
    EXPECT(OPERATION(aclnnCast)(stream, row, ACL_BOOL, truth) == 0);
    EXPECT(truth.read() == std::vector<std::uint8_t>{1, 1, 1});

    device_tensor<float> box({2, 3, 4}, counted(24)), turned({4, 2, 3});
    integers order({2, 0, -2}), twice({0, 0, 1});
    EXPECT(OPERATION(aclnnPermute)(stream, box, order, turned) == 0);
    floats wanted;
    for (int k = 0; k < 4; ++k)
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j) wanted.push_back(static_cast<float>((i * 3 + j) * 4 + k));
    EXPECT(turned.read() == wanted);
    EXPECT(OPERATION(aclnnPermute)(stream, box, twice, turned) == invalid_parameter);
    EXPECT(OPERATION(aclnnPermute)(stream, box, order, box) == invalid_parameter);
  });
}

TEST_CASE("what fills") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({2}, floats(5, 9), {ACL_FORMAT_ND, {2}, 1});
    number third(1.0f / 3);
    EXPECT(OPERATION(aclnnInplaceFillScalar)(stream, x, third) == 0);
    EXPECT(x.read() == floats{9, 1.0f / 3, 9, 1.0f / 3, 9});
    EXPECT(OPERATION(aclnnInplaceZero)(stream, x) == 0 && x.read() == floats{9, 0, 9, 0, 9});
    EXPECT(OPERATION(aclnnInplaceOne)(stream, x) == 0 && x.read() == floats{9, 1, 9, 1, 9});
    device_tensor<std::int64_t> steps({3}), four({4});
    number begin(std::int64_t{5}), end(std::int64_t{12}), by(std::int64_t{3});
    EXPECT(OPERATION(aclnnArange)(stream, begin, end, by, steps) == 0 && steps.read() == longs{5, 8, 11});
    EXPECT(OPERATION(aclnnArange)(stream, begin, end, by, four) == invalid_parameter);
    EXPECT(OPERATION(aclnnArange)(stream, end, begin, by, steps) == invalid_parameter);
  });
}

TEST_CASE("sums, means and extremes along dimensions") {
  on_device({}, [](aclrtStream stream) {
    auto values = some_values(24, 1);
    device_tensor<float> x({2, 3, 4}, values), outer({2, 1, 4}), last({3}), all(extents{}), flat({2, 4});
    device_tensor<float> turned({4, 3, 2}, values, {ACL_FORMAT_ND, {1, 4, 12}});
    integers middle({1}), ends({0, -1}), none(extents{}), twice({1, -2}), beyond({3});
    auto along_middle = [&](auto f) {
      floats result;
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t k = 0; k < 4; ++k)
          result.push_back(f(values[i * 12 + k], values[i * 12 + 4 + k], values[i * 12 + 8 + k]));
      return result;
    };
    EXPECT(OPERATION(aclnnReduceSum)(stream, x, middle, true, ACL_FLOAT, outer) == 0);
    EXPECT(close(outer.read(), along_middle([](float a, float b, float c) { return a + b + c; })));
    EXPECT(OPERATION(aclnnMean)(stream, x, middle, false, ACL_FLOAT, flat) == 0);
    EXPECT(close(flat.read(), along_middle([](float a, float b, float c) { return (a + b + c) / 3; })));
    EXPECT(OPERATION(aclnnAmax)(stream, x, middle, false, flat) == 0);
    EXPECT(close(flat.read(), along_middle([](float a, float b, float c) { return std::max({a, b, c}); }), 0));
    EXPECT(OPERATION(aclnnAmin)(stream, x, middle, true, outer) == 0);
    EXPECT(close(outer.read(), along_middle([](float a, float b, float c) { return std::min({a, b, c}); }), 0));
    floats of_last(3), of_all(1);
    for (std::size_t i = 0; i < 24; ++i) {
      of_last[i / 4 % 3] += values[i];
      of_all[0] += values[i];
    }
    EXPECT(OPERATION(aclnnReduceSum)(stream, turned, ends, false, ACL_FLOAT, last) == 0);
    EXPECT(close(last.read(), of_last));
    EXPECT(OPERATION(aclnnReduceSum)(stream, x, none, false, ACL_FLOAT, all) == 0 && close(all.read(), of_all));
    EXPECT(OPERATION(aclnnReduceSum)(stream, x, twice, false, ACL_FLOAT, flat) == invalid_parameter);
    EXPECT(OPERATION(aclnnReduceSum)(stream, x, beyond, false, ACL_FLOAT, flat) == invalid_parameter);
    EXPECT(OPERATION(aclnnReduceSum)(stream, x, middle, true, ACL_FLOAT, flat) == invalid_parameter);
    EXPECT(OPERATION(aclnnReduceSum)(stream, x, middle, false, ACL_FLOAT16, flat) == invalid_parameter);

    device_tensor<float> odd({3, 3}, {1, 5, 5, not_a_number, 2, 9, -1, -3, -2}), most({3});
    device_tensor<std::int64_t> at({3});
    device_tensor<std::int32_t> first({3});
    EXPECT(OPERATION(aclnnMaxDim)(stream, odd, std::int64_t{1}, false, most, at) == 0);
    EXPECT(close(most.read(), floats{5, not_a_number, -1}) && at.read() == longs{1, 0, 0});
    EXPECT(OPERATION(aclnnArgMax)(stream, odd, std::int64_t{-2}, false, first) == 0);
    EXPECT(first.read() == std::vector<std::int32_t>{1, 0, 1});
    EXPECT(OPERATION(aclnnArgMax)(stream, odd, std::int64_t{0}, false, most) == invalid_parameter);
  });
}

TEST_CASE("what cuts and joins") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({3, 4}, counted(12)), part({3, 2}), corner({2, 2});
    EXPECT(OPERATION(aclnnSlice)(stream, x, std::int64_t{1}, std::int64_t{-3}, std::int64_t{99}, std::int64_t{2},
                                 part) == 0);
    EXPECT(part.read() == floats{1, 3, 5, 7, 9, 11});
    EXPECT(OPERATION(aclnnSlice)(stream, x, std::int64_t{1}, std::int64_t{0}, std::int64_t{4}, std::int64_t{0}, part) ==
           invalid_parameter);
    EXPECT(OPERATION(aclnnSlice)(stream, x, std::int64_t{1}, std::int64_t{0}, std::int64_t{4}, std::int64_t{1}, part) ==
           invalid_parameter);
    integers starts({1, 0}), ends({3, 4}), axes({0, 1}), steps({1, 2}), one({1});
    EXPECT(OPERATION(aclnnSliceV2)(stream, x, starts, ends, axes, steps, corner) == 0);
    EXPECT(corner.read() == floats{4, 6, 8, 10});
    EXPECT(OPERATION(aclnnSliceV2)(stream, x, starts, ends, axes, one, corner) == invalid_parameter);

    {
      // The list takes its tensors with it.
      float const first[]{1, 2, 3}, second[]{4, 5, 6, 7, 8, 9};
      device_values<float> a({first, first + 3}), b({second, second + 6});
      auto made = [](extents const& shape, void* address) {
        return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                               shape.size(), address);
      };
      aclTensor const* both[]{made({3, 1}, a.get()), made({3, 2}, b.get())};
      auto* list = aclCreateTensorList(both, 2);
      device_tensor<float> joined({3, 3}), wrong({3, 4});
      EXPECT(OPERATION(aclnnCat)(stream, list, std::int64_t{-1}, joined) == 0);
      EXPECT(joined.read() == floats{1, 4, 5, 2, 6, 7, 3, 8, 9});
      EXPECT(OPERATION(aclnnCat)(stream, list, std::int64_t{-1}, wrong) == invalid_parameter);
      EXPECT(OPERATION(aclnnCat)(stream, list, std::int64_t{0}, joined) == invalid_parameter);
      EXPECT(aclDestroyTensorList(list) == 0);
    }

    device_tensor<float> square({2, 2}, {1, 2, 3, 4}), padded({3, 3});
    integers pad({-1, 2, 1, 0});
    number seven(7.0f);
    EXPECT(OPERATION(aclnnConstantPadNd)(stream, square, pad, seven, padded) == 0);
    EXPECT(padded.read() == floats{7, 7, 7, 2, 7, 7, 4, 7, 7});
    EXPECT(OPERATION(aclnnConstantPadNd)(stream, square, pad, seven, square) == invalid_parameter);
  });
}

TEST_CASE("what looks up by index") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> x({2, 3, 2}, counted(12)), y({2, 2, 2, 2}), z({2, 2, 2});
    device_tensor<std::int32_t> square({2, 2}, {2, 0, 1, 1}), row({2}, {2, 0});
    EXPECT(OPERATION(aclnnGatherV2)(stream, x, std::int64_t{1}, square, y) == 0);
    EXPECT(y.read() == floats{4, 5, 0, 1, 2, 3, 2, 3, 10, 11, 6, 7, 8, 9, 8, 9});
    EXPECT(OPERATION(aclnnIndexSelect)(stream, x, std::int64_t{-2}, row, z) == 0);
    EXPECT(z.read() == floats{4, 5, 0, 1, 10, 11, 6, 7});
    EXPECT(OPERATION(aclnnIndexSelect)(stream, x, std::int64_t{1}, square, y) == invalid_parameter);
    EXPECT(OPERATION(aclnnGatherV2)(stream, x, std::int64_t{0}, square, y) == invalid_parameter);
    EXPECT(OPERATION(aclnnGather)(stream, x, std::int64_t{0}, row, z) == no_kernel);

    device_tensor<std::int64_t> labels({2}, {2, 7});
    device_tensor<float> on({1}, {5}), off({1}, {-1}), hot({2, 3}), upright({3, 2});
    EXPECT(OPERATION(aclnnOneHot)(stream, labels, 3, on, off, std::int64_t{-1}, hot) == 0);
    EXPECT(hot.read() == floats{-1, -1, 5, -1, -1, -1});
    EXPECT(OPERATION(aclnnOneHot)(stream, labels, 3, on, off, std::int64_t{0}, upright) == 0);
    EXPECT(upright.read() == floats{-1, -1, -1, -1, 5, -1});
    EXPECT(OPERATION(aclnnOneHot)(stream, labels, 3, on, off, std::int64_t{0}, hot) == invalid_parameter);
  });
  on_device(a2, [](aclrtStream stream) {
    device_tensor<float> x({2, 3}, counted(6)), y({2, 2});
    device_tensor<std::int64_t> index({2, 2}, {2, 0, 1, 1});
    EXPECT(OPERATION(aclnnGather)(stream, x, std::int64_t{1}, index, y) == 0 && y.read() == floats{2, 0, 4, 4});
    EXPECT(OPERATION(aclnnGather)(stream, x, std::int64_t{0}, index, x) == invalid_parameter);
  });
}

TEST_CASE("rows of a table: noise beyond it, an error before it") {
  on_device({}, [](aclrtStream stream) {
    device_tensor<float> table({3, 2}, counted(6)), y({2, 2, 2});
    device_tensor<std::int32_t> index({2, 2}, {2, 0, 3, 2});
    EXPECT(OPERATION(aclnnEmbedding)(stream, table, index, y) == 0);
    auto found = y.read();
    EXPECT(floats(found.begin(), found.begin() + 4) == floats{4, 5, 0, 1});
    EXPECT(found[4] != 0 && found[5] != 0 && found[4] != found[5] && std::isfinite(found[4]));
    EXPECT(OPERATION(aclnnEmbedding)(stream, table, index, table) == invalid_parameter);

    device_tensor<float> dy({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), of_table({4, 2});
    std::uint64_t const count = 4, no_padding = static_cast<std::uint64_t>(-1), padding = 0;
    EXPECT(OPERATION(aclnnEmbeddingDenseBackward)(stream, dy, index, count, no_padding, false, of_table) == 0);
    EXPECT(of_table.read() == floats{3, 4, 0, 0, 8, 10, 5, 6});
    EXPECT(OPERATION(aclnnEmbeddingDenseBackward)(stream, dy, index, count, padding, true, of_table) == 0);
    EXPECT(of_table.read() == floats{0, 0, 0, 0, 4, 5, 5, 6});
    EXPECT(OPERATION(aclnnEmbeddingDenseBackward)(stream, dy, index, count, padding, true, table) == invalid_parameter);
  });
  auto result = in_child({}, [] {
    session s;
    device_tensor<float> table({3, 2}), y({1, 2});
    device_tensor<std::int32_t> index({1}, {-1});
    EXPECT(OPERATION(aclnnEmbedding)(s.stream, table, index, y) != 0);
    _exit(0);
  });
  CHECK_MESSAGE(result.code == 0, result.errors);
}
