// Changes of the layout of a 1024 x 1024 matrix, each next to the MPI call that does it with packing by hand. On one
// rank there is nothing to do, so nothing is measured.

#include "support/program.hpp"

#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t side = 1024;
constexpr ts::shape<2> extents{{side, side}};

/// The part of `side` rows or columns that each rank holds.
std::vector<int> part_sizes(int parts) {
  std::vector<int> sizes;
  for (int r = 0; r < parts; ++r) sizes.push_back(static_cast<int>(ts::cut({0, side}, parts, r).size));
  return sizes;
}
std::vector<int> times(std::vector<int> values, ts::index_t factor) {
  for (int& v : values) v *= static_cast<int>(factor);
  return values;
}
std::vector<int> starts(std::vector<int> const& sizes) {
  std::vector<int> from(sizes.size());
  for (std::size_t r = 1; r < sizes.size(); ++r) from[r] = from[r - 1] + sizes[r - 1];
  return from;
}

/// `by_hand(x, y)` brings this rank's block x to its block y.
template <class From, class To, int Ranks, class ByHand>
void add_change(char const* name, team<Ranks>& where, ByHand by_hand) {
  using target = ts::sharded<float, 2, To, team<Ranks>>;
  add(name, [&where, by_hand] {
    using source = ts::sharded<float, 2, From, team<Ranks>>;
    const auto whole = numbers<ts::replicated>(where, extents, 1);
    source x(where, extents);
    if constexpr (source::placements.partial_axes() != 0)
      std::copy_n(whole.read().data, whole.read().size(), x.write().data);
    else
      x = ts::distribute<From>(where, whole.local());
    const auto y = std::make_shared<target>();
    const auto z = std::make_shared<target>(where, extents);
    return std::vector<way>{{"ours",
                             [=] {
                               *y = {};
                               *y = x | ts::to<To>;
                               return results{values(*y)};
                             }},
                            {"by_hand", [=] {
                               by_hand(map(x), matrix_map(z->write().data, z->local().extent(0), z->local().extent(1)));
                               return results{values(*z)};
                             }}};
  });
}

template <int Ranks>
void add_all(team<Ranks>& where) {
  using axis = ranks<Ranks>;
  const std::vector<int> sizes = part_sizes(Ranks);
  const std::vector<int> at = starts(sizes);
  const auto mine = static_cast<std::size_t>(where.rank());
  constexpr auto n = static_cast<std::size_t>(Ranks);

  add_change<ts::partial<axis>, ts::replicated>("redistribute/partial_to_replicated", where, [](auto x, auto y) {
    MPI_Allreduce(x.data(), y.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  add_change<ts::partial<axis>, ts::row<axis>>("redistribute/partial_to_rows", where, [=](auto x, auto y) {
    MPI_Reduce_scatter(x.data(), y.data(), times(sizes, side).data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  const auto packed = std::make_shared<matrix>(side, side);
  const auto unpacked = std::make_shared<matrix>(side, side);
  add_change<ts::partial<axis>, ts::column<axis>>("redistribute/partial_to_columns", where, [=](auto x, auto y) {
    for (std::size_t r = 0; r < n; ++r)
      matrix_map(packed->data() + at[r] * side, side, sizes[r]) = x.middleCols(at[r], sizes[r]);
    MPI_Reduce_scatter(packed->data(), y.data(), times(sizes, side).data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  add_change<ts::row<axis>, ts::replicated>("redistribute/rows_to_replicated", where, [=](auto x, auto y) {
    MPI_Allgatherv(x.data(), static_cast<int>(x.size()), MPI_FLOAT, y.data(), times(sizes, side).data(),
                   times(at, side).data(), MPI_FLOAT, MPI_COMM_WORLD);
  });
  add_change<ts::column<axis>, ts::replicated>("redistribute/columns_to_replicated", where, [=](auto x, auto y) {
    MPI_Allgatherv(x.data(), static_cast<int>(x.size()), MPI_FLOAT, packed->data(), times(sizes, side).data(),
                   times(at, side).data(), MPI_FLOAT, MPI_COMM_WORLD);
    for (std::size_t r = 0; r < n; ++r)
      y.middleCols(at[r], sizes[r]) = matrix_map(packed->data() + at[r] * side, side, sizes[r]);
  });
  add_change<ts::row<axis>, ts::column<axis>>("redistribute/rows_to_columns", where, [=](auto x, auto y) {
    const std::vector<int> sent = times(sizes, x.rows());
    const std::vector<int> received = times(sizes, y.cols());
    for (std::size_t r = 0; r < n; ++r)
      matrix_map(packed->data() + starts(sent)[r], x.rows(), sizes[r]) = x.middleCols(at[r], sizes[r]);
    // What a column block receives is a block of rows: it lies in place.
    MPI_Alltoallv(packed->data(), sent.data(), starts(sent).data(), MPI_FLOAT, y.data(), received.data(),
                  starts(received).data(), MPI_FLOAT, MPI_COMM_WORLD);
  });
  add_change<ts::column<axis>, ts::row<axis>>("redistribute/columns_to_rows", where, [=](auto x, auto y) {
    const std::vector<int> sent = times(sizes, x.cols());
    const std::vector<int> received = times(sizes, y.rows());
    MPI_Alltoallv(x.data(), sent.data(), starts(sent).data(), MPI_FLOAT, unpacked->data(), received.data(),
                  starts(received).data(), MPI_FLOAT, MPI_COMM_WORLD);
    for (std::size_t r = 0; r < n; ++r)
      y.middleCols(at[r], sizes[r]) = matrix_map(unpacked->data() + starts(received)[r], y.rows(), sizes[r]);
  });
  add_change<ts::replicated, ts::column<axis>>("redistribute/replicated_to_columns", where,
                                               [=](auto x, auto y) { y = x.middleCols(at[mine], sizes[mine]); });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    if constexpr (Ranks > 1) add_all(where);
  });
}
