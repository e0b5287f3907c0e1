#pragma once

#include "../reference.hpp"

#include <limits>

namespace tessera::test::embedding_suite {
namespace {

tensor<std::int64_t, 1> indices_of(std::initializer_list<std::int64_t> values) {
  tensor<std::int64_t, 1> t(shape<1>{static_cast<index_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data());
  return t;
}

template <class T>
void check(index_t places, index_t features, interval rows, index_t vocabulary, std::int64_t padding) {
  CAPTURE(places);
  CAPTURE(features);
  CAPTURE(rows.begin);
  CAPTURE(rows.size);
  suite_kernels k;
  const auto weight = random_values<T>(shape<2>{rows.size, features}, 1);
  const auto dy = random_values<T>(shape<2>{places, features}, 2);
  tensor<std::int64_t, 1> indices(shape<1>{places});
  std::mt19937 engine(3);
  for (auto& i : indices.view()) i = static_cast<std::int64_t>(engine() % static_cast<unsigned>(vocabulary));
  tensor<double, 2> y_wanted(dy.extents(), 0.0), dweight_wanted(weight.extents(), 0.0);
  for (index_t i = 0; i < places; ++i)
    for (index_t f = 0; f < features; ++f) {
      const index_t row = indices(i) - rows.begin;
      if (row < 0 || row >= rows.size) continue;
      y_wanted(i, f) = static_cast<double>(weight(row, f));
      if (indices(i) != padding) dweight_wanted(row, f) += static_cast<double>(dy(i, f));
    }
  auto y = unwritten<T>(dy.extents());
  k.embedding_forward(indices.read(), weight.read(), rows.begin, y.view());
  CHECK(worst(y, y_wanted) == 0);
  auto dweight = unwritten<T>(weight.extents());
  k.embedding_backward(indices.read(), dy.read(), rows.begin, padding, dweight.view());
  CHECK(worst(dweight, dweight_wanted) < tolerance<T>);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "an embedding equals its definition, whole and in parts", T, TESSERA_ELEMENTS) {
  check<T>(50, 7, {0, 10}, 10, -1);
  check<T>(50, 7, {0, 10}, 10, 4);
  check<T>(5000, 3, {0, 5}, 5, -1);  // a thousand places a row
  check<T>(50, 16, {4, 3}, 10, 5);
  check<T>(50, 1, {4, 0}, 10, -1);
  check<T>(0, 4, {0, 3}, 3, -1);
  check<T>(20, 0, {0, 3}, 3, -1);
}

TEST_CASE(TESSERA_BACKEND "the first wrong index is found") {
  suite_kernels k;
  CHECK(k.first_bad_index(indices_of({0, 4, 2}).read(), 5) == -1);
  CHECK(k.first_bad_index(indices_of({0, 5, -1}).read(), 5) == 1);
  CHECK(k.first_bad_index(indices_of({0, 4, -1}).read(), 5) == 2);
  CHECK(k.first_bad_index(indices_of({std::numeric_limits<std::int64_t>::min()}).read(), 5) == 0);
  CHECK(k.first_bad_index(indices_of({}).read(), 0) == -1);
}

}  // namespace tessera::test::embedding_suite
