#pragma once

#include <tessera/backend/eigen/writer.hpp>
#include <tessera/backend/settings.hpp>

#include <cstddef>

namespace tessera::detail::eigen_kernels {

// Smooth activations on packets, built on one exponential each. NaN stays NaN, infinities give the limits (which may be
// tiny in place of zero). Results are within six roundings of the exact ones; in the lower tail of gelu, an
// exponential, the rounding of its argument comes on top.
//
// All of it is inlined by force: left to g++, a large program calls a function for each packet, at half of the speed.

template <class T>
using packet_of = typename Eigen::internal::packet_traits<T>::type;

/// Polynomial with coefficients from the constant term upwards.
template <class V, class T, std::size_t N>
[[gnu::always_inline]] inline V polynomial(V const& x, T const (&coefficients)[N]) {
  using namespace Eigen::internal;
  V y = pset1<V>(coefficients[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) y = pmadd(y, x, pset1<V>(coefficients[i]));
  return y;
}

/// The upper tail Q of the normal distribution as exp(-x^2 / 2) s P(t), s = 1 / (x + shift), t = slope s + offset in
/// [-1, 1] for x from 0 to `limit`, beyond which the tail is below the smallest normal number; the exponential is not.
///
/// The transformation is that of M. Shepherd and J. Laframboise, Mathematics of Computation 36 (1981), 249-253; P is
/// the Chebyshev interpolant of relative error 1.3e-8 and 2.5e-17.
template <class T>
struct normal_tail;
template <>
struct normal_tail<float> {
  static constexpr float limit = 13.2f;
  static constexpr float shift = 4;
  static constexpr float slope = 10.285714286f;
  static constexpr float offset = -1.5714285714f;
  static constexpr float coefficients[] = {0.91168895067f,  0.63024968111f,    0.32065575068f,    0.11434973865f,
                                           0.024006044005f, 0.00038644889285f, -0.0012359356674f, -0.00017233013099f,
                                           5.914299803e-5f, 1.2518372743e-5f};
};
template <>
struct normal_tail<double> {
  static constexpr double limit = 37.6;
  static constexpr double shift = 6;
  static constexpr double slope = 13.84615384615384615;
  static constexpr double offset = -1.307692307692307692;
  static constexpr double coefficients[] = {
      0.8820073234580781895,     0.7605964407252221774,    0.5761914232232929901,     0.3826994771997115999,
      0.2214983817384497687,     0.1104047316400764386,    0.04640385615032530596,    0.01580518474648640722,
      0.003989085555684773539,   0.0005419604149825713259, -0.0000735076802338032155, -0.00005799610797323931786,
      -9.697361950479901223e-6,  2.206122159082507859e-6,  1.214323514117620172e-6,   2.339658153183793404e-8,
      -1.020497656227862471e-7,  -1.441056373086743709e-8, 7.633985553243933338e-9,   1.843627658899227293e-9,
      -4.276824832965772706e-10, -1.340088302699992562e-10};
};

/// tanh(x) = x + x^3 R(x^2) for |x| < 1/2, R of relative error 1.2e-9 and 1.1e-17 of the result.
template <class T>
struct small_tanh;
template <>
struct small_tanh<float> {
  static constexpr float coefficients[] = {-0.33333332797f, 0.13333225775f, -0.053933469146f, 0.021470683025f,
                                           -0.0069429417504f};
};
template <>
struct small_tanh<double> {
  static constexpr double coefficients[] = {
      -0.3333333333333332895,    0.1333333333332982424,   -0.05396825396361008639,  0.02186948829723451434,
      -0.008863229270067843402,  0.003592033465372392822, -0.001454959384380466113, 0.0005849653729022644591,
      -0.0002210722297586463388, 0.0000594695658977476915};
};

template <class V>
using number_of = typename Eigen::internal::unpacket_traits<V>::type;

/// `x` where it is above `least`, else `least`; NaN stays NaN. Eigen gives the first argument where numbers do not
/// compare, as `std::max` does; to ask for NaN costs as much as three operations.
template <class V>
[[gnu::always_inline]] inline V at_least(V const& x, number_of<V> least) {
  return Eigen::internal::pmax(x, Eigen::internal::pset1<V>(least));
}
template <class V>
[[gnu::always_inline]] inline V at_most(V const& x, number_of<V> most) {
  return Eigen::internal::pmin(x, Eigen::internal::pset1<V>(most));
}

/// exp(x) for x from -87.33 to 88.5 in float and from -708 to 708 in double, where it is a normal number; NaN stays
/// NaN. In float with an error of one rounding and half of the operations of Eigen's, which has subnormal numbers and
/// infinities to care for.
template <class V>
[[gnu::always_inline]] inline V exp_of_normal(V const& x) {
  using namespace Eigen::internal;
  if constexpr (std::is_same_v<number_of<V>, float> && requires { typename unpacket_traits<V>::integer_packet; }) {
    // 2^n exp(r), n whole and |r| at most ln(2) / 2. The upper part of ln(2) has few bits: n times it is exact.
    const V n = pfloor(pmadd(x, pset1<V>(1.44269504f), pset1<V>(0.5f)));
    const V r = pmadd(n, pset1<V>(2.12194440e-4f), pmadd(n, pset1<V>(-0.693359375f), x));
    // exp(r) = 1 + (r + r^2 P(r)), P the Chebyshev interpolant: 2e-9 of the result.
    constexpr float coefficients[] = {0.5f, 0.16666576846f, 0.041666554438f, 0.0083632029716f, 0.0013926213466f};
    const V above_one = pmadd(pmul(r, r), polynomial(r, coefficients), r);
    using integers = typename unpacket_traits<V>::integer_packet;
    const integers exponent = plogical_shift_left<23>(pcast<V, integers>(n));
    return preinterpret<V>(padd(preinterpret<integers>(padd(above_one, pset1<V>(1.0f))), exponent));
  } else {
    return pexp(x);
  }
}

/// Gaussian error linear unit x Phi(x), Phi the normal distribution function (D. Hendrycks and K. Gimpel, 2016,
/// arXiv:1606.08415).
struct gelu_function {
  template <class V>
  struct tail {
    V distance;  ///< |x|, up to the limit
    V bell;      ///< exp(-x^2 / 2)
    V beyond;    ///< Phi(-|x|)
  };
  template <class V>
  [[gnu::always_inline]] static tail<V> tail_at(V const& x) {
    using namespace Eigen::internal;
    using T = number_of<V>;
    using terms = normal_tail<T>;
    const V distance = at_most(pabs(x), terms::limit);
    const V bell = exp_of_normal(pmul(pmul(distance, distance), pset1<V>(T{-0.5})));
    const V s = pdiv(pset1<V>(T{1}), padd(distance, pset1<V>(terms::shift)));
    const V t = pmadd(s, pset1<V>(terms::slope), pset1<V>(terms::offset));
    return {distance, bell, pmul(bell, pmul(s, polynomial(t, terms::coefficients)))};
  }
  /// max(x, 0) - |x| Phi(-|x|).
  template <class V>
  [[gnu::always_inline]] static V value(V const& x) {
    using namespace Eigen::internal;
    const tail<V> t = tail_at(x);
    return psub(at_least(x, 0), pmul(t.distance, t.beyond));
  }
  template <class V>
  [[gnu::always_inline]] static V derivative(V const& x) {
    using namespace Eigen::internal;
    using T = number_of<V>;
    constexpr T limit = normal_tail<T>::limit;
    const tail<V> t = tail_at(x);
    const V cumulative = pselect(pcmp_lt(x, pzero(x)), t.beyond, psub(pset1<V>(T{1}), t.beyond));
    const V density = pmul(t.bell, pset1<V>(static_cast<T>(0.398942280401432677940)));
    return pmadd(at_most(at_least(x, -limit), limit), density, cumulative);
  }
};

/// The logistic function 1 / (1 + exp(-x)).
struct sigmoid_function {
  /// Beyond this distance 0 and 1 are as near as they get: exp(-x) does not change 1, and exp(x) is near underflow.
  template <class V>
  static constexpr number_of<V> limit = sizeof(number_of<V>) == 4 ? 87 : 700;

  template <class V>
  struct logistic {
    V value;
    V derivative;
  };
  /// 1 + exp(-x) for x within the limit.
  template <class V>
  [[gnu::always_inline]] static V inverse(V const& x) {
    using namespace Eigen::internal;
    return padd(pset1<V>(number_of<V>{1}), exp_of_normal(pnegate(x)));
  }
  /// For x within the limit.
  template <class V>
  [[gnu::always_inline]] static logistic<V> at(V const& x) {
    using namespace Eigen::internal;
    const V one = pset1<V>(number_of<V>{1});
    const V e = exp_of_normal(pnegate(x));
    const V value = pdiv(one, padd(one, e));
    return {value, pmul(pmul(e, value), value)};
  }
  template <class V>
  [[gnu::always_inline]] static V value(V const& x) {
    using namespace Eigen::internal;
    return pdiv(pset1<V>(number_of<V>{1}), inverse(at_most(at_least(x, -limit<V>), limit<V>)));
  }
  /// From the value.
  template <class V>
  [[gnu::always_inline]] static V derivative(V const& y) {
    using namespace Eigen::internal;
    return pmul(y, psub(pset1<V>(number_of<V>{1}), y));
  }
};

/// x sigmoid(x) (S. Elfwing, E. Uchibe and K. Doya, Neural Networks 107, 2018, 3-11).
struct silu_function {
  template <class V>
  [[gnu::always_inline]] static V value(V const& x) {
    constexpr auto limit = sigmoid_function::limit<V>;
    const V above = at_least(x, -limit);
    return Eigen::internal::pdiv(above, sigmoid_function::inverse(at_most(above, limit)));
  }
  template <class V>
  [[gnu::always_inline]] static V derivative(V const& x) {
    constexpr auto limit = sigmoid_function::limit<V>;
    const V near = at_most(at_least(x, -limit), limit);
    const auto s = sigmoid_function::at(near);
    return Eigen::internal::pmadd(near, s.derivative, s.value);
  }
};

/// x (1 + tanh(u)) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3) (D. Hendrycks and K. Gimpel, 2016).
struct gelu_tanh_function {
  template <class V>
  static constexpr number_of<V> twice_root = static_cast<number_of<V>>(1.595769121605730711760);
  template <class V>
  static constexpr number_of<V> cubic = static_cast<number_of<V>>(0.044715);
  /// Where 2 u is -88.4 and 87.3 in float, -704 and 704 in double.
  template <class V>
  static constexpr number_of<V> least = sizeof(number_of<V>) == 4 ? number_of<V>(-10.05) : number_of<V>(-21.1);
  template <class V>
  static constexpr number_of<V> most = sizeof(number_of<V>) == 4 ? number_of<V>(10) : number_of<V>(21.1);

  /// 1 + factor * 0.044715 x^2, times 2 sqrt(2 / pi).
  template <class V>
  [[gnu::always_inline]] static V scaled_square(V const& x, number_of<V> factor) {
    using namespace Eigen::internal;
    return pmadd(pmul(x, x), pset1<V>(twice_root<V> * cubic<V> * factor), pset1<V>(twice_root<V>));
  }
  template <class V>
  [[gnu::always_inline]] static V value(V const& x) {
    using namespace Eigen::internal;
    const V above = at_least(x, least<V>);
    const V near = at_most(above, most<V>);
    return pdiv(above, sigmoid_function::inverse(pmul(near, scaled_square(near, 1))));
  }
  template <class V>
  [[gnu::always_inline]] static V derivative(V const& x) {
    using namespace Eigen::internal;
    const V near = at_most(at_least(x, least<V>), most<V>);
    const auto s = sigmoid_function::at(pmul(near, scaled_square(near, 1)));
    return pmadd(pmul(near, s.derivative), scaled_square(near, 3), s.value);
  }
};

struct tanh_function {
  template <class V>
  [[gnu::always_inline]] static V value(V const& x) {
    using namespace Eigen::internal;
    using T = number_of<V>;
    const V one = pset1<V>(T{1});
    const V distance = pabs(x);
    const V e = exp_of_normal(pmul(at_most(distance, 20), pset1<V>(T{-2})));
    const V upper = psub(one, pdiv(padd(e, e), padd(one, e)));
    const V square = pmul(x, x);
    const V near = pmadd(pmul(x, square), polynomial(square, small_tanh<T>::coefficients), x);
    return pselect(pcmp_lt(distance, pset1<V>(T{0.5})), near, por(upper, pand(x, pset1<V>(T{-0.0}))));
  }
  /// From the value.
  template <class V>
  [[gnu::always_inline]] static V derivative(V const& y) {
    using namespace Eigen::internal;
    const V one = pset1<V>(number_of<V>{1});
    return pmul(psub(one, y), padd(one, y));
  }
};

/// `f` of one number or packet. Numbers go through a packet too: a value must not depend on its place in the block.
template <class V, class T, class F>
[[gnu::always_inline]] inline V through_packet(V const& x, F f) {
  if constexpr (std::is_same_v<V, T>)
    return Eigen::internal::pfirst(f(Eigen::internal::pset1<packet_of<T>>(x)));
  else
    return f(x);
}

/// y = f(x). In place too.
template <class Function, class T>
void activation_forward(operand<T, 1> x, block<T, 1> y) {
  writer<T>(y.size(), x.data == y.data)(
      y.data, y.size(), [from = x.data]<class V>(index_t i) __attribute__((always_inline)) {
        return through_packet<V, T>(
            load<V>(from + i), [](auto const& v) __attribute__((always_inline)) { return Function::value(v); });
      });
}

/// dx = dy f'(at), `at` being the input or the output, as the function says. In place too.
template <class Function, class T>
void activation_backward(operand<T, 1> at, operand<T, 1> dy, block<T, 1> dx) {
  writer<T>(dx.size(), at.data == dx.data || dy.data == dx.data)(
      dx.data, dx.size(), [ at, dy ]<class V>(index_t i) __attribute__((always_inline)) {
        return Eigen::internal::pmul(load<V>(dy.data + i),
                                     through_packet<V, T>(
                                         load<V>(at.data + i), [](auto const& v) __attribute__((always_inline)) {
                                           return Function::derivative(v);
                                         }));
      });
}

}  // namespace tessera::detail::eigen_kernels
