// Sums, means and maxima of 2048 x 2048 numbers over rows, columns and both, cut by rows: where what is reduced is cut
// one all-reduce follows.

#include "support/operator.hpp"

#include <tessera/op/reduce.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t side = 2048;

template <int Ranks>
void add_all(team<Ranks>& where) {
  const auto prepare = [&where] {
    return std::tuple(numbers<ts::row<ranks<Ranks>>>(where, ts::shape<2>{{side, side}}, 1));
  };
  add_operator(
      "reduce/sum_columns", prepare, [](auto const& x) { return ts::op::sum<1>(x); },
      [](arrays& y, auto const& x) { y[0] = map(x).rowwise().sum(); });
  add_operator(
      "reduce/sum_rows", prepare, [](auto const& x) { return ts::op::sum<0>(x) | ts::to<ts::replicated>; },
      [](arrays& y, auto const& x) {
        add_rows(map(x), y[0]);
        sum_over_ranks(y[0].data(), side);
      });
  add_operator(
      "reduce/mean", prepare, [](auto const& x) { return ts::op::mean(x) | ts::to<ts::replicated>; },
      [](arrays& y, auto const& x) {
        // In double: a sum of four million floats has few digits left.
        double sum = 0;
        for (ts::index_t r = 0; r < map(x).rows(); ++r) sum += map(x).row(r).sum();
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        y[0][0] = static_cast<float>(sum / static_cast<double>(side * side));
      });
  add_operator(
      "reduce/max_columns", prepare, [](auto const& x) { return ts::op::max<1>(x); },
      [](arrays& y, auto const& x) { y[0] = map(x).rowwise().maxCoeff(); });
  add_operator(
      "reduce/max_rows", prepare, [](auto const& x) { return ts::op::max<0>(x) | ts::to<ts::replicated>; },
      [](arrays& y, auto const& x) {
        y[0] = map(x).row(0).transpose();
        for (ts::index_t r = 1; r < map(x).rows(); ++r) y[0] = y[0].max(map(x).row(r).transpose().array());
        MPI_Allreduce(MPI_IN_PLACE, y[0].data(), static_cast<int>(side), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) { add_all(where); });
}
