// Layer norm and root-mean-square norm of 2048 rows of 512 features with weight and bias, and their gradients, cut by
// rows (no messages) and by features: then the sums of rows are all-reduced, one message each way. By hand it is
// one pass for the sums and one for the result.

#include "support/operator.hpp"

#include <tessera/op/layer_norm.hpp>
#include <tessera/op/rms_norm.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t rows = 2048;
constexpr ts::index_t features = 512;
constexpr double epsilon = 1e-5;

/// Mean and 1 / deviation of each row; a mean of 0 for the root-mean-square norm.
struct statistics {
  array mean, inverse;
};

template <bool Centred, bool Cut>
statistics statistics_of(const_matrix_map const& x) {
  const ts::index_t count = x.rows();
  array sums(2 * count);
  for (ts::index_t r = 0; r < count; ++r) {
    sums[r] = Centred ? x.row(r).sum() : 0;
    sums[count + r] = x.row(r).squaredNorm();
  }
  if (Cut) sum_over_ranks(Centred ? sums.data() : sums.data() + count, Centred ? 2 * count : count);
  statistics s;
  s.mean = sums.head(count) / features;
  s.inverse = (sums.tail(count) / features - s.mean.square() + static_cast<float>(epsilon)).rsqrt();
  return s;
}

template <bool Centred, class X, class W>
auto normalize(X const& x, W const& weight, W const& bias) {
  if constexpr (Centred)
    return ts::op::layer_norm(x, weight, bias, epsilon);
  else
    return ts::op::rms_norm(x, weight, epsilon);
}

/// `Own` is the layout of the weight, `Gradient` that of its gradient.
template <bool Centred, class Layout, class Own, class Gradient, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  constexpr bool cut = Ranks > 1 && ts::placements_of<ts::mesh<ranks<Ranks>>, Layout>.shard_axes(1) != 0;
  const auto prepare = [&where] {
    constexpr ts::shape<2> extents{{rows, features}};
    auto x = numbers<Layout>(where, extents, 1);
    auto dy = numbers<Layout>(where, extents, 2);
    auto weight = numbers<Own>(where, ts::shape<1>{{features}}, 3);
    auto bias = numbers<Own>(where, ts::shape<1>{{features}}, 4);
    auto s = normalize<Centred>(x, weight, bias).statistics;
    auto by_hand = statistics_of<Centred, cut>(map(x));
    return std::tuple(std::move(x), std::move(dy), std::move(weight), std::move(bias), std::move(s),
                      std::move(by_hand));
  };
  add_operator(
      name + "_forward", prepare,
      [](auto const& x, auto const&, auto const& weight, auto const& bias, auto const&...) {
        return normalize<Centred>(x, weight, bias).y;
      },
      [](arrays& out, auto const& x, auto const&, auto const& weight, auto const& bias, auto const&...) {
        const statistics s = statistics_of<Centred, cut>(map(x));
        matrix_map y = shaped_as(x, out[0]);
        const auto gamma = map(weight).row(0).array();
        for (ts::index_t r = 0; r < y.rows(); ++r) {
          y.row(r).array() = (map(x).row(r).array() - s.mean[r]) * s.inverse[r] * gamma;
          if (Centred) y.row(r) += map(bias).row(0);
        }
      });
  // Gradients of weight and bias are this rank's parts of sums under a cut of rows.
  add_operator(
      name + "_backward", prepare,
      [&where](auto const& x, auto const& dy, auto const& weight, auto const&, auto const& s, auto const&) {
        ts::sharded<float, 1, Gradient, team<Ranks>> dweight(where, weight.extents());
        ts::sharded<float, 1, Gradient, team<Ranks>> dbias(where, weight.extents());
        if constexpr (Centred) {
          auto dx = ts::op::layer_norm_backward(x, dy, s, weight, dweight, dbias);
          return std::tuple(std::move(dx), std::move(dweight), std::move(dbias));
        } else {
          auto dx = ts::op::rms_norm_backward(x, dy, s, weight, dweight);
          return std::tuple(std::move(dx), std::move(dweight));
        }
      },
      [](arrays& out, auto const& x_, auto const& dy_, auto const& weight, auto const&, auto const&,
         statistics const& s) {
        const const_matrix_map x = map(x_);
        const const_matrix_map dy = map(dy_);
        const auto gamma = map(weight).row(0).array();
        const ts::index_t count = x.rows();
        for (std::size_t i = 1; i < out.size(); ++i) out[i].setZero();
        array sums(2 * count);
        for (ts::index_t r = 0; r < count; ++r) {
          const auto normalized = (x.row(r).array() - s.mean[r]) * s.inverse[r];
          out[1].transpose() += dy.row(r).array() * normalized;
          if (Centred) out[2].transpose() += dy.row(r).array();
          sums[r] = Centred ? (dy.row(r).array() * gamma).sum() : 0;
          sums[count + r] = (dy.row(r).array() * gamma * normalized).sum();
        }
        if (cut) sum_over_ranks(Centred ? sums.data() : sums.data() + count, Centred ? 2 * count : count);
        sums /= features;
        matrix_map dx = shaped_as(x_, out[0]);
        for (ts::index_t r = 0; r < count; ++r) {
          const auto normalized = (x.row(r).array() - s.mean[r]) * s.inverse[r];
          dx.row(r).array() = s.inverse[r] * (dy.row(r).array() * gamma - sums[r] - normalized * sums[count + r]);
        }
      });
}

template <bool Centred, int Ranks>
void add_norm(std::string const& name, team<Ranks>& where) {
  using axis = ranks<Ranks>;
  add_split<Centred, ts::row<axis>, ts::replicated, ts::partial<axis>>(name + "/rows", where);
  add_split<Centred, ts::column<axis>, ts::row<axis>, ts::row<axis>>(name + "/features", where);
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    add_norm<true>("layer_norm", where);
    add_norm<false>("rms_norm", where);
  });
}
