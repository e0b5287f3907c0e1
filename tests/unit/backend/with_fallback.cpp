#include "bare.hpp"
#include "reference.hpp"

#include <tessera/backend/with_fallback.hpp>

#include <algorithm>
#include <vector>

namespace tessera::test {
namespace {

/// Whole but for two kernels, on host memory.
struct lacking : eigen {
  using eigen::eigen;
  void matmul() = delete;
  void square_sum() = delete;
};

/// A device where images lie channels first and statistics are float. It multiplies, and says that it did.
class device : public bare<storage_order::row_major, float> {
 public:
  void matmul(operand<float, 2> a, bool transpose_a, operand<float, 2> b, bool transpose_b, block<float, 2> out,
              bool accumulate = false) {
    ++products;
    far::matmul(a, transpose_a, b, transpose_b, out, accumulate);
  }
  int products = 0;
};

using device_with_eigen = with_fallback<device, eigen>;

/// Values in the memory of a device.
template <class T>
class on_device {
 public:
  on_device(device_with_eigen& kernels, std::vector<T> const& values)
      : kernels_(kernels), memory_(shape<1>{static_cast<index_t>(values.size())}) {
    kernels_.upload(values.data(), memory_.data(), memory_.size());
  }
  T* data() { return memory_.data(); }
  std::vector<T> values() {
    std::vector<T> host(static_cast<std::size_t>(memory_.size()));
    kernels_.download(static_cast<T const*>(memory_.data()), host.data(), memory_.size());
    return host;
  }

