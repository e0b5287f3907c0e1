#pragma once

#include <tessera/backend/eigen/writer.hpp>
#include <tessera/backend/settings.hpp>

namespace tessera::detail::eigen_kernels {

// All of these work in place: outputs may be the same block as an input.

template <class T>
void relu_forward(operand<T, 1> x, block<T, 1> y) {
  writer<T>(y.size(), x.data == y.data)(y.data, y.size(), [from = x.data]<class V>(index_t i) {
    using namespace Eigen::internal;
    return pmax<Eigen::PropagateNaN>(load<V>(from + i), pzero(V{}));
  });
}

template <class T>
void relu_backward(operand<T, 1> y, operand<T, 1> dy, block<T, 1> dx) {
  writer<T>(dx.size(), y.data == dx.data || dy.data == dx.data)(dx.data, dx.size(), [y, dy]<class V>(index_t i) {
    const V none = Eigen::internal::pset1<V>(T{0});
    return Eigen::internal::pandnot(load<V>(dy.data + i), Eigen::internal::pcmp_le(load<V>(y.data + i), none));
  });
}

template <class T>
void add(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
  writer<T>(y.size(), a.data == y.data || b.data == y.data)(y.data, y.size(), [a, b]<class V>(index_t i) {
    return Eigen::internal::padd(load<V>(a.data + i), load<V>(b.data + i));
  });
}

template <class T>
void sub(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
  writer<T>(y.size(), a.data == y.data || b.data == y.data)(y.data, y.size(), [a, b]<class V>(index_t i) {
    return Eigen::internal::psub(load<V>(a.data + i), load<V>(b.data + i));
  });
}

template <class T>
void mul(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
  writer<T>(y.size(), a.data == y.data || b.data == y.data)(y.data, y.size(), [a, b]<class V>(index_t i) {
    return Eigen::internal::pmul(load<V>(a.data + i), load<V>(b.data + i));
  });
}

template <class T>
void div(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
  writer<T>(y.size(), a.data == y.data || b.data == y.data)(y.data, y.size(), [a, b]<class V>(index_t i) {
    return Eigen::internal::pdiv(load<V>(a.data + i), load<V>(b.data + i));
  });
}

template <class T>
void scale(operand<T, 1> a, T factor, block<T, 1> y) {
  array(y) = array(a) * factor;
}

template <class T>
void axpy(T factor, operand<T, 1> x, block<T, 1> y) {
  array(y) += array(x) * factor;
}

template <class T>
void exp(operand<T, 1> x, block<T, 1> y) {
  array(y) = array(x).exp();
}

template <class T>
void log(operand<T, 1> x, block<T, 1> y) {
  array(y) = array(x).log();
}

}  // namespace tessera::detail::eigen_kernels
