// Poolings of 8x64x112x112 images and their gradients, cut by batch (no messages) and by height: then windows that
// overlap reach into the rows of the other rank, one message each way. By hand the channels of a pixel, which lie side
// by side, are taken as one vector.

#include "support/operator.hpp"

#include <tessera/op/pool2d.hpp>
#include <tessera/redistribute/to.hpp>

#include <algorithm>
#include <limits>

namespace {

using namespace comparison;

constexpr ts::index_t side = 112;
constexpr ts::index_t channels = 64;
constexpr ts::shape<4> extents{{8, channels, side, side}};
constexpr ts::index_t line = side * channels;

using pixel = Eigen::Map<Eigen::Array<float, channels, 1>>;
using const_pixel = Eigen::Map<Eigen::Array<float, channels, 1> const>;

/// Windows of 3 x 3 every two pixels, padded by one: a rank below another reads the last row above its own.
constexpr ts::pool2d_geometry overlapping() {
  ts::pool2d_geometry g;
  g.kernel = {3, 3};
  g.stride = {2, 2};
  g.padding_before = {1, 1};
  g.padding_after = {1, 1};
  return g;
}
/// Windows of 2 x 2 side by side.
constexpr ts::pool2d_geometry apart() {
  ts::pool2d_geometry g;
  g.kernel = {2, 2};
  g.stride = {2, 2};
  return g;
}

/// This rank's images, and above them the row of pixels that the other rank has.
struct padded_images {
  float const* own;
  ts::index_t images, rows;
  bool has_above;
  array above;

