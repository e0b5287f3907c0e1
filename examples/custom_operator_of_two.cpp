// An operator of two operands that is linear in neither, written outside the library, and the check of its value and
// both gradients against the serial run, for every cut that the rules allow.
//
// run: 1
// run: 2
// run: 4

#include <tessera/tessera.hpp>

#include <cmath>
#include <cstdio>

namespace ts = tessera;

// [rules]
// Squared Euclidean distances of n points to m centres with f features each (S. Lloyd, IEEE Transactions
// on Information Theory 28, 1982). The result lacks f: along an axis that cuts the features it is a partial
// sum. A square of a part is no part of the square of a sum, so no operand may be partial.
struct distances_op {
  static constexpr ts::index_rules rules{
      "nf,mf->nm", {{'n', "points"}, {'m', "centres"}, {'f', "features"}}, ts::linearity::none};
};
// The gradient of the points sums over the centres: partial along axes that cut these. That of the centres
// is the same with the operands exchanged.
struct distances_points_op {
  static constexpr ts::index_rules rules{
      "nm,nf,mf->nf", {{'n', "points"}, {'m', "centres"}, {'f', "features"}}, ts::linearity::none};
};
struct distances_centres_op {
  static constexpr ts::index_rules rules{
      "nm,nf,mf->mf", {{'n', "points"}, {'m', "centres"}, {'f', "features"}}, ts::linearity::none};
};
// [rules]

// [kernels]
// d[n, m] = sum of (x[n, f] - c[m, f])^2 over the features of this rank.
template <class T>
void measure(ts::block<T const, 2> x, ts::block<T const, 2> c, ts::block<T, 2> d) {
  for (ts::index_t n = 0; n < d.extent(0); ++n)
    for (ts::index_t m = 0; m < d.extent(1); ++m) {
      double sum = 0;
      for (ts::index_t f = 0; f < x.extent(1); ++f) {
        const double apart = static_cast<double>(x(n, f)) - static_cast<double>(c(m, f));
        sum += apart * apart;
      }
      d(n, m) = static_cast<T>(sum);
    }
}

// dx[n, f] = sum of 2 dd(n, m) (x[n, f] - c[m, f]) over the centres of this rank.
template <class T, class Gradient>
void pull(ts::block<T const, 2> x, ts::block<T const, 2> c, Gradient dd, ts::block<T, 2> dx) {
  for (ts::index_t n = 0; n < dx.extent(0); ++n)
    for (ts::index_t f = 0; f < dx.extent(1); ++f) {
      double sum = 0;
      for (ts::index_t m = 0; m < c.extent(0); ++m) {
        const double apart = static_cast<double>(x(n, f)) - static_cast<double>(c(m, f));
        sum += 2 * static_cast<double>(dd(n, m)) * apart;
      }
      dx(n, f) = static_cast<T>(sum);
    }
}
// [kernels]

// [operator]
template <ts::sharded_tensor X, ts::sharded_tensor C>
auto distances(X const& x, C const& c) {
  if (x.extent(1) != c.extent(1))
    throw ts::error("centres of " + std::to_string(c.extent(1)) + " features",
                    std::to_string(x.extent(1)) + ", as the points have", "check the extents");
  ts::result_of<distances_op, 2, X, C> d(x.where(), {{x.extent(0), c.extent(0)}});
  measure(x.read(), c.read(), d.write());
  return d;
}

template <ts::sharded_tensor X, ts::sharded_tensor C, ts::sharded_tensor D>
auto distances_backward_points(D const& dd, X const& x, C const& c) {
  ts::result_of<distances_points_op, 2, D, X, C> dx(x.where(), x.extents());
  const auto upstream = dd.read();
  pull(
      x.read(), c.read(), [&](ts::index_t n, ts::index_t m) { return upstream(n, m); }, dx.write());
  return dx;
}

