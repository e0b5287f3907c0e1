#include "on_ranks.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/batch_norm.hpp>
#include <tessera/op/group_norm.hpp>
#include <tessera/op/layer_norm.hpp>
#include <tessera/op/rms_norm.hpp>

#include <cmath>
#include <limits>

// Statistics of values that are split over ranks: sums of differences from an origin, which may be far away.

namespace {

using namespace on_ranks;

/// Images [batch, 3, 5, 4] of three channels: `mean` and `deviation` say where values lie.
template <class T>
tensor<T, 4> images(index_t batch, double mean, double deviation) {
  auto x = worlds::values<T>(shape<4>{batch, 3, 5, 4}, 7);
  for (T& v : x.view()) v = static_cast<T>(mean + deviation * static_cast<double>(v));
  return x;
}

/// Mean and reciprocal deviation of a channel, in two passes.
template <class T>
std::pair<double, double> by_hand(tensor<T, 4> const& x, index_t channel, double epsilon) {
  long double sum = 0, squares = 0, count = 0;
  const auto each = [&](auto f) {
    for (index_t n = 0; n < x.extent(0); ++n)
      for (index_t h = 0; h < x.extent(2); ++h)
        for (index_t w = 0; w < x.extent(3); ++w) f(static_cast<long double>(x(n, channel, h, w)));
  };
  each([&](long double v) { sum += v, count += 1; });
  each([&](long double v) { squares += (v - sum / count) * (v - sum / count); });
  return {static_cast<double>(sum / count), static_cast<double>(1 / std::sqrt(squares / count + epsilon))};
}

/// Checks the statistics of a batch that is cut; `start` is the running mean before. Returns the number of messages.
template <int N, class T>
std::size_t messages_of_batch_norm(double mean, double deviation, T start, double epsilon = 1e-5) {
  CAPTURE(mean);
  CAPTURE(deviation);
  const recording<mpi_comm> log{mpi_comm{}};
  tessera::team<all_ranks<N>, recording<mpi_comm>> team{log};
  auto& calls = team.group(all_ranks<N>::all);
  const auto whole = images<T>(N + 1, mean, deviation);
  const auto x = distribute<row<all<N>>>(team, whole);
  auto running_mean = distribute<replicated>(team, tensor<T, 1>(shape<1>{3}, start));
  auto running_variance = distribute<replicated>(team, tensor<T, 1>(shape<1>{3}, T{1}));
  calls.clear();
  const auto s = op::batch_norm_statistics(x, 0.5, epsilon, running_mean, running_variance);
  const double near = std::is_same_v<T, float> ? 1e-6 : 1e-10;
  for (index_t c = 0; c < 3; ++c) {
    const auto [wanted_mean, wanted_inv_std] = by_hand(whole, c, epsilon);
    CHECK(std::abs(s.mean(c) - wanted_mean) * wanted_inv_std <= near);
    CHECK(std::abs(s.inv_std(c) / wanted_inv_std - 1) <= near);
    if (std::isfinite(start) && std::abs(wanted_mean) < 1e30)
      CHECK(static_cast<double>(running_mean.local()(c)) ==
            doctest::Approx((static_cast<double>(start) + wanted_mean) / 2).epsilon(1e-6));
  }
  for (auto const& call : calls.calls()) CHECK(call.kind == collective::all_reduce);
  if (!calls.calls().empty()) CHECK(calls.calls()[0].element_bytes == sizeof(T));
  return calls.calls().size();
}

}  // namespace

TEST_CASE_TEMPLATE("statistics of a cut batch take one message near the running mean, two far from it", T, float,
                   double) {
  run([]<int N>(auto&) {
    const std::size_t once = N > 1 ? 1 : 0;
    CHECK(messages_of_batch_norm<N, T>(0, 1, 0) == once);
    CHECK(messages_of_batch_norm<N, T>(1, 1, 0) == once);
    CHECK(messages_of_batch_norm<N, T>(1e4, 1e-1, T(1e4)) == once);
    CHECK(messages_of_batch_norm<N, T>(1e4, 1e-1, 0) == 2 * once);
    CHECK(messages_of_batch_norm<N, T>(-1e6, 1, T(1e3)) == 2 * once);
    // A constant channel, near enough for what epsilon leaves of it.
    CHECK(messages_of_batch_norm<N, T>(1e-3, 0, 0) == once);
    CHECK(messages_of_batch_norm<N, T>(5, 0, 0) == 2 * once);
    // Running means of a model that has diverged.
    CHECK(messages_of_batch_norm<N, T>(1, 1, std::numeric_limits<T>::quiet_NaN()) == once);
    CHECK(messages_of_batch_norm<N, T>(1, 1, std::numeric_limits<T>::infinity()) == once);
  });
}

