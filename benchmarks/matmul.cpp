// y = x w^T, cut by rows of x (batch), by rows of w (output) and by what is summed over (input, then summed over
// ranks).

#include "support/program.hpp"

#include <tessera/op/matmul.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t rows = 256;
constexpr ts::index_t inputs = 1024;
constexpr ts::index_t outputs = 1024;

template <class LayoutX, class LayoutW, int Ranks>
void add_split(char const* name, team<Ranks>& where) {
  add(name, [&where] {
    const auto x = numbers<LayoutX>(where, ts::shape<2>{{rows, inputs}}, 1);
    const auto w = numbers<LayoutW>(where, ts::shape<2>{{outputs, inputs}}, 2);
    using product = decltype(ts::op::linear_product(x, w));
    using result = whole_sums<product>;
    const auto y = std::make_shared<result>();
    const auto by_hand = std::make_shared<matrix>(x.local().extent(0), w.local().extent(0));
    return std::vector<way>{{"ours",
                             [=] {
                               *y = {};
                               *y = ts::redistribute<typename result::layout_type>(ts::op::linear_product(x, w));
                               return results{values(*y)};
                             }},
                            {"by_hand", [=] {
                               by_hand->noalias() = map(x) * map(w).transpose();
                               if (is_partial<product>) sum_over_ranks(by_hand->data(), by_hand->size());
                               return results{values(*by_hand)};
                             }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>, ts::replicated>("matmul/batch", where);
    add_split<ts::replicated, ts::row<axis>>("matmul/output", where);
    add_split<ts::column<axis>, ts::column<axis>>("matmul/input", where);
  });
}