template <ts::sharded_tensor X, ts::sharded_tensor C, ts::sharded_tensor D>
auto distances_backward_centres(D const& dd, X const& x, C const& c) {
  ts::result_of<distances_centres_op, 2, D, X, C> dc(c.where(), c.extents());
  const auto upstream = dd.read();
  pull(
      c.read(), x.read(), [&](ts::index_t m, ts::index_t n) { return upstream(n, m); }, dc.write());
  return dc;
}
// [operator]

template <int Size>
struct all_ranks : ts::axis<Size> {};

ts::tensor<double, 2> numbers(ts::shape<2> extents, std::uint64_t stream) {
  ts::tensor<double, 2> t(extents);
  const ts::philox draw(1, stream);
  for (ts::index_t i = 0; i < t.size(); ++i) t.data()[i] = draw.normal(static_cast<std::uint64_t>(i));
  return t;
}

template <class A, class B>
double difference(A const& a, B const& b) {
  double worst = 0;
  for (ts::index_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a.data()[i] - b.data()[i]));
  return worst;
}

// The value and both gradients, whole.
struct outcome {
  ts::tensor<double, 2> d, dx, dc;
};

template <class LayoutX, class LayoutC, class LayoutD, class Team>
outcome run(Team& team, ts::tensor<double, 2> const& points) {
  const auto x = ts::distribute<LayoutX>(team, points);
  const auto c = ts::distribute<LayoutC>(team, numbers({3, 6}, 1));
  const auto dd = ts::distribute<LayoutD>(team, numbers({5, 3}, 2));
  return {ts::gather(distances(x, c)), ts::gather(distances_backward_points(dd, x, c)),
          ts::gather(distances_backward_centres(dd, x, c))};
}

outcome serial(ts::tensor<double, 2> const& points) {
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  return run<ts::replicated, ts::replicated, ts::replicated>(alone, points);
}

// One cut against one rank. The sums of the parts round in another order.
template <class LayoutX, class LayoutC, class LayoutD, class Team>
double worst_difference(Team& team) {
  const outcome wanted = serial(numbers({5, 6}, 0));
  const outcome found = run<LayoutX, LayoutC, LayoutD>(team, numbers({5, 6}, 0));
  return std::max({difference(found.d, wanted.d), difference(found.dx, wanted.dx), difference(found.dc, wanted.dc)});
}

// The gradient of sum(distances * dd) in the points: central differences.
double gradient_difference() {
  auto x = numbers({5, 6}, 0);
  const auto dd = numbers({5, 3}, 2);
  const auto dx = serial(x).dx;
  const auto loss = [&] {
    const auto d = serial(x).d;
    double sum = 0;
    for (ts::index_t i = 0; i < d.size(); ++i) sum += d.data()[i] * dd.data()[i];
    return sum;
  };
  double worst = 0;
  for (ts::index_t i = 0; i < x.size(); ++i) {
    const double at = x.data()[i];
    x.data()[i] = at + 1e-5;
    const double above = loss();
    x.data()[i] = at - 1e-5;
    const double below = loss();
    x.data()[i] = at;
    worst = std::max(worst, std::abs((above - below) / 2e-5 - dx.data()[i]));
  }
  return worst;
}

template <int Size>
bool check() {
  using axis = all_ranks<Size>;
  ts::session<ts::mesh<axis>> session;
  // [cuts]
  // By points, by centres, and by features, which both operands have and the result does not.
  using whole = ts::replicated;
  using rows = ts::row<axis>;
  using columns = ts::column<axis>;
  const double worst =
      std::max({worst_difference<rows, whole, rows>(session), worst_difference<whole, rows, columns>(session),
                worst_difference<columns, columns, whole>(session)});
  // [cuts]
  const double gradient = gradient_difference();
  if (session.rank() == 0)
    std::printf("%d ranks: %.1e from serial, gradient %.1e from differences\n", Size, worst, gradient);
  return worst < 1e-13 && gradient < 1e-7;
}

int main(int argc, char** argv) {
  ts::program program(argc, argv);
  switch (ts::mpi_comm().size()) {
    case 1: return check<1>() ? 0 : 1;
    case 2: return check<2>() ? 0 : 1;
    default: return check<4>() ? 0 : 1;
  }
}
