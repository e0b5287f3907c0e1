// Group norm of 8x64x56x56 images in 16 groups with weight and bias, cut by batch (no messages) and by height: then the
// sums of groups are all-reduced in one message. By hand it is one pass for the sums and one for the result.

#include "support/operator.hpp"

#include <tessera/op/group_norm.hpp>

namespace {

using namespace comparison;

constexpr ts::shape<4> extents{{8, 64, 56, 56}};
constexpr ts::index_t groups = 16;
constexpr ts::index_t width = extents[1] / groups;
constexpr float count = width * extents[2] * extents[3];
constexpr double epsilon = 1e-5;

using row_type = Eigen::Array<float, 1, Eigen::Dynamic>;

/// Sums of groups of neighbouring channels.
row_type by_group(row_type const& channels) {
  return Eigen::Map<Eigen::Array<float, width, groups> const>(channels.data()).colwise().sum();
}
/// Each group's value for its channels.
row_type by_channel(row_type const& group) { return group.replicate(width, 1).reshaped().transpose(); }

template <class Layout, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  constexpr bool cut = Ranks > 1 && ts::placements_of<ts::mesh<ranks<Ranks>>, Layout>.shard_axes(2) != 0;
  const auto prepare = [&where] {
    constexpr ts::shape<1> channels{{extents[1]}};
    auto x = numbers<Layout>(where, extents, 1);
    auto weight = numbers<ts::replicated>(where, channels, 2);
    auto bias = numbers<ts::replicated>(where, channels, 3);
    auto s = ts::op::group_norm<groups>(x, weight, bias, epsilon).statistics;
    return std::tuple(std::move(x), numbers<Layout>(where, extents, 4), std::move(weight), std::move(bias),
                      std::move(s));
  };
  // Mean and 1 / deviation of each channel's group in sample n: rows 2n and 2n + 1.
  const auto statistics = [](auto const& x) {
    const ts::index_t pixels = x.local().extent(2) * x.local().extent(3);
    matrix sums(2 * x.local().extent(0), groups);
    for (ts::index_t n = 0; n < x.local().extent(0); ++n) {
      const auto image = map(x).middleRows(n * pixels, pixels).array();
      sums.row(2 * n) = by_group(image.colwise().sum());
      sums.row(2 * n + 1) = by_group(image.square().colwise().sum());
    }
    if (cut) sum_over_ranks(sums.data(), sums.size());
    matrix of_channels(sums.rows(), extents[1]);
    for (ts::index_t r = 0; r < sums.rows(); r += 2) {
      const row_type mean = sums.row(r).array() / count;
      const row_type variance = sums.row(r + 1).array() / count - mean.square();
      of_channels.row(r) = by_channel(mean);
      of_channels.row(r + 1) = by_channel((variance + static_cast<float>(epsilon)).rsqrt());
    }
    return of_channels;
  };
  add_operator(
      name + "_forward", prepare,
      [](auto const& x, auto const&, auto const& weight, auto const& bias, auto const&) {
        return ts::op::group_norm<groups>(x, weight, bias, epsilon).y;
      },
      [=](arrays& out, auto const& x, auto const&, auto const& weight, auto const& bias, auto const&) {
        const ts::index_t pixels = x.local().extent(2) * x.local().extent(3);
        const matrix s = statistics(x);
        matrix_map y = shaped_as(x, out[0]);
        for (ts::index_t r = 0; r < y.rows(); ++r) {
          const ts::index_t n = r / pixels;
          y.row(r).array() =
              (map(x).row(r).array() - s.row(2 * n).array()) * s.row(2 * n + 1).array() * map(weight).row(0).array() +
              map(bias).row(0).array();
        }
      });
  add_operator(
      name + "_backward", prepare,
      [](auto const& x, auto const& dy, auto const&, auto const&, auto const& s) {
        return ts::op::group_norm_backward<groups>(x, dy, s);
      },
      [=, by_hand = std::make_shared<matrix>()](arrays& out, auto const& x, auto const& dy, auto const&, auto const&,
                                                auto const&) {
        // Forward would have kept these.
        if (by_hand->size() == 0) *by_hand = statistics(x);
        matrix const& s = *by_hand;
        const ts::index_t pixels = x.local().extent(2) * x.local().extent(3);
        matrix sums(s.rows(), groups);
        for (ts::index_t r = 0; r < s.rows(); r += 2) {
          const ts::index_t first = r / 2 * pixels;
          row_type gradients = row_type::Zero(extents[1]);
          row_type products = row_type::Zero(extents[1]);
          for (ts::index_t p = first; p < first + pixels; ++p) {
            gradients += map(dy).row(p).array();
            products += map(dy).row(p).array() * (map(x).row(p).array() - s.row(r).array());
          }
          sums.row(r) = by_group(gradients);
          sums.row(r + 1) = by_group(products * s.row(r + 1).array());
        }
        if (cut) sum_over_ranks(sums.data(), sums.size());
        sums /= count;
        matrix_map dx = shaped_as(x, out[0]);
        for (ts::index_t r = 0; r < s.rows(); r += 2) {
          const auto inverse = s.row(r + 1).array();
          const row_type a = by_channel(sums.row(r));
          const row_type b = by_channel(sums.row(r + 1)) * inverse;
          for (ts::index_t p = r / 2 * pixels; p < (r / 2 + 1) * pixels; ++p)
            dx.row(p).array() = inverse * (map(dy).row(p).array() - a - (map(x).row(p).array() - s.row(r).array()) * b);
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>>("group_norm/batch", where);
    add_split<ts::shard<2, axis>>("group_norm/height", where);
  });
}
