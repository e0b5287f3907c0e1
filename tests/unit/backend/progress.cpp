#include <tessera/backend/eigen.hpp>
#include <tessera/backend/progress.hpp>
#include <tessera/core/tensor.hpp>

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace {

using namespace tessera;
using tessera::index_t;

struct counter {
  int calls = 0;
  static void count(void* self) noexcept { ++static_cast<counter*>(self)->calls; }
  progress_hook hook() { return {&count, this}; }
};

template <int Rank>
tensor<float, Rank> ramp(shape<Rank> const& extents) {
  tensor<float, Rank> out(extents);
  for (index_t i = 0; i < out.size(); ++i) out.data()[i] = static_cast<float>(i % 13) - 6;
  return out;
}

template <int Rank>
std::vector<float> values(tensor<float, Rank> const& t) {
  return {t.read().begin(), t.read().end()};
}

/// The result of a kernel without a hook, and that it is the same with one, which is called.
template <int Rank, class Kernel>
void check(shape<Rank> const& extents, Kernel kernel) {
  tensor<float, Rank> without(extents, 0);
  kernel(without.view());
  tensor<float, Rank> with(extents, 0);
  counter seen;
  {
    const progress_scope scope(seen.hook());
    kernel(with.view());
  }
  CHECK(seen.calls > 0);
  CHECK(values(with) == values(without));
}

}  // namespace

TEST_CASE("products, convolutions and sums over rows call the hook, and give the same bits with it") {
  eigen kernels;
  const auto a = ramp<2>({{150, 300}});
  const auto b = ramp<2>({{300, 170}});
  check<2>({{150, 170}}, [&](block<float, 2> out) { kernels.matmul<float>(a.read(), false, b.read(), false, out); });
  check<1>({{300}}, [&](block<float, 1> out) { kernels.sum_rows<float>(a.read(), out); });
  const auto x = ramp<4>({{2, 12, 9, 9}});
  const auto w = ramp<4>({{20, 12, 3, 3}});
  const auto y = ramp<4>({{2, 20, 9, 9}});
  const conv2d_geometry geometry{.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}};
  check<4>({{2, 20, 9, 9}},
           [&](block<float, 4> out) { kernels.conv2d_forward<float>(x.read(), w.read(), out, geometry); });
  check<4>({{2, 12, 9, 9}},
           [&](block<float, 4> out) { kernels.conv2d_backward_input<float>(w.read(), y.read(), out, geometry); });
  check<4>({{20, 12, 3, 3}},
           [&](block<float, 4> out) { kernels.conv2d_backward_weight<float>(x.read(), y.read(), out, geometry); });
}

TEST_CASE("a large product calls the hook on its way, not for every block of registers") {
  eigen kernels;
  const auto a = ramp<2>({{1024, 512}});
  const auto b = ramp<2>({{512, 1024}});
  tensor<float, 2> out(shape<2>{{1024, 1024}});
  counter seen;
  const progress_scope scope(seen.hook());
  kernels.matmul<float>(a.read(), false, b.read(), false, out.view());
  CHECK(seen.calls > 1);
  CHECK(seen.calls < 10'000);
}

TEST_CASE("the hook belongs to the thread and to its scope") {
  counter outer;
  counter inner;
  const progress_scope first(outer.hook());
  std::thread([] { tessera::detail::make_progress(); }).join();
  CHECK(outer.calls == 0);
  {
    const progress_scope second(inner.hook());
    tessera::detail::make_progress();
  }
  CHECK(inner.calls == 1);
  CHECK(outer.calls == 0);
  tessera::detail::make_progress();
  CHECK(inner.calls == 1);
  CHECK(outer.calls == 1);
}
