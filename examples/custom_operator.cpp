// An operator written outside the library: its rule, its two functions on typed tensors, and the check of both
// against the serial run, for every cut that the rule allows.
//
// run: 1
// run: 2
// run: 4

#include <tessera/tessera.hpp>

#include <cmath>
#include <cstdio>

namespace ts = tessera;

// [rule]
// Rotary position embedding (J. Su et al., RoFormer, 2021): neighbours 2i and 2i + 1 of the f features are
// turned by the angle p * base^(-2i / f), where p is the position in the sequence. x is [n, s, f], and so is
// the result. Samples and positions may be cut. Features may not, as a pair could be torn apart. Turning is
// linear, so x may be a partial sum.
struct rotary_op {
  static constexpr ts::index_rules rules{
      "nsf->nsf", {{'n', "batch"}, {'s', "sequence"}}, ts::linearity::each};
};
// [rule]

// [kernel]
// One rank's block, whose first position is `first` of the whole sequence. `way` -1 turns back.
template <class T>
void turn(ts::block<T const, 3> x, ts::block<T, 3> y, ts::index_t first, double base, double way) {
  const ts::index_t features = x.extent(2);
  for (ts::index_t n = 0; n < x.extent(0); ++n)
    for (ts::index_t s = 0; s < x.extent(1); ++s)
      for (ts::index_t i = 0; i + 1 < features; i += 2) {
        const double power = static_cast<double>(i) / static_cast<double>(features);
        const double angle = way * static_cast<double>(first + s) * std::pow(base, -power);
        const auto c = static_cast<T>(std::cos(angle));
        const auto d = static_cast<T>(std::sin(angle));
        y(n, s, i) = c * x(n, s, i) - d * x(n, s, i + 1);
        y(n, s, i + 1) = d * x(n, s, i) + c * x(n, s, i + 1);
      }
}
// [kernel]

// [operator]
// No collectives: a rank knows from its part of the whole where its positions begin.
template <ts::sharded_tensor X>
auto rotary(X const& x, double base = 1e4) {
  static_assert(X::rank == 3, "tessera: rotary takes sequences [N, S, F]; reshape the input first");
  if (x.extent(2) % 2 != 0)
    throw ts::error("rotary of " + std::to_string(x.extent(2)) + " features", "an even number of them",
                    "pad the features, or turn a part of them");
  ts::result_of<rotary_op, 3, X> y(x.where(), x.extents());
  turn(x.read(), y.write(), x.part()[1].begin, base, 1);
  return y;
}

// The gradient of a rotation is the rotation back.
template <ts::sharded_tensor Dy>
auto rotary_backward(Dy const& dy, double base = 1e4) {
  ts::result_of<rotary_op, 3, Dy> dx(dy.where(), dy.extents());
  turn(dy.read(), dx.write(), dy.part()[1].begin, base, -1);
  return dx;
}
// [operator]

// [check]
template <int Size>
struct all_ranks : ts::axis<Size> {};

ts::tensor<double, 3> numbers(ts::shape<3> extents, std::uint64_t stream) {
  ts::tensor<double, 3> t(extents);
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

// Forward and backward of one cut against the same on one rank.
template <class Layout, class Team>
double worst_difference(Team& team) {
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto x = numbers({3, 5, 8}, 0);  // over four ranks some hold one position, or no sample
  const auto dy = numbers({3, 5, 8}, 1);
  const auto y_alone = rotary(ts::distribute<ts::replicated>(alone, x));
  const auto dx_alone = rotary_backward(ts::distribute<ts::replicated>(alone, dy));
  const auto y = ts::gather(rotary(ts::distribute<Layout>(team, x)));
  const auto dx = ts::gather(rotary_backward(ts::distribute<Layout>(team, dy)));
  return std::max(difference(y, y_alone.local()), difference(dx, dx_alone.local()));
}

// The gradient of sum(rotary(x) * dy), element by element: central differences.
double gradient_difference() {
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  auto x = numbers({1, 3, 4}, 0);
  const auto dy = numbers({1, 3, 4}, 1);
  const auto loss = [&] {
    const auto y = rotary(ts::distribute<ts::replicated>(alone, x));
    double sum = 0;
    for (ts::index_t i = 0; i < x.size(); ++i) sum += y.local().data()[i] * dy.data()[i];
    return sum;
  };
  const auto dx = rotary_backward(ts::distribute<ts::replicated>(alone, dy));
  double worst = 0;
  for (ts::index_t i = 0; i < x.size(); ++i) {
    const double at = x.data()[i];
    x.data()[i] = at + 1e-5;
    const double above = loss();
    x.data()[i] = at - 1e-5;
    const double below = loss();
    x.data()[i] = at;
    worst = std::max(worst, std::abs((above - below) / 2e-5 - dx.local().data()[i]));
  }
  return worst;
}
// [check]

template <int Size>
bool check() {
  using axis = all_ranks<Size>;
  ts::session<ts::mesh<axis>> session;
  const double worst =
      std::max({worst_difference<ts::replicated>(session), worst_difference<ts::shard<0, axis>>(session),
                worst_difference<ts::shard<1, axis>>(session)});
  const double gradient = gradient_difference();
  if (session.rank() == 0)
    std::printf("%d ranks: %.1e from serial, gradient %.1e from differences\n", Size, worst, gradient);
  return worst == 0 && gradient < 1e-8;
}

int main(int argc, char** argv) {
  ts::program program(argc, argv);
  switch (ts::mpi_comm().size()) {
    case 1: return check<1>() ? 0 : 1;
    case 2: return check<2>() ? 0 : 1;
    default: return check<4>() ? 0 : 1;
  }
}
