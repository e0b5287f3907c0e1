// A layer written outside the library: its own split words, rules, forward and backward, used in a chain and compared
// with the serial model.
//
// run: 1
// run: 2
// run: 4

#include <tessera/tessera.hpp>

#include <cmath>
#include <cstdio>

namespace ts = tessera;

// [words]
// A split word of our own: which mesh axes cut the entries of a row.
template <class... Axes>
struct split_entries : ts::split_word<Axes...> {
  static constexpr std::string_view word = "entries";
};
// [words]

// [layer]
// y = gain * x / |x| for each row: rows of unit length, scaled feature by feature.
template <int Features, class... Options>
struct unit_rows {
  using words = ts::split_words<Options...>;

  struct gain : ts::parameter<ts::ones, Features> {
    static constexpr std::string_view name = "gain";
  };
  using parameters = ts::parameter_list<gain>;
  static constexpr ts::shape<2> input_extents{{ts::dynamic, Features}};

  // One letter a dimension: x is [n, f], the gain [f], y [n, f]. An axis that cuts n leaves the gain whole
  // and makes its gradient partial; one that cuts f cuts all three. The library derives every layout from
  // this line.
  template <auto Extents>
  static constexpr ts::index_rules rules() {
    return {"nf,f->nf", {{'n', "batch"}, {'f', "entries"}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents[1] == Features, "tessera: unit_rows needs as many features as its input has");
    return Extents;
  }
  // Where the features are cut, each pass sums one number a row over the ranks.
  template <auto Extents, class Mesh>
  static constexpr void calls(ts::phase when, ts::resolved_layer<Mesh::axes> const& r,
                              ts::call_list<Mesh::axes>& list) {
    ts::append_row_reduction<Mesh>(list, when, ts::reduction::sum, Extents, r.output, 1);
  }
  // [layer]

  // [kernels]
  // What backward needs: the rows of unit length, and what they were divided by.
  template <class X>
  struct saved {
    X unit;
    std::vector<typename X::value_type> length;
  };

  template <class Env, class Saved, class X, class Gain>
  static auto forward(Env const& env, Saved& saved, X const& x, Gain const& gain) {
    saved.length = row_dots(env, x, x);
    for (auto& v : saved.length) v = std::sqrt(v + 1e-6f);
    saved.unit = X(x.where(), x.extents());
    X y(x.where(), x.extents());
    for_each(x, [&](ts::index_t n, ts::index_t f) {
      saved.unit.local()(n, f) = x.local()(n, f) / saved.length[static_cast<std::size_t>(n)];
      y.local()(n, f) = gain.local()(f) * saved.unit.local()(n, f);
    });
    return y;
  }

  template <class Env, class Saved, class Dy, class Gradients, class Gain>
  static auto backward(Env const& env, Saved const& saved, Dy const& dy, Gradients& gradients,
                       Gain const& gain) {
    auto& d_gain = std::get<0>(gradients).local();
    Dy scaled(dy.where(), dy.extents());
    for (ts::index_t f = 0; f < d_gain.extent(0); ++f) d_gain(f) = 0;
    for_each(dy, [&](ts::index_t n, ts::index_t f) {
      d_gain(f) += dy.local()(n, f) * saved.unit.local()(n, f);
      scaled.local()(n, f) = dy.local()(n, f) * gain.local()(f);
    });
    const auto along = row_dots(env, scaled, saved.unit);
    Dy dx(dy.where(), dy.extents());
    for_each(dy, [&](ts::index_t n, ts::index_t f) {
      const auto row = static_cast<std::size_t>(n);
      dx.local()(n, f) = (scaled.local()(n, f) - saved.unit.local()(n, f) * along[row]) / saved.length[row];
    });
    return dx;
  }

 private:
  template <class X, class F>
  static void for_each(X const& x, F f) {
    for (ts::index_t n = 0; n < x.local().extent(0); ++n)
      for (ts::index_t i = 0; i < x.local().extent(1); ++i) f(n, i);
  }
  // The dot product of each row of `a` and `b`, over all features wherever they are.
  template <class Env, class X>
  static auto row_dots(Env const& env, X const& a, X const& b) {
    std::vector<typename X::value_type> sums(static_cast<std::size_t>(a.local().extent(0)));
    for_each(a, [&](ts::index_t n, ts::index_t f) {
      sums[static_cast<std::size_t>(n)] += a.local()(n, f) * b.local()(n, f);
    });
    if constexpr (Env::is_cut("f"))
      env.group("f").all_reduce(sums.data(), static_cast<ts::index_t>(sums.size()), ts::reduction::sum);
    return sums;
  }
  // [kernels]
};

// [use]
template <class Dp, class Tp>
using classifier = ts::parallel<
    ts::chain<ts::linear<20, 17, ts::split_output<Tp>>, unit_rows<17, split_entries<Tp>>, ts::relu,
              ts::linear<17, 5, ts::split_input<Tp>>>,
    ts::data_parallel<Dp>>;
// [use]

template <int Size>
struct dp : ts::axis<Size> {};
template <int Size>
struct tp : ts::axis<Size> {};

// Losses of ten steps on a mesh of any communicator.
template <class Model, class Team>
std::vector<double> train(Team& team) {
  auto model = team.template make<Model>(ts::seed{1});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::momentum{.learning_rate = 0.1}};
  using input = typename decltype(model)::input_type;
  ts::tensor<float, 2> rows({11, 20});
  const ts::philox draw(2, 0);
  for (ts::index_t i = 0; i < rows.size(); ++i) rows.data()[i] = static_cast<float>(draw.normal(static_cast<std::uint64_t>(i)));
  const auto x = ts::distribute<typename input::layout_type>(team, rows);
  std::vector<std::int64_t> labels;
  for (ts::index_t n = 0; n < x.part()[0].size; ++n) labels.push_back((x.part()[0].begin + n) % 5);
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) losses.push_back(trainer.step(x, labels));
  return losses;
}

template <int Dp, int Tp>
double worst_difference() {
  ts::team<ts::mesh<dp<1>, tp<1>>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto serial = train<classifier<dp<1>, tp<1>>>(alone);
  ts::session<ts::mesh<dp<Dp>, tp<Tp>>> session;
  const auto split = train<classifier<dp<Dp>, tp<Tp>>>(session);
  double worst = 0;
  for (std::size_t i = 0; i < serial.size(); ++i) worst = std::max(worst, std::abs(serial[i] - split[i]));
  if (session.rank() == 0)
    std::printf("%d x %d: loss %.6f after ten steps, serial %.6f\n", Dp, Tp, split.back(), serial.back());
  return worst;
}

int main(int argc, char** argv) {
  ts::program program(argc, argv);
  double worst = 0;
  switch (ts::mpi_comm().size()) {
    case 1: worst = worst_difference<1, 1>(); break;
    case 2: worst = std::max(worst_difference<2, 1>(), worst_difference<1, 2>()); break;
    default: worst = std::max({worst_difference<4, 1>(), worst_difference<1, 4>(), worst_difference<2, 2>()}); break;
  }
  // Sums in another order: a few float roundings.
  return worst < 1e-5 ? 0 : 1;
}
