#pragma once

#include "../reference.hpp"

#include <limits>

namespace tessera::test::dropout_suite {
namespace {

/// Dropout element by element, from single draws.
template <class T>
tensor<T, 1> wanted(tensor<T, 1> const& x, philox const& draw, index_t first, double keep) {
  tensor<T, 1> y(x.extents());
  for (index_t i = 0; i < x.size(); ++i) {
    const index_t e = first + i;
    const auto word = draw(static_cast<std::uint64_t>(e / 128 * 32 + e % 32))[static_cast<std::size_t>(e % 128 / 32)];
    y(i) = static_cast<double>(word) < std::floor(keep * 4294967296.0) ? x(i) * static_cast<T>(1 / keep) : T{0};
  }
  return y;
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "dropout is a function of an element's number, wherever a run begins and ends", T,
                   TESSERA_ELEMENTS) {
  suite_kernels k;
  const philox draw(5, 77);
  const auto x = random_values<T>(shape<1>{700}, 1);
  for (const index_t first : {index_t{0}, index_t{1}, index_t{127}, index_t{128}, index_t{3} << 40})
    for (const index_t count : {0, 1, 3, 127, 128, 129, 700}) {
      CAPTURE(first);
      CAPTURE(count);
      const auto run = x.part(0, shape<1>{count});
      auto y = unwritten<T>(run.extents());
      k.dropout(run.read(), draw, first, 0.3, y.view());
      const auto w = wanted(run, draw, first, 0.3);
      CHECK(worst(y, as_double(w)) == 0);
    }
  auto in_place = x.clone();
  k.dropout(in_place.read(), draw, 64, 0.8, in_place.view());
  CHECK(worst(in_place, as_double(wanted(x, draw, 64, 0.8))) == 0);
}

TEST_CASE(TESSERA_BACKEND "the share that is kept is right, also a tiny one and all") {
  suite_kernels k;
  const tensor<float, 1> x(shape<1>{100000}, 1.0f);
  tensor<float, 1> y(x.extents());
  for (const double keep : {0.001, 0.25, 0.9, 1.0}) {
    k.dropout(x.read(), philox(1, 2), 0, keep, y.view());
    int kept = 0;
    for (const float v : y.view()) kept += v != 0;
    CHECK(std::abs(kept - 1e5 * keep) <= 5 * std::sqrt(1e5 * keep * (1 - keep)));
  }
}

TEST_CASE(TESSERA_BACKEND "what is dropped is zero, also NaN and infinity; what is kept stays these") {
  suite_kernels k;
  tensor<float, 1> x(shape<1>{256}, std::numeric_limits<float>::quiet_NaN());
  for (index_t i = 0; i < 128; ++i) x(i) = std::numeric_limits<float>::infinity();
  tensor<float, 1> y(x.extents());
  k.dropout(x.read(), philox(1, 2), 0, 0.5, y.view());
  int zeros = 0;
  for (index_t i = 0; i < 256; ++i) {
    zeros += y(i) == 0;
    CHECK((y(i) == 0 || (i < 128 ? std::isinf(y(i)) : std::isnan(y(i)))));
  }
  CHECK(std::abs(zeros - 128) < 40);
}

}  // namespace tessera::test::dropout_suite
