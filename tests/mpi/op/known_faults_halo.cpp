#include "on_ranks.hpp"

#include <tessera/op/conv2d.hpp>
#include <tessera/op/pool2d.hpp>
#include <tessera/redistribute/to.hpp>

#include <doctest/doctest.h>

// Faults of spatially cut convolutions and poolings that were found elsewhere or by attack.

namespace {

using namespace on_ranks;

/// Forward and both gradients of a convolution on one context, whole.
struct outcome {
  std::vector<double> y, dx, dw;
};

template <layout_word Layout, class Team>
outcome convolve(Team& team, shape<4> const& extents, conv2d_geometry const& g) {
  const auto list = [](auto const& t) {
    const auto whole = gather(t);
    return std::vector<double>(whole.read().begin(), whole.read().end());
  };
  const auto x = distribute<Layout>(team, worlds::values<double>(extents, 1));
  const auto w = distribute<replicated>(team, worlds::values<double>(shape<4>{{3, 2, g.kernel[0], g.kernel[1]}}, 2));
  const auto read = op::windowed(x, g);
  const auto y = op::conv2d(read, w, g);
  const auto dy = distribute<Layout>(team, worlds::values<double>(y.extents(), 3));
  using gradient = std::remove_const_t<decltype(dy)>;
  result_of<tessera::detail::conv2d_weight_gradient_op<1>, 4, gradient, std::remove_const_t<decltype(x)>> dw(
      team, w.extents());
  op::conv2d_backward_weight(dy, read, dw, g);
  return {list(y), list(op::conv2d_backward_input(dy, w, extents, g)), list(dw)};
}

double apart(std::vector<double> const& a, std::vector<double> const& b) {
  if (a.size() != b.size()) return 1;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_CASE("C25: halos follow kernel, stride, dilation and padding") {
  alone single{serial_comm{}};
  run([&]<int N>(auto& team) {
    for (const index_t kernel : {1, 3, 5})
      for (const index_t stride : {1, 2, 3})
        for (const index_t dilation : {1, 2})
          for (const index_t padding : {0, 1, 2})
            for (const index_t height : {9, 10, 11, 12}) {
              const shape<4> extents{{2, 2, height, 3}};
              const conv2d_geometry g{{kernel, 1}, {stride, 1}, {padding, 0}, {padding, 0}, {dilation, 1}, 1};
              if (g.output_extent(0, height) < 1) continue;
              CAPTURE(kernel);
              CAPTURE(stride);
              CAPTURE(dilation);
              CAPTURE(padding);
              CAPTURE(height);
              const outcome wanted = convolve<replicated>(single, extents, g);
              const outcome found = convolve<shard<2, all<N>>>(team, extents, g);
              CHECK(apart(found.y, wanted.y) == 0);
              CHECK(apart(found.dx, wanted.dx) < 1e-13);
              CHECK(apart(found.dw, wanted.dw) < 1e-12);
            }
  });
}

TEST_CASE("windows that ceil_mode leaves out because they would begin beyond the image are left out under every cut") {
  alone single{serial_comm{}};
  run([&]<int N>(auto& team) {
    for (const index_t kernel : {1, 2, 3})
      for (const index_t stride : {1, 2, 3})
        for (const index_t padding : {0, 1, 2, 3})
          for (const index_t height : {3, 4, 5, 7}) {
            const shape<4> extents{{1, 2, height, height}};
            pool2d_geometry g{{kernel, kernel}, {stride, stride}, {padding, padding}, {padding, padding}, {1, 1}};
            g.ceil_mode = true;
            if (g.output_extent(0, height) < 1) continue;
            CAPTURE(kernel);
            CAPTURE(stride);
            CAPTURE(padding);
            CAPTURE(height);
            const auto images = worlds::values<double>(extents, 4);
            const auto pool = [&]<layout_word Layout>(std::type_identity<Layout>, auto& context) {
              const auto x = distribute<Layout>(context, images);
              const auto largest = gather(op::max_pool2d(x, g).y);
              const auto mean = gather(op::avg_pool2d(x, g));
              std::vector<double> all(largest.read().begin(), largest.read().end());
              all.insert(all.end(), mean.read().begin(), mean.read().end());
              return all;
            };
            CHECK(pool(std::type_identity<shard<2, all<N>>>{}, team) == pool(std::type_identity<replicated>{}, single));
          }
  });
}
