#include <tessera/backend/eigen/writer.hpp>
#include <tessera/core/tensor.hpp>

#include <doctest/doctest.h>

namespace {

using namespace tessera;
using detail::eigen_kernels::load;
using detail::eigen_kernels::writer;

/// Whether exactly the elements from `begin` on, `count` of them, become twice those of the source.
template <class T>
bool writes_exactly(index_t begin, index_t count, bool in_place) {
  tensor<T, 1> from({begin + count + 64});
  T* const values = from.data();
  for (index_t i = 0; i < from.size(); ++i) values[i] = static_cast<T>(i % 1000 + 1);
  tensor<T, 1> to = from.clone();
  T const* source = (in_place ? to.data() : values) + begin;
  writer<T>(count, in_place)(to.data() + begin, count, [source]<class V>(index_t i) {
    return Eigen::internal::padd(load<V>(source + i), load<V>(source + i));
  });
  T const* const written = to.data();
  for (index_t i = 0; i < to.size(); ++i)
    if (written[i] != (i >= begin && i < begin + count ? 2 : 1) * values[i]) return false;
  return true;
}

}  // namespace

TEST_CASE_TEMPLATE("every element is written once, at any alignment and size", T, float, double) {
  for (const index_t count : {index_t{0}, index_t{1}, index_t{15}, index_t{33}, writer<T>::large - 1, writer<T>::large,
                              writer<T>::large + 7})
    for (const index_t begin : {0, 1, 5, 16}) {
      CAPTURE(count);
      CAPTURE(begin);
      CHECK(writes_exactly<T>(begin, count, false));
      CHECK(writes_exactly<T>(begin, count, true));
    }
}
