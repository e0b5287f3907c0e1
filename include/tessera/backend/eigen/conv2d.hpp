#pragma once

#include <tessera/backend/eigen/conv2d_tiles.hpp>
#include <tessera/backend/eigen/layout.hpp>
#include <tessera/backend/geometry.hpp>
#include <tessera/backend/settings.hpp>

namespace tessera::detail::eigen_kernels {

/// Images [H, W, C] laid into a frame: shifted down and right, cut or bordered with zeros to the extents wanted.
struct frame {
  pair2d shift{0, 0};    ///< rows and columns of zeros before the image; negative: rows and columns left out
  pair2d extents{0, 0};  ///< height and width
  index_t channels = 0;
  index_t pitch = 0;  ///< distance between neighbours in a row

  index_t size() const { return extents[0] * extents[1] * pitch; }
  /// Whether an image may be read where it is, because everything read lies inside.
  bool same_as(pair2d image) const { return shift == pair2d{0, 0} && extents == image && pitch == channels; }

  template <class T>
  void fill(T const* from, pair2d image, T* to) const {
    const index_t first = std::clamp<index_t>(shift[1], 0, extents[1]);
    const index_t last = std::clamp<index_t>(image[1] + shift[1], first, extents[1]);
    for (index_t h = 0; h < extents[0]; ++h, to += extents[1] * pitch) {
      const index_t row = h - shift[0];
      if (row < 0 || row >= image[0]) {
        std::fill_n(to, extents[1] * pitch, T{0});
        continue;
      }
      T const* pixel = from + (row * image[1] + first - shift[1]) * channels;
      std::fill_n(to, first * pitch, T{0});
      if (pitch == channels)
        std::copy_n(pixel, (last - first) * channels, to + first * pitch);
      else
        for (index_t w = first; w < last; ++w, pixel += channels) std::copy_n(pixel, channels, to + w * pitch);
      std::fill_n(to + last * pitch, (extents[1] - last) * pitch, T{0});
    }
  }
};

/// Pixels a multiple of 4 KiB apart would all fall into the same few lines of the first-level cache: these get a gap.
template <class T>
index_t pitch_for(index_t channels) {
  constexpr index_t page = 4096 / static_cast<index_t>(sizeof(T));
  return channels > 0 && channels % page == 0 ? channels + page / 64 : channels;
}

/// Output pixels that share their taps: all of a forward convolution, or those of one phase of a strided backward one.
struct pixel_set {
  std::vector<tap> taps;
  std::vector<spot> spots;  ///< of a group of images, image by image
  index_t per_image = 0;
};

/// How one convolution walks its images: the frame they are read from and the pixels that are made.
struct walk {
  frame source;
  std::vector<pixel_set> sets;
  index_t group = 1;  ///< images taken together
};

/// Images taken together, so that small images fill whole tiles: about 256 KiB of frames and 4096 pixels.
template <class T>
index_t images_together(frame const& f, shape<4> const& made) {
  const index_t bytes = std::max<index_t>(1, f.size() * static_cast<index_t>(sizeof(T)));
  const index_t pixels = std::max<index_t>(1, made[2] * made[3]);
  return std::clamp<index_t>(std::min((index_t{1} << 18) / bytes, (index_t{1} << 12) / pixels), 1,
                             std::max<index_t>(1, made[0]));
}

/// The spots of `group` images: rows h = begin[0] + step[0] * i of an image [extents] with `channels` channels,
/// which read the frame from row i * stride[0] on; columns alike.
inline std::vector<spot> spots_of(index_t group, frame const& f, pair2d stride, pair2d extents, index_t channels,
                                  pair2d begin, pair2d step) {
  std::vector<spot> spots;
  spots.reserve(static_cast<std::size_t>(group * extents[0] * extents[1]));
  for (index_t n = 0; n < group; ++n)
    for (index_t h = begin[0], i = 0; h < extents[0]; h += step[0], ++i)
      for (index_t w = begin[1], j = 0; w < extents[1]; w += step[1], ++j)
        spots.push_back({n * f.size() + (i * stride[0] * f.extents[1] + j * stride[1]) * f.pitch,
                         ((n * extents[0] + h) * extents[1] + w) * channels});
  return spots;
}

/// The walk of a forward convolution (and of its weight gradient): x is read, pixels of y are made.
template <class T>
walk forward_walk(shape<4> const& x, shape<4> const& y, conv2d_geometry const& g) {
  walk plan;
  plan.source.channels = x[1];
  plan.source.pitch = pitch_for<T>(x[1]);
  for (std::size_t d = 0; d < 2; ++d) {
    const index_t image = x[static_cast<int>(d) + 2];
    const index_t read = (y[static_cast<int>(d) + 2] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
    plan.source.shift[d] = g.padding_before[d];
    plan.source.extents[d] = g.padding_before[d] == 0 && read <= image ? image : read;
  }
  plan.group = images_together<T>(plan.source, y);
  pixel_set set;
  // Without gaps a row of the kernel is one run of pixels and one run of weights.
  const index_t run = g.dilation[1] == 1 && g.groups == 1 && plan.source.pitch == x[1] ? g.kernel[1] : 1;
  for (index_t kh = 0; kh < g.kernel[0]; ++kh)
    for (index_t kw = 0; kw < g.kernel[1]; kw += run)
      set.taps.push_back({(kh * g.dilation[0] * plan.source.extents[1] + kw * g.dilation[1]) * plan.source.pitch,
                          kh * g.kernel[1] + kw, run});
  set.spots = spots_of(plan.group, plan.source, g.stride, {y[2], y[3]}, y[1], {0, 0}, {1, 1});
  set.per_image = y[2] * y[3];
  plan.sets.push_back(std::move(set));
  return plan;
}

/// The walk of the input gradient: dy is read, pixels of dx are made, those with the same remainder by stride together.
///
/// Row h of dx gets row (h + padding - k * dilation) / stride of dy at tap k, where that is a whole number.
template <class T>
walk backward_walk(shape<4> const& dx, shape<4> const& dy, conv2d_geometry const& g) {
  struct hit {
    index_t k;
    index_t at;  ///< row of dy for the first row of the phase
  };
  std::array<std::vector<std::vector<hit>>, 2> hits;
  walk plan;
  plan.source.channels = dy[1];
  plan.source.pitch = pitch_for<T>(dy[1]);
  for (std::size_t d = 0; d < 2; ++d) {
    const index_t extent = dx[static_cast<int>(d) + 2];
    const index_t image = dy[static_cast<int>(d) + 2];
    index_t low = 0;
    index_t high = 0;
    for (index_t phase = 0; phase < std::min(g.stride[d], extent); ++phase) {
      auto& of_phase = hits[d].emplace_back();
      const index_t rows = (extent - phase + g.stride[d] - 1) / g.stride[d];
      for (index_t k = 0; k < g.kernel[d]; ++k) {
        const index_t distance = phase + g.padding_before[d] - k * g.dilation[d];
        if (distance % g.stride[d] != 0) continue;
        const index_t at = distance / g.stride[d];
        of_phase.push_back({k, at});
        low = std::min(low, at);
        high = std::max(high, at + rows);
      }
    }
    plan.source.shift[d] = -low;
    plan.source.extents[d] = low == 0 && high <= image ? image : high - low;
  }
  plan.group = images_together<T>(plan.source, dx);
  frame const& f = plan.source;
  for (index_t p = 0; p < static_cast<index_t>(hits[0].size()); ++p) {
    for (index_t q = 0; q < static_cast<index_t>(hits[1].size()); ++q) {
      pixel_set set;
      for (hit const& a : hits[0][static_cast<std::size_t>(p)])
        for (hit const& b : hits[1][static_cast<std::size_t>(q)])
          set.taps.push_back(
              {((a.at + f.shift[0]) * f.extents[1] + b.at + f.shift[1]) * f.pitch, a.k * g.kernel[1] + b.k, 1});
      set.spots = spots_of(plan.group, f, {1, 1}, {dx[2], dx[3]}, dx[1], {p, q}, g.stride);
      set.per_image = static_cast<index_t>(set.spots.size()) / plan.group;
      plan.sets.push_back(std::move(set));
    }
  }
  return plan;
}

/// Calls `with(frame data, first image, images)` for each group of the images `some`, bordered where the walk needs it.
template <class T, class Call>
void for_groups(walk const& plan, T const* images, interval some, pair2d extents, workspace& scratch, Call with) {
  const bool in_place = plan.source.same_as(extents);
  const index_t image = extents[0] * extents[1] * plan.source.channels;
  T* buffer = in_place ? nullptr : scratch.get<T>(0, plan.group * plan.source.size());
  for (index_t n = some.begin; n < some.end(); n += plan.group) {
    const index_t size = std::min(plan.group, some.end() - n);
    if (in_place) {
      with(images + n * image, n, size);
      continue;
    }
    for (index_t i = 0; i < size; ++i)
      plan.source.fill(images + (n + i) * image, extents, buffer + i * plan.source.size());
    with(static_cast<T const*>(buffer), n, size);
  }
}

/// How the threads share a convolution: by images where that is even, otherwise by the pixels of one group after the
/// other. `cost`: of an image.
struct conv2d_parts {
  int parts;
  bool by_images;

  conv2d_parts(workspace const& scratch, index_t images, index_t cost) : parts(scratch.parts(images * 64, cost / 64)) {
    by_images = parts == 1 || images % parts == 0 || images >= 4 * parts;
  }
};

inline bool depthwise(shape<4> const& w, conv2d_geometry const& g) { return w[1] == 1 && w[0] == g.groups; }

/// What an image costs in elements of plain arithmetic: 16 products are one.
inline index_t image_cost(shape<4> const& made, shape<4> const& w) {
  return made[1] * made[2] * made[3] * std::max<index_t>(1, w[1] * w[2] * w[3] / 16);
}

/// Applies a walk with weights [group][output channel][slot][input channel] of the convolution, `channels` * `slots` *
/// `depth` a group, that `strides` reads in the direction of the walk.
template <class T>
void apply_walk(walk const& plan, operand<T, 4> source, operand<T, 4> w, weight_strides strides, block<T, 4> target,
                conv2d_geometry const& g, workspace& scratch) {
  constexpr index_t width = lanes<T>::width;
  const index_t slots = g.kernel[0] * g.kernel[1];
  const index_t depth = source.extents[1] / g.groups;
  const index_t channels = target.extents[1] / g.groups;
  const bool each_channel = depthwise(w.extents, g);
  const index_t panels = lanes<T>::panels(channels);
  const index_t panel = slots * depth * width;
  const index_t packed = each_channel ? slots : panels * panel;
  T* weights = scratch.get<T>(1, g.groups * packed);
  if (each_channel)
    transpose_each(w.data, 1, g.groups, slots, weights);
  else
    scratch.split(g.groups * panels, panel, [&](index_t begin, index_t end, workspace&) {
      for (index_t p = begin; p < end; ++p) {
        const index_t first = p % panels * width;
        pack_weights(w.data + p / panels * channels * slots * depth + first * strides.out, strides, slots, depth,
                     std::min(width, channels - first), weights + p * panel);
      }
    });
  const index_t image = target.extents[1] * target.extents[2] * target.extents[3];
  const auto walk_images = [&](interval some, workspace& own, auto for_spots) {
    for_groups(plan, source.data, some, {source.extents[2], source.extents[3]}, own,
               [&](T const* data, index_t first, index_t size) {
                 T* to = target.data + first * image;
                 for (pixel_set const& set : plan.sets)
                   for_spots(size * set.per_image, [&](index_t from, index_t count) {
                     spot const* spots = set.spots.data() + from;
                     if (each_channel) {
                       gather_depthwise<T>({data, to, weights, slots, 1, g.groups}, set.taps, spots, count);
                       return;
                     }
                     for (index_t group = 0; group < g.groups; ++group)
                       gather<T>({data + group * depth, to + group * channels, weights + group * packed, slots, depth,
                                  channels},
                                 set.taps, spots, count);
                   });
               });
  };
  const conv2d_parts shared(scratch, target.extents[0], image_cost(target.extents, w.extents));
  if (shared.by_images) {
    scratch.run(shared.parts, [&](int part, workspace& own) {
      walk_images(cut({0, target.extents[0]}, shared.parts, part), own,
                  [](index_t count, auto with) { with(index_t{0}, count); });
    });
  } else {
    walk_images({0, target.extents[0]}, scratch, [&](index_t count, auto with) {
      run_parts(shared.parts, [&](int part) {
        const interval some = cut({0, count}, shared.parts, part);
        with(some.begin, some.size);
      });
    });
  }
}

template <class T>
void conv2d_forward(operand<T, 4> x, operand<T, 4> w, block<T, 4> y, conv2d_geometry const& g, workspace& scratch) {
  if (y.empty()) return;
  const index_t slots = g.kernel[0] * g.kernel[1];
  apply_walk<T>(forward_walk<T>(x.extents, y.extents, g), x, w, {w.extents[1], 1, slots * w.extents[1]}, y, g, scratch);
}

template <class T>
void conv2d_backward_input(operand<T, 4> w, operand<T, 4> dy, block<T, 4> dx, conv2d_geometry const& g,
                           workspace& scratch) {
  if (dx.empty()) return;
  const index_t slots = g.kernel[0] * g.kernel[1];
  apply_walk<T>(backward_walk<T>(dx.extents, dy.extents, g), dy, w, {w.extents[1], slots * w.extents[1], 1}, dx, g,
                scratch);
}

/// Each thread sums over its images or pixels; the threads' sums are added in the order of these, so the last bits
/// depend on the number of threads and on nothing else.
template <class T>
void conv2d_backward_weight(operand<T, 4> x, operand<T, 4> dy, block<T, 4> dw, conv2d_geometry const& g,
                            workspace& scratch) {
  if (dy.empty() || x.empty()) {
    std::fill(dw.begin(), dw.end(), T{0});
    return;
  }
  const index_t slots = g.kernel[0] * g.kernel[1];
  const index_t depth = dw.extents[1];
  const index_t channels = dw.extents[0] / g.groups;
  const bool each_channel = depthwise(dw.extents, g);
  const walk plan = forward_walk<T>(x.extents, dy.extents, g);
  pixel_set const& set = plan.sets.front();
  const reduce_job<T> job(set.taps, depth, channels);
  const index_t size = each_channel ? slots * g.groups : g.groups * job.size();
  const conv2d_parts shared(scratch, dy.extents[0], image_cost(dy.extents, dw.extents));
  T* sums = scratch.get<T>(2, shared.parts * size);
  T* packed = scratch.get<T>(1, shared.parts * job.scratch_size());
  const index_t image = dy.extents[1] * dy.extents[2] * dy.extents[3];
  const auto add = [&](int part, T const* data, T const* gradient, spot const* spots, index_t count) {
    T* to = sums + part * size;
    if (each_channel)
      reduce_depthwise(data, set.taps, spots, count, gradient, g.groups, to);
    else
      for (index_t group = 0; group < g.groups; ++group)
        job.run(data + group * depth, gradient + group * channels, spots, count, packed + part * job.scratch_size(),
                to + group * job.size());
  };
  const pair2d extents{x.extents[2], x.extents[3]};
  std::fill_n(sums, shared.parts * size, T{0});
  if (shared.by_images) {
    scratch.run(shared.parts, [&](int part, workspace& own) {
      for_groups(plan, x.data, cut({0, x.extents[0]}, shared.parts, part), extents, own,
                 [&](T const* data, index_t first, index_t images) {
                   add(part, data, dy.data + first * image, set.spots.data(), images * set.per_image);
                 });
    });
  } else {
    for_groups(plan, x.data, {0, x.extents[0]}, extents, scratch, [&](T const* data, index_t first, index_t images) {
      run_parts(shared.parts, [&](int part) {
        const interval some = cut({0, images * set.per_image}, shared.parts, part);
        add(part, data, dy.data + first * image, set.spots.data() + some.begin, some.size);
      });
    });
  }
  scratch.split(shared.parts == 1 ? 0 : size, shared.parts, [&](index_t begin, index_t end, workspace&) {
    for (int part = 1; part < shared.parts; ++part)
      array(sums + begin, end - begin) += array(sums + part * size + begin, end - begin);
  });
  if (each_channel)
    transpose_each(sums, 1, slots, g.groups, dw.data);
  else
    for (index_t group = 0; group < g.groups; ++group)
      job.store(sums + group * job.size(), dw.data + group * channels * job.used);
}

}  // namespace tessera::detail::eigen_kernels
