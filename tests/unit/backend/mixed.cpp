#include "bare.hpp"
#include "reference.hpp"

#include <tessera/backend/deterministic.hpp>
#include <tessera/backend/transfer.hpp>
#include <tessera/backend/with_fallback.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/session.hpp>

#include <algorithm>
#include <vector>

namespace tessera::test {
namespace {

struct layers : chain<conv2d<3, 4, window<3>, no_bias>, batch_norm2d<4>, relu, max_pool2d<window<2, 2>>, flatten<>,
                      linear<36, 5>> {};
using net = parallel<layers, input<dynamic, 3, 8, 8>>;

/// Eigen without what the network multiplies with.
struct unable_to_multiply : eigen {
  using eigen::eigen;
  void matmul() = delete;
  void conv2d_forward() = delete;
};

/// What `bare` has, on the host, with channels first.
struct bare_on_host : private eigen {
  using memory = host_memory;
  static constexpr storage_order order = storage_order::row_major;
  using statistic = double;
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float>;
  template <class Format>
  static constexpr bool computes = std::is_same_v<Format, float>;

  using eigen::relu_forward, eigen::relu_backward, eigen::add, eigen::sub, eigen::mul, eigen::scale, eigen::axpy,
      eigen::exp, eigen::log;
  using eigen::synchronize, eigen::upload, eigen::download, eigen::fill, eigen::copy, eigen::copy_strided,
      eigen::add_strided;
};

template <class Backend>
using alone = team<mesh<>, serial_comm, Backend>;
template <class Backend>
using alone_on_device = team<mesh<>, worlds::far_comm<serial_comm>, Backend>;

/// The result of a pass of the network in training, and all gradients.
template <class Team>
std::vector<tensor<float, 1>> pass(Team& where) {
  auto model = where.template make<net>(seed{7});
  auto const x = random_values<float>(shape<4>{4, 3, 8, 8}, 1);
  auto const dy = random_values<float>(shape<2>{4, 5}, 2);
  auto& kernels = where.kernels();
  const auto y = model.forward(distribute<replicated>(where, from_host(kernels, x)), true);
  model.backward(distribute<replicated>(where, from_host(kernels, dy)));
  std::vector<tensor<float, 1>> all{to_host(kernels, y.local()).template reshaped<1>(shape<1>{20})};
  for (auto const& p : model.parameters()) {
    if (!p.trainable) continue;
    tensor<float, 1> gradient(shape<1>{p.gradient.size()});
    kernels.download(static_cast<float const*>(p.gradient.data), gradient.data(), gradient.size());
    all.push_back(gradient);
  }
  return all;
}

std::vector<tensor<float, 1>> sorted(std::vector<tensor<float, 1>> all) {
  for (auto& one : all) {
    one = one.clone();
    std::sort(one.view().begin(), one.view().end());
  }
  return all;
}

void check_equal(std::vector<tensor<float, 1>> const& found, std::vector<tensor<float, 1>> const& wanted,
                 double bound) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(worst(found[i], as_double(wanted[i])) <= bound);
  }
}

}  // namespace

TEST_CASE("backends compute side by side in one program, block by block alike") {
  alone<eigen> plain{serial_comm{}};
  alone<deterministic<2>> in_order{serial_comm{}};
  alone<with_fallback<unable_to_multiply, eigen>> helped{serial_comm{}};
  const auto wanted = pass(plain);
  check_equal(pass(in_order), wanted, 1e-5);
  check_equal(pass(helped), wanted, 0);
  CHECK(helped.kernels().fallbacks().size() == 2);
  alone<deterministic<2, with_fallback<unable_to_multiply, eigen>>> helped_in_order{serial_comm{}};
  check_equal(pass(helped_in_order), pass(in_order), 0);
  const auto used = helped_in_order.kernels().fallbacks();
  REQUIRE(used.size() == 2);
  CHECK(used[0].kernel == "matmul");
  CHECK(used[1].kernel == "conv2d_forward");
  CHECK(used[1].calls == 2);  // a block each
}

TEST_CASE("a device that lacks all operators trains by those of the host") {
  alone<eigen> plain{serial_comm{}};
  const auto wanted = pass(plain);
  alone_on_device<with_fallback<bare<storage_order::channels_last>, eigen>> device{
      worlds::far_comm<serial_comm>(serial_comm{})};
  check_equal(pass(device), wanted, 0);
  CHECK(device.kernels().fallbacks().size() >= 10);
  alone_on_device<with_fallback<bare<storage_order::row_major>, eigen>> channels_first{
      worlds::far_comm<serial_comm>(serial_comm{})};
  // Weights of convolutions lie in another order, and so do their gradients.
  check_equal(sorted(pass(channels_first)), sorted(wanted), 0);
}

TEST_CASE("images of the host come to a host backend that has channels first") {
  alone<with_fallback<bare_on_host, eigen>> rows{serial_comm{}};
  tensor<float, 4> x(shape<4>{2, 3, 4, 5});
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  const auto here = distribute<replicated>(rows, x);
  for (index_t c = 0; c < 3; ++c)
    for (index_t w = 0; w < 5; ++w) CHECK(here.local()(1, c, 2, w) == x(1, c, 2, w));
  alone<eigen> plain{serial_comm{}};
  check_equal(sorted(pass(rows)), sorted(pass(plain)), 0);
}

TEST_CASE("a bias goes along the channels of images in any storage order") {
  const auto of_channels = [](auto& where) {
    auto& kernels = where.kernels();
    tensor<float, 4> x(shape<4>{2, 3, 1, 2});
    for (index_t n = 0; n < 2; ++n)
      for (index_t c = 0; c < 3; ++c)
        for (index_t w = 0; w < 2; ++w) x(n, c, 0, w) = static_cast<float>(100 * c + 10 * n + w);
    tensor<float, 1> bias(shape<1>{3});
    for (index_t c = 0; c < 3; ++c) bias(c) = static_cast<float>(1000 * (c + 1));
    auto y = distribute<replicated>(where, from_host(kernels, x));
    auto b = distribute<replicated>(where, from_host(kernels, bias));
    op::add_bias(y, b);
    op::add_bias_once(y, b);
    const auto sums = to_host(kernels, y.local());
    CHECK(sums(0, 0, 0, 1) == 2001);
    CHECK(sums(1, 2, 0, 0) == 6210);
    op::bias_backward(y, b);
    const auto gradient = to_host(kernels, b.local());
    for (index_t c = 0; c < 3; ++c) CHECK(gradient(c) == static_cast<float>(4 * (2000 * (c + 1) + 100 * c) + 22));
  };
  alone<eigen> plain{serial_comm{}};
  of_channels(plain);
  alone_on_device<with_fallback<bare<storage_order::row_major>, eigen>> channels_first{
      worlds::far_comm<serial_comm>(serial_comm{})};
  of_channels(channels_first);
}

}  // namespace tessera::test
