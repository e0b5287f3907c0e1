#pragma once

#include "../reference.hpp"

#include <algorithm>
#include <array>

namespace tessera::test::permute_suite {
namespace {

/// Element at indices of a row-major block.
template <class T>
T at(tensor<T, 6> const& t, std::array<index_t, 6> const& i) {
  return t(i[0], i[1], i[2], i[3], i[4], i[5]);
}

void check(shape<6> const& extents, std::array<int, 6> const& from) {
  tensor<float, 6> x(extents);
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  shape<6> permuted;
  for (int p = 0; p < 6; ++p) permuted[p] = extents[from[static_cast<std::size_t>(p)]];
  auto y = unwritten<float>(permuted);
  suite_kernels kernels;
  kernels.permute(x.read(), from, y.view());
  bool same = true;
  for (index_t element = 0; element < y.size(); ++element) {
    std::array<index_t, 6> in_x{};
    index_t rest = element;
    for (int p = 5; p >= 0; --p) {
      in_x[static_cast<std::size_t>(from[static_cast<std::size_t>(p)])] = rest % permuted[p];
      rest /= permuted[p];
    }
    same = same && y.data()[element] == at(x, in_x);
  }
  CHECK(same);
}

}  // namespace

TEST_CASE(TESSERA_BACKEND "dimensions come in any order") {
  std::array<int, 6> from{0, 1, 2, 3, 4, 5};
  do {
    CAPTURE(from);
    check({2, 3, 1, 4, 2, 3}, from);
    check({1, 5, 1, 1, 3, 1}, from);
  } while (std::next_permutation(from.begin(), from.end()));
}

TEST_CASE(TESSERA_BACKEND "permutations of large, of single and of no elements") {
  check({1, 1, 1, 1, 100, 37}, {0, 1, 2, 3, 5, 4});
  check({1, 1, 3, 33, 17, 20}, {0, 1, 2, 5, 4, 3});
  check({1, 1, 3, 33, 17, 20}, {0, 1, 3, 2, 4, 5});
  check({1, 1, 1, 1, 1, 1}, {5, 4, 3, 2, 1, 0});
  check({2, 3, 0, 4, 2, 3}, {5, 4, 3, 2, 1, 0});
}

}  // namespace tessera::test::permute_suite