 private:
  device_with_eigen& kernels_;
  tensor<T, 1, worlds::far_memory> memory_;
};

std::vector<float> counted(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

}  // namespace

TEST_CASE("what the second backend does is known while compiling") {
  using host = with_fallback<lacking, eigen>;
  CHECK_FALSE(host::copies);
  CHECK(host::falls_back<float, kernel_group::matrices>);
  CHECK_FALSE(host::falls_back<float, kernel_group::convolutions>);
  CHECK(offers<host, float, kernel_group::matrices>);
  CHECK(backend_for<host, double>);
  CHECK(device_with_eigen::copies);
  CHECK(device_with_eigen::falls_back<float, kernel_group::convolutions>);
  CHECK(backend_for<device_with_eigen, float>);
  // Where neither has a kernel, nobody offers it.
  CHECK_FALSE(offers<with_fallback<lacking, lacking>, float, kernel_group::matrices>);
}

TEST_CASE("on the same memory the second backend gets the blocks themselves") {
  with_fallback<lacking, eigen> kernels(1);
  kernels.use_threads(2);
  CHECK(kernels.other().threads() == 2);
  tensor<float, 2> x(shape<2>{2, 2}, 3.0f);
  tensor<float, 2> y(shape<2>{2, 2});
  kernels.matmul(x.read(), false, x.read(), false, y.view());
  kernels.matmul(x.read(), false, x.read(), false, y.view(), true);
  CHECK(y(1, 0) == 36);
  kernels.relu_forward(block<float const, 1>{x.data(), {4}}, block<float, 1>{y.data(), {4}});
  CHECK(kernels.square_sum(block<float const, 1>{y.data(), {4}}) == 36);
  const auto used = kernels.fallbacks();
  REQUIRE(used.size() == 2);
  CHECK(used[0].kernel == "matmul");
  CHECK(used[0].calls == 2);
  CHECK(used[0].bytes == 0);
  CHECK(used[1].kernel == "square_sum");
}

TEST_CASE("a backend that falls back may lack kernels itself") {
  struct without_products : eigen {
    void matmul() = delete;
  };
  with_fallback<with_fallback<lacking, without_products>, eigen> kernels;
  tensor<float, 2> x(shape<2>{1, 2}, 3.0f);
  tensor<float, 2> y(shape<2>{1, 1});
  CHECK(kernels.square_sum(block<float const, 1>{x.data(), {2}}) == 18);
  kernels.matmul(x.read(), false, x.read(), true, y.view());
  CHECK(y(0, 0) == 18);
  const auto used = kernels.fallbacks();
  REQUIRE(used.size() == 2);
  CHECK(used[0].kernel == "square_sum");
  CHECK(used[1].kernel == "matmul");
}

TEST_CASE("kernels that the first backend has are its own") {
  device_with_eigen kernels;
  on_device<float> x(kernels, {2}), y(kernels, {0});
  const block<float const, 2> a{x.data(), {1, 1}};
  kernels.matmul(a, false, a, false, block<float, 2>{y.data(), {1, 1}});
  CHECK(y.values() == std::vector<float>{4});
  CHECK(kernels.products == 1);
  CHECK(kernels.fallbacks().empty());
}

TEST_CASE("images are brought to the storage order of the second backend and back") {
  device_with_eigen kernels;
  // Channel 0 is 0 1 2 3, channel 1 is 4 5 6 7; the maximum of each channel, and its place.
  on_device<float> x(kernels, counted(8)), y(kernels, {0, 0}), dx(kernels, counted(8));
  on_device<std::int32_t> place(kernels, {7, 7});
  constexpr auto rows = storage_order::row_major;
  const pool2d_geometry window{{2, 2}, {2, 2}};
  kernels.max_pool2d_forward(block<float const, 4, rows>{x.data(), {1, 2, 2, 2}},
                             block<float, 4, rows>{y.data(), {1, 2, 1, 1}},
                             block<std::int32_t, 4, rows>{place.data(), {1, 2, 1, 1}}, window);
  CHECK(y.values() == std::vector<float>{3, 7});
  CHECK(place.values() == std::vector<std::int32_t>{3, 3});
  kernels.max_pool2d_backward(block<float const, 4, rows>{y.data(), {1, 2, 1, 1}},
                              block<std::int32_t const, 4, rows>{place.data(), {1, 2, 1, 1}},
                              block<float, 4, rows>{dx.data(), {1, 2, 2, 2}}, window);
  CHECK(dx.values() == std::vector<float>{0, 0, 0, 3, 0, 0, 0, 7});
  // Forward: x 32 bytes, y 8, places 8, down and into the other order; y and places back.
  const auto used = kernels.fallbacks();
  REQUIRE(used.size() == 2);
  CHECK(used[0].bytes == 2 * (32 + 8 + 8) + 2 * (8 + 8));
}

TEST_CASE("matrices of a batch are no images") {
  device_with_eigen kernels;
  on_device<float> a(kernels, counted(6)), y(kernels, counted(4));
  constexpr auto rows = storage_order::row_major;
  kernels.batch_matmul(block<float const, 4, rows>{a.data(), {1, 1, 2, 3}}, false,
                       block<float const, 4, rows>{a.data(), {1, 1, 2, 3}}, true,
                       block<float, 4, rows>{y.data(), {1, 1, 2, 2}});
  CHECK(y.values() == std::vector<float>{5, 14, 14, 50});
}

TEST_CASE("statistics have the element type of each backend") {
  device_with_eigen kernels;
  // Two images of two channels and one pixel: channel 0 is 0 2, channel 1 is 1 3.
  on_device<float> x(kernels, counted(4)), moments(kernels, counted(6)), mean(kernels, {9, 9}), y(kernels, counted(4));
  on_device<float> scale(kernels, {1, 1});
  constexpr auto rows = storage_order::row_major;
  const block<float const, 4, rows> images{x.data(), {2, 2, 1, 1}};
  kernels.batch_norm_moments(images, block<float, 2>{moments.data(), {2, 3}});
  CHECK(moments.values() == std::vector<float>{2, 1, 2, 2, 2, 2});
  on_device<float> inv_std(kernels, {9, 9});
  kernels.batch_norm_finish(block<float const, 2>{moments.data(), {2, 3}}, 0.0, block<float, 1>{mean.data(), {2}},
                            block<float, 1>{inv_std.data(), {2}});
  CHECK(mean.values() == std::vector<float>{1, 2});
  CHECK(inv_std.values() == std::vector<float>{1, 1});
  kernels.batch_norm_normalize(images, block<float const, 1>{mean.data(), {2}},
                               block<float const, 1>{inv_std.data(), {2}}, block<float const, 1>{},
                               block<float const, 1>{}, block<float, 4, rows>{y.data(), {2, 2, 1, 1}});
  CHECK(y.values() == std::vector<float>{-1, -1, 1, 1});
}

TEST_CASE("arguments that share memory share their copy") {
  device_with_eigen kernels;
  on_device<float> x(kernels, {-1, 1, 2, 4});
  const block<float, 1> all{x.data(), {4}};
  // In place, and the operand passed as one that may be written.
  kernels.div(all, all, all);
  CHECK(x.values() == std::vector<float>{1, 1, 1, 1});
  CHECK(kernels.fallbacks()[0].bytes == 2 * 16);

  // Keys and values of two heads that lie in turn: one copy, and each gradient in its place.
  on_device<float> rows(kernels, counted(8)), copies(kernels, std::vector<float>(8, -1));
  const auto of = [](float* data) { return head_rows<float>{data, 8, 4, 2}; };
  kernels.copy_heads(head_rows<float const>(of(rows.data())), of(copies.data()), shape<4>{{1, 2, 2, 1}});
  CHECK(copies.values() == std::vector<float>{0, -1, 2, -1, 4, -1, 6, -1});
}

TEST_CASE("gradients of attention that lie in turn are each added to") {
  device_with_eigen kernels;
  eigen on_host;
  const attention_geometry g{1, 1, 2, 2, 1, 1, 0, 0, false, 1};
  // Positions hold a query, a key and a value; then their gradients.
  std::vector<float> qkv{1, 2, 3, -1, 1, 2}, gradients{10, 20, 30, 40, 50, 60}, dy{1, -2}, y(2);
  std::vector<double> log_sum(2), delta(2);
  const auto part = [](auto* data, int which) {
    return head_rows<std::remove_pointer_t<decltype(data)>>{data + which, 6, 6, 3};
  };
  const auto plain = [](auto* data) { return head_rows<std::remove_pointer_t<decltype(data)>>{data, 2, 2, 1}; };
  const auto attend = [&](auto& k, float* in, float* out, float* up, auto* sums, auto* deltas, float* d) {
    using sum = std::remove_pointer_t<decltype(sums)>;
    const block<sum, 3> of_rows{sums, {1, 1, 2}};
    const block<sum, 3> of_deltas{deltas, {1, 1, 2}};
    float const* from = in;
    k.attention_forward(part(from, 0), part(from, 1), part(from, 2), plain(out), of_rows, g);
    k.attention_delta(plain(static_cast<float const*>(out)), plain(static_cast<float const*>(up)), of_deltas, g);
    k.attention_backward(part(from, 0), part(from, 1), part(from, 2), plain(static_cast<float const*>(up)),
                         block<sum const, 3>(of_rows), block<sum const, 3>(of_deltas), part(d, 0), part(d, 1),
                         part(d, 2), g);
  };
  on_device<float> far_qkv(kernels, qkv), far_gradients(kernels, gradients), far_dy(kernels, dy), far_y(kernels, y);
  on_device<float> far_log_sum(kernels, {0, 0}), far_delta(kernels, {0, 0});
  attend(on_host, qkv.data(), y.data(), dy.data(), log_sum.data(), delta.data(), gradients.data());
  attend(kernels, far_qkv.data(), far_y.data(), far_dy.data(), far_log_sum.data(), far_delta.data(),
         far_gradients.data());
  CHECK(far_y.values() == y);
  const auto found = far_gradients.values();
  for (std::size_t i = 0; i < 6; ++i) CHECK(found[i] == doctest::Approx(gradients[i]).epsilon(1e-5));
}

TEST_CASE("empty blocks and results reach the caller") {
  device_with_eigen kernels;
  on_device<std::int64_t> labels(kernels, {1, 7, 2});
  CHECK(kernels.first_bad_label(block<std::int64_t const, 1>{labels.data(), {3}}, index_t{5}, std::int64_t{-100}) == 1);
  CHECK(kernels.square_sum(block<float const, 1>{}) == 0);
  kernels.gelu_forward(block<float const, 1>{}, block<float, 1>{});
}

}  // namespace tessera::test
