// 4096 rows of a table of 16384 rows with 256 features, and the gradient of the table, cut by indices (no messages) and
// by rows of the table: then each rank looks up its own rows, and one all-reduce adds the results up.

#include "support/operator.hpp"

#include <tessera/op/embedding.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t vocabulary = 16384;
constexpr ts::index_t features = 256;
constexpr ts::index_t count = 4096;

template <class Indices, class Table, class Gradient, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  constexpr bool cut_table = Ranks > 1 && ts::placements_of<ts::mesh<ranks<Ranks>>, Table>.shard_axes(0) != 0;
  const auto prepare = [&where] {
    ts::tensor<std::int64_t, 1> indices(ts::shape<1>{{count}});
    for (ts::index_t i = 0; i < count; ++i) indices.data()[i] = i * i % vocabulary;
    return std::tuple(ts::distribute<Indices>(where, indices),
                      numbers<Table>(where, ts::shape<2>{{vocabulary, features}}, 1),
                      numbers<Indices>(where, ts::shape<2>{{count, features}}, 2));
  };
  // The row of the table's block that an index names, outside of it where another rank has it.
  const auto row_of = [](auto const& indices, auto const& table, ts::index_t i) {
    return indices.read().data[i] - table.part()[0].begin;
  };
  add_operator(
      name + "_forward", prepare,
      [](auto const& indices, auto const& table, auto const&) {
        return ts::op::embedding(indices, table) | ts::to<Indices>;
      },
      [=](arrays& out, auto const& indices, auto const& table, auto const&) {
        matrix_map y = as_matrix(out[0], features);
        for (ts::index_t i = 0; i < y.rows(); ++i) {
          const ts::index_t row = row_of(indices, table, i);
          if (row >= 0 && row < map(table).rows())
            y.row(i) = map(table).row(row);
          else
            y.row(i).setZero();
        }
        if (cut_table) sum_over_ranks(y.data(), y.size());
      });
  // Where the indices are cut, each rank has its part of a sum.
  add_operator(
      name + "_backward", prepare,
      [&where](auto const& indices, auto const& table, auto const& dy) {
        ts::sharded<float, 2, Gradient, team<Ranks>> dtable(where, table.extents());
        ts::op::embedding_backward(indices, dy, dtable);
        return dtable;
      },
      [=](arrays& out, auto const& indices, auto const& table, auto const& dy) {
        matrix_map dtable = as_matrix(out[0], features);
        dtable.setZero();
        for (ts::index_t i = 0; i < indices.local().size(); ++i) {
          const ts::index_t row = row_of(indices, table, i);
          if (row >= 0 && row < dtable.rows()) dtable.row(row) += map(dy).row(i);
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>, ts::replicated, ts::partial<axis>>("embedding/indices", where);
    add_split<ts::replicated, ts::row<axis>, ts::row<axis>>("embedding/vocabulary", where);
  });
}