TEST_CASE("a running mean that is finite and very far away does not spoil the statistics") {
  run([]<int N>(auto&) {
    for (const float start : {1e18f, -1e28f, 1e30f, 3e38f}) {
      CAPTURE(start);
      for (const double mean : {0.0, 1.0, 1e4}) CHECK(messages_of_batch_norm<N, float>(mean, 1, start) <= 8);
      messages_of_batch_norm<N, float>(1, 1, start, 0.0);
    }
    for (const double start : {1e18, -1e30, 1e300}) {
      CAPTURE(start);
      CHECK(messages_of_batch_norm<N, double>(1, 1, start) <= 25);
    }
  });
}

TEST_CASE("values whose squares are outside the range of float have statistics") {
  run([]<int N>(auto&) {
    const std::size_t once = N > 1 ? 1 : 0;
    for (const double size : {1e20, 1e30, 1e37}) CHECK(messages_of_batch_norm<N, float>(0, size, 0) == 2 * once);
    CHECK(messages_of_batch_norm<N, float>(1e30, 1e27, 0) == 2 * once);
    CHECK(messages_of_batch_norm<N, float>(0, 1e-30, 0) == once);
    CHECK(messages_of_batch_norm<N, float>(0, 1e-30, 0, 0.0) == 2 * once);
  });
}

TEST_CASE("normalised rows and groups of any size are those of values near 1, wherever they are cut") {
  run([]<int N>(auto& team) {
    const auto x = worlds::values<float>(shape<2>{3, 40}, 1);
    const auto weights = worlds::values<float>(shape<2>{3, 40}, 2);
    const auto pictures = worlds::values<float>(shape<4>{2, 4, 4, 3}, 3);
    const auto upstream = worlds::values<float>(shape<4>{2, 4, 4, 3}, 4);
    const auto of_rows = [&](auto layout, float size, bool centred) {
      auto scaled = x.clone();
      for (float& v : scaled.view()) v *= size;
      const auto cut = distribute<decltype(layout)>(team, scaled);
      const auto dy = distribute<decltype(layout)>(team, weights);
      const auto [y, statistics] = centred ? op::layer_norm(cut, 0.0) : op::rms_norm(cut, 0.0);
      auto dx =
          gather(centred ? op::layer_norm_backward(cut, dy, statistics) : op::rms_norm_backward(cut, dy, statistics));
      for (float& v : dx.view()) v *= size;
      return std::pair{gather(y), std::move(dx)};
    };
    const auto of_groups = [&](auto layout, float size) {
      auto scaled = pictures.clone();
      for (float& v : scaled.view()) v *= size;
      const auto cut = distribute<decltype(layout)>(team, scaled);
      const auto [y, statistics] = op::group_norm<2>(cut, 0.0);
      auto dx = gather(op::group_norm_backward<2>(cut, distribute<decltype(layout)>(team, upstream), statistics));
      for (float& v : dx.view()) v *= size;
      return std::pair{gather(y), std::move(dx)};
    };
    for (const bool centred : {true, false}) {
      const auto wanted = of_rows(replicated{}, 1, centred);
      for (const float size : {0x1p-100f, 0x1p64f, 0x1p100f}) {
        CAPTURE(size);
        CAPTURE(size);
        for (auto const& found : {of_rows(replicated{}, size, centred), of_rows(column<all<N>>{}, size, centred)}) {
          CHECK(worlds::difference(found.first, wanted.first) < 1e-5);
          CHECK(worlds::difference(found.second, wanted.second) < 1e-5);
        }
      }
    }
    const auto wanted = of_groups(replicated{}, 1);
    for (const float size : {0x1p-100f, 0x1p64f, 0x1p100f}) {
      CAPTURE(size);
      for (auto const& found : {of_groups(replicated{}, size), of_groups(shard<2, all<N>>{}, size)}) {
        CHECK(worlds::difference(found.first, wanted.first) < 1e-5);
        CHECK(worlds::difference(found.second, wanted.second) < 1e-5);
      }
    }
  });
}

TEST_CASE("a value that is not a number spoils its channel and no other") {
  run([]<int N>(auto& team) {
    auto whole = images<float>(N + 1, 0, 1);
    whole(N, 1, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    whole(0, 2, 0, 0) = std::numeric_limits<float>::infinity();
    const auto x = distribute<row<all<N>>>(team, whole);
    auto mean = distribute<replicated>(team, tensor<float, 1>(shape<1>{3}, 0.0f));
    auto variance = distribute<replicated>(team, tensor<float, 1>(shape<1>{3}, 1.0f));
    const auto s = op::batch_norm_statistics(x, 0.1, 1e-5, mean, variance);
    CHECK(std::isfinite(s.inv_std(0)));
    CHECK(std::isnan(s.inv_std(1)));
    CHECK(!std::isfinite(s.mean(2)));
  });
}