  /// Row `h` of image `n`, -1 for the row above; null outside of the images.
  float const* row(ts::index_t n, ts::index_t h) const {
    if (h >= 0) return h < rows ? own + (n * rows + h) * line : nullptr;
    return has_above ? above.data() + n * line : nullptr;
  }
};

template <bool Cut, class X>
padded_images fetch_row_above(X const& x) {
  const auto e = x.local().extents();
  padded_images p{x.read().data, e[0], e[2], x.part()[2].begin > 0, {}};
  if (!Cut) return p;
  p.above.resize(e[0] * line);
  const auto count = static_cast<int>(p.above.size());
  if (p.has_above) {
    MPI_Recv(p.above.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    for (ts::index_t n = 0; n < e[0]; ++n) std::copy_n(p.row(n, e[2] - 1), line, p.above.data() + n * line);
    MPI_Send(p.above.data(), count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
  }
  return p;
}

/// Calls `f(place in the result, n, h, w)` for each window of this rank, with the pixel that it begins at.
template <class F>
void for_each_window(ts::index_t images, ts::index_t rows, ts::index_t padding, F f) {
  for (ts::index_t n = 0; n < images; ++n)
    for (ts::index_t h = 0; h < rows / 2; ++h)
      for (ts::index_t w = 0; w < side / 2; ++w)
        f(((n * rows / 2 + h) * (side / 2) + w) * channels, n, 2 * h - padding, 2 * w - padding);
}

template <class Layout, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  constexpr bool cut = Ranks > 1 && ts::placements_of<ts::mesh<ranks<Ranks>>, Layout>.shard_axes(2) != 0;
  const auto prepare = [&where] {
    auto x = numbers<Layout>(where, extents, 1);
    auto pooled = ts::op::max_pool2d(x, overlapping());
    return std::tuple(std::move(x), numbers<Layout>(where, ts::shape<4>{{extents[0], channels, side / 2, side / 2}}, 2),
                      std::move(pooled.argmax));
  };
  add_operator(
      name + "_max", prepare, [](auto const& x, auto const&...) { return ts::op::max_pool2d(x, overlapping()).y; },
      [=](arrays& out, auto const& x, auto const&...) {
        const padded_images images = fetch_row_above<cut>(x);
        for_each_window(images.images, images.rows, 1,
                        [&](ts::index_t to, ts::index_t n, ts::index_t h, ts::index_t w) {
                          pixel y(out[0].data() + to);
                          y.setConstant(-std::numeric_limits<float>::infinity());
                          for (ts::index_t i = h; i < h + 3; ++i)
                            if (float const* row = images.row(n, i))
                              for (ts::index_t j = std::max<ts::index_t>(w, 0); j < std::min(w + 3, side); ++j)
                                y = y.max(const_pixel(row + j * channels));
                        });
      });
  add_operator(
      name + "_max_backward", prepare,
      [](auto const&, auto const& dy, auto const& argmax) {
        return ts::op::max_pool2d_backward(dy, argmax, extents, overlapping());
      },
      [=](arrays& out, auto const& x, auto const& dy, auto const&) {
        // The place of each maximum is looked for again. What belongs to the row above is sent there.
        const padded_images images = fetch_row_above<cut>(x);
        array& dx = out[0];
        dx.setZero();
        array above = array::Zero(cut ? images.images * line : 0);
        for_each_window(
            images.images, images.rows, 1, [&](ts::index_t to, ts::index_t n, ts::index_t h, ts::index_t w) {
              float const* const upstream = dy.read().data + to;
              for (ts::index_t c = 0; c < channels; ++c) {
                float most = -std::numeric_limits<float>::infinity();
                float* place = nullptr;
                for (ts::index_t i = h; i < h + 3; ++i)
                  if (float const* row = images.row(n, i))
                    for (ts::index_t j = std::max<ts::index_t>(w, 0); j < std::min(w + 3, side); ++j)
                      if (const float v = row[j * channels + c]; v > most) {
                        most = v;
                        place = (i < 0 ? above.data() + n * line : dx.data() + (n * images.rows + i) * line) +
                                j * channels + c;
                      }
                *place += upstream[c];
              }
            });
        if (!cut) return;
        const auto count = static_cast<int>(above.size());
        if (images.has_above) {
          MPI_Send(above.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
        } else {
          MPI_Recv(above.data(), count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          for (ts::index_t n = 0; n < images.images; ++n)
            dx.segment(((n + 1) * images.rows - 1) * line, line) += above.segment(n * line, line);
        }
      });
  add_operator(
      name + "_avg", prepare, [](auto const& x, auto const&...) { return ts::op::avg_pool2d(x, apart()); },
      [=](arrays& out, auto const& x, auto const&...) {
        const auto e = x.local().extents();
        for_each_window(e[0], e[2], 0, [&](ts::index_t to, ts::index_t n, ts::index_t h, ts::index_t w) {
          float const* const from = x.read().data + (n * e[2] + h) * line + w * channels;
          pixel(out[0].data() + to) = 0.25f * (const_pixel(from) + const_pixel(from + channels) +
                                               const_pixel(from + line) + const_pixel(from + line + channels));
        });
      });
  add_operator(
      name + "_avg_backward", prepare,
      [](auto const&, auto const& dy, auto const&) { return ts::op::avg_pool2d_backward(dy, extents, apart()); },
      [=](arrays& out, auto const& x, auto const& dy, auto const&) {
        const auto e = x.local().extents();
        for_each_window(e[0], e[2], 0, [&](ts::index_t from, ts::index_t n, ts::index_t h, ts::index_t w) {
          float* const to = out[0].data() + (n * e[2] + h) * line + w * channels;
          for (const ts::index_t at : {ts::index_t{0}, channels, line, line + channels})
            pixel(to + at) = 0.25f * const_pixel(dy.read().data + from);
        });
      });
  // To 7 x 7 means of 16 x 16 pixels; a cut of height cuts the middle row of windows, so one all-reduce adds them up.
  add_operator(
      name + "_adaptive", prepare,
      [](auto const& x, auto const&...) {
        using whole = std::conditional_t<cut, ts::replicated, Layout>;
        return ts::op::adaptive_avg_pool(x, 7, 7) | ts::to<whole>;
      },
      [=](arrays& out, auto const& x, auto const&...) {
        const auto e = x.local().extents();
        array& y = out[0];
        y.setZero();
        for (ts::index_t n = 0; n < e[0]; ++n)
          for (ts::index_t h = 0; h < e[2]; ++h)
            for (ts::index_t w = 0; w < side; ++w)
              pixel(y.data() + ((n * 7 + (x.part()[2].begin + h) / 16) * 7 + w / 16) * channels) +=
                  const_pixel(x.read().data + (n * e[2] + h) * line + w * channels);
        y *= 1.0f / 256;
        if (cut) sum_over_ranks(y.data(), y.size());
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>>("pool2d/batch", where);
    add_split<ts::shard<2, axis>>("pool2d/height", where);
  });
}
