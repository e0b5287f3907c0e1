// The scores of attention, q k^T for 64 heads of 128 x 64, cut by heads (no messages) and by the size of a head (then
// summed over ranks). By hand it is one Eigen product a head.

#include "support/program.hpp"

#include <tessera/op/batch_matmul.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::shape<3> extents{{64, 128, 64}};

template <class Layout, int Ranks>
void add_split(char const* name, team<Ranks>& where) {
  add(name, [&where] {
    const auto q = numbers<Layout>(where, extents, 1);
    const auto k = numbers<Layout>(where, extents, 2);
    using product = decltype(ts::op::batch_matmul<false, true>(q, k));
    using result = whole_sums<product>;
    const auto y = std::make_shared<result>();
    const auto by_hand =
        std::make_shared<std::vector<float>>(static_cast<std::size_t>(q.local().extent(0) * extents[1] * extents[1]));
    return std::vector<way>{
        {"ours",
         [=] {
           *y = {};
           *y = ts::redistribute<typename result::layout_type>(ts::op::batch_matmul<false, true>(q, k));
           return results{values(*y)};
         }},
        {"by_hand", [=] {
           const ts::index_t rows = extents[1];
           const ts::index_t size = q.local().extent(2);
           for (ts::index_t head = 0; head < q.local().extent(0); ++head)
             matrix_map(by_hand->data() + head * rows * rows, rows, rows).noalias() =
                 const_matrix_map(q.local().data() + head * rows * size, rows, size) *
                 const_matrix_map(k.local().data() + head * rows * size, rows, size).transpose();
           if (is_partial<product>) sum_over_ranks(by_hand->data(), static_cast<ts::index_t>(by_hand->size()));
           return results{*by_hand};
         }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    add_split<ts::shard<0, ranks<Ranks>>>("batch_matmul/batch", where);
    add_split<ts::shard<2, ranks<Ranks>>>("batch_matmul/inner", where);
  });
}
