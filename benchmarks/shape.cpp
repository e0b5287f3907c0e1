// Moving 2048 x 2048 numbers cut by rows: a transpose of each rank's block, pieces put together and taken apart along
// whole columns (no messages) and along rows, where half of the blocks change their rank; and images that become rows.

#include "support/operator.hpp"

#include <tessera/op/concat.hpp>
#include <tessera/op/reshape.hpp>
#include <tessera/op/slice.hpp>
#include <tessera/op/transpose.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t side = 2048;
constexpr ts::shape<4> images{{32, 64, 32, 32}};

/// Sends `count` floats to the other of two ranks and receives as many.
void swap(float const* send, float* receive, ts::index_t count) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Sendrecv(send, static_cast<int>(count), MPI_FLOAT, 1 - rank, 0, receive, static_cast<int>(count), MPI_FLOAT,
               1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

template <int Ranks>
void add_all(team<Ranks>& where) {
  using layout = ts::row<ranks<Ranks>>;
  const auto one = [&where] { return std::tuple(numbers<layout>(where, ts::shape<2>{{side, side}}, 1)); };
  const auto two = [&where] {
    constexpr ts::shape<2> half{{side / 2, side}};
    return std::tuple(numbers<layout>(where, half, 1), numbers<layout>(where, half, 2));
  };
  add_operator(
      "shape/transpose", one, [](auto const& x) { return ts::op::transpose<1, 0>(x); },
      [](arrays& y, auto const& x) { as_matrix(y[0], map(x).rows()) = map(x).transpose(); });
  add_operator(
      "shape/concat_columns", two, [](auto const& a, auto const& b) { return ts::op::concat<1>(a, b); },
      [](arrays& y, auto const& a, auto const& b) {
        as_matrix(y[0], 2 * side).leftCols(side) = map(a);
        as_matrix(y[0], 2 * side).rightCols(side) = map(b);
      });
  add_operator(
      "shape/slice_columns", one, [](auto const& x) { return ts::op::slice<1>(x, side / 4, side / 2); },
      [](arrays& y, auto const& x) { as_matrix(y[0], side / 2) = map(x).middleCols(side / 4, side / 2); });
  // Rank 0 has all of `a` in the end, rank 1 all of `b`.
  add_operator(
      "shape/concat_rows", two, [](auto const& a, auto const& b) { return ts::op::concat<0>(a, b); },
      [](arrays& y, auto const& a, auto const& b) {
        const ts::index_t count = flat(a).size();
        const bool first = a.part()[0].begin == 0;
        if (Ranks == 1) {
          y[0].head(count) = flat(a);
          y[0].tail(count) = flat(b);
        } else if (first) {
          swap(flat(b).data(), y[0].data() + count, count);
          y[0].head(count) = flat(a);
        } else {
          swap(flat(a).data(), y[0].data(), count);
          y[0].tail(count) = flat(b);
        }
      });
  // The last half of the rows, all of them on rank 1.
  add_operator(
      "shape/slice_rows", one, [](auto const& x) { return ts::op::slice<0>(x, side / 2, side / 2); },
      [](arrays& y, auto const& x) {
        const ts::index_t count = y[0].size();
        if (Ranks == 1)
          y[0] = flat(x).tail(count);
        else if (x.part()[0].begin == 0)
          MPI_Recv(y[0].data(), static_cast<int>(count), MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else {
          MPI_Send(flat(x).data(), static_cast<int>(count), MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
          y[0] = flat(x).tail(count);
        }
      });
  // In memory images lie channels last and rows do not.
  add_operator(
      "shape/reshape_images", [&where] { return std::tuple(numbers<layout>(where, images, 1)); },
      [](auto const& x) {
        return ts::op::reshape<ts::keep_dims<1>, ts::regroup<3, 1>>(x, ts::shape<2>{{images[0], ts::dynamic}});
      },
      [](arrays& y, auto const& x) {
        constexpr ts::index_t pixels = images[2] * images[3];
        for (ts::index_t n = 0; n < x.local().extent(0); ++n)
          matrix_map(y[0].data() + n * images[1] * pixels, images[1], pixels) =
              map(x).middleRows(n * pixels, pixels).transpose();
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) { add_all(where); });
}
