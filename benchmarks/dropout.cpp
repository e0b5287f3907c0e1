// Dropout of 1024 x 4096 numbers, cut by rows and by columns (no messages). By hand the random word of each element
// comes one counter at a time from the same generator.

#include "support/operator.hpp"

#include <tessera/op/dropout.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t columns = 4096;
constexpr double keep = 0.75;
constexpr ts::philox draw(7, 3);

/// The counter and the word of element `e`: of each 128 neighbours, element 32 w + k takes word w of counter k.
bool is_kept(ts::index_t e) {
  const auto words = draw(static_cast<std::uint64_t>(e / 128 * 32 + e % 32));
  return words[static_cast<std::size_t>(e % 128 / 32)] < keep * 0x1.0p32;
}

template <class Layout, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  add_operator(
      name,
      [&where] {
        return std::tuple(numbers<Layout>(where, ts::shape<2>{{1024, columns}}, 1));
      },
      [](auto const& x) { return ts::op::dropout(x, keep, draw); },
      [](arrays& out, auto const& x) {
        matrix_map y = shaped_as(x, out[0]);
        for (ts::index_t r = 0; r < y.rows(); ++r)
          for (ts::index_t c = 0; c < y.cols(); ++c)
            y(r, c) = is_kept((x.part()[0].begin + r) * columns + x.part()[1].begin + c)
                          ? map(x)(r, c) * static_cast<float>(1 / keep)
                          : 0;
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>>("dropout/rows", where);
    add_split<ts::column<axis>>("dropout/columns", where);
  });
}
