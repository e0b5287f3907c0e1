// Softmax of 1024 rows of 4096 numbers, its gradient, and the logarithm of both, cut by rows (no messages) and along
// the rows: then maxima and sums of rows are all-reduced, one message each.

#include "support/operator.hpp"

#include <tessera/op/softmax.hpp>

namespace {

using namespace comparison;

constexpr ts::shape<2> extents{{1024, 4096}};

template <class Layout, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  constexpr bool cut_rows = Ranks > 1 && ts::placements_of<ts::mesh<ranks<Ranks>>, Layout>.shard_axes(1) != 0;
  const auto prepare = [&where] {
    return std::tuple(numbers<Layout>(where, extents, 1), numbers<Layout>(where, extents, 2));
  };
  const auto maxima_of = [](const_matrix_map const& x) {
    array most = x.rowwise().maxCoeff();
    if (cut_rows)
      MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    return most;
  };
  const auto total = [](array& sums) {
    if (cut_rows) sum_over_ranks(sums.data(), sums.size());
  };
  add_operator(
      name + "_forward", prepare, [](auto const& x, auto const&) { return ts::op::softmax(x); },
      [=](arrays& out, auto const& x, auto const&) {
        const array most = maxima_of(map(x));
        matrix_map y = shaped_as(x, out[0]);
        array sums(y.rows());
        for (ts::index_t r = 0; r < y.rows(); ++r) {
          y.row(r) = (map(x).row(r).array() - most[r]).exp();
          sums[r] = y.row(r).sum();
        }
        total(sums);
        for (ts::index_t r = 0; r < y.rows(); ++r) y.row(r) *= 1 / sums[r];
      });
  // The first operand stands for the result of forward.
  add_operator(
      name + "_backward", prepare, [](auto const& y, auto const& dy) { return ts::op::softmax_backward(y, dy); },
      [=](arrays& out, auto const& y, auto const& dy) {
        matrix_map dx = shaped_as(y, out[0]);
        array dots = map(y).cwiseProduct(map(dy)).rowwise().sum();
        total(dots);
        for (ts::index_t r = 0; r < dx.rows(); ++r)
          dx.row(r).array() = map(y).row(r).array() * (map(dy).row(r).array() - dots[r]);
      });
  add_operator(
      name + "_log_forward", prepare, [](auto const& x, auto const&) { return ts::op::log_softmax(x); },
      [=](arrays& out, auto const& x, auto const&) {
        const array most = maxima_of(map(x));
        matrix_map y = shaped_as(x, out[0]);
        array sums(y.rows());
        for (ts::index_t r = 0; r < y.rows(); ++r) sums[r] = (map(x).row(r).array() - most[r]).exp().sum();
        total(sums);
        for (ts::index_t r = 0; r < y.rows(); ++r)
          y.row(r).array() = map(x).row(r).array() - (most[r] + std::log(sums[r]));
      });
  add_operator(
      name + "_log_backward", prepare,
      [](auto const& y, auto const& dy) { return ts::op::log_softmax_backward(y, dy); },
      [=](arrays& out, auto const& y, auto const& dy) {
        matrix_map dx = shaped_as(y, out[0]);
        array sums = map(dy).rowwise().sum();
        total(sums);
        for (ts::index_t r = 0; r < dx.rows(); ++r)
          dx.row(r).array() = map(dy).row(r).array() - map(y).row(r).array().exp() * sums[r];
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>>("softmax/rows", where);
    add_split<ts::column<axis>>("softmax/along", where);
  });
}
