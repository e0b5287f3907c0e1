#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/progress.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::detail::eigen_kernels {

// A convolution on channels-last data is a sum of small matrix products: for each tap of the kernel, the channels of
// the pixel that lies at the tap's offset times the tap's weights. The offsets are the same for all pixels once the
// image has its zero border, so no column matrix is needed: a tile of output pixels stays in registers while taps and
// channels are walked. (Dukhan, "The Indirect Convolution Algorithm", 2019, with offsets in place of pointers.)

/// Where an output pixel begins to read in the bordered image, and where it lies itself.
struct spot {
  index_t from;
  index_t to;
};

/// Positions of the kernel that lie together in memory: the offset of the first from a spot, the number of its weights,
/// and how many positions these are.
struct tap {
  index_t offset;
  index_t slot;
  index_t count;
};

template <class T>
struct lanes {
  using packet = typename Eigen::internal::packet_traits<T>::type;
  static constexpr index_t width = Eigen::internal::unpacket_traits<packet>::size;
  static constexpr std::size_t pixels = EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS >= 32 ? 14 : 8;  ///< of a forward tile
  static constexpr std::size_t terms = EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS >= 32 ? 16 : 8;   ///< of a weight tile

  /// Packets for `channels` channels.
  static constexpr index_t panels(index_t channels) { return (channels + width - 1) / width; }
};

/// Where a weight lies: at slot * number + in * input channel + out * output channel. One of `in` and `out` is 1.
struct weight_strides {
  index_t slot;
  index_t in;
  index_t out;
};

/// Weights as the tiles read them: [panel of output channels][slot][input channel][lane], zeros behind the last one.
template <class T>
void pack_weights(T const* from, weight_strides strides, index_t slots, index_t depth, index_t channels, T* to) {
  constexpr index_t width = lanes<T>::width;
  constexpr index_t side = 16;  // input channels turned at a time
  if (depth == 0) return;  // and `from` may be null
  for (index_t first = 0; first < channels; first += width, from += width * strides.out) {
    const index_t used = std::min(width, channels - first);
    for (index_t s = 0; s < slots; ++s, to += depth * width) {
      T const* weights = from + s * strides.slot;
      if (used < width) std::fill_n(to, depth * width, T{0});
      if (strides.out == 1) {
        for (index_t i = 0; i < depth; ++i) std::copy_n(weights + i * strides.in, used, to + i * width);
        continue;
      }
      for (index_t i0 = 0; i0 < depth; i0 += side)
        for (index_t l = 0; l < used; ++l)
          for (index_t i = i0; i < std::min(depth, i0 + side); ++i) to[i * width + l] = weights[l * strides.out + i];
    }
  }
}

/// One product of gathered pixels with packed weights.
template <class T>
struct gather_job {
  T const* source;
  T* target;
  T const* weights;  ///< see `pack_weights`
  index_t slots;     ///< taps that `weights` holds
  index_t depth;     ///< channels summed over
  index_t channels;  ///< channels made
};

template <class T, std::size_t... R>
[[gnu::always_inline]] inline void gather_tile(gather_job<T> const& job, std::vector<tap> const& taps, index_t panel,
                                               spot const* spots, std::size_t count, std::index_sequence<R...>) {
  using namespace Eigen::internal;
  using packet = typename lanes<T>::packet;
  constexpr index_t width = lanes<T>::width;
  // A tile that is not full computes its last pixel several times.
  T const* const pixel[] = {job.source + spots[std::min(R, count - 1)].from...};
  packet sum[] = {(static_cast<void>(R), pset1<packet>(T{0}))...};
  for (tap const& t : taps) {
    T const* w = job.weights + (panel * job.slots + t.slot) * job.depth * width;
    index_t i = t.offset;
    const index_t end = t.offset + t.count * job.depth;
    for (; i + 4 <= end; i += 4, w += 4 * width) {
      const packet w0 = pload<packet>(w);
      const packet w1 = pload<packet>(w + width);
      const packet w2 = pload<packet>(w + 2 * width);
      const packet w3 = pload<packet>(w + 3 * width);
      const auto add = [&](packet s, T const* x) {
        s = pmadd(pset1<packet>(x[0]), w0, s);
        s = pmadd(pset1<packet>(x[1]), w1, s);
        s = pmadd(pset1<packet>(x[2]), w2, s);
        return pmadd(pset1<packet>(x[3]), w3, s);
      };
      ((sum[R] = add(sum[R], pixel[R] + i)), ...);
    }
    for (; i < end; ++i, w += width) {
      const packet w0 = pload<packet>(w);
      ((sum[R] = pmadd(pset1<packet>(pixel[R][i]), w0, sum[R])), ...);
    }
  }
  const index_t first = panel * width;
  if (first + width <= job.channels) {
    ((R < count ? pstoreu(job.target + spots[R].to + first, sum[R]) : void()), ...);
  } else {
    alignas(64) T out[sizeof...(R) * static_cast<std::size_t>(width)];
    (pstore(out + R * static_cast<std::size_t>(width), sum[R]), ...);
    for (std::size_t r = 0; r < count; ++r)
      std::copy_n(out + r * static_cast<std::size_t>(width), job.channels - first, job.target + spots[r].to + first);
  }
}

/// Every spot's channels: the sum over taps of gathered pixels times weights. Without taps they become zero.
template <class T>
void gather(gather_job<T> const& job, std::vector<tap> const& taps, spot const* spots, index_t count) {
  constexpr auto tile = static_cast<index_t>(lanes<T>::pixels);
  // As many pixels as stay in the second-level cache while the panels of weights pass by.
  const index_t fitting = (index_t{1} << 17) / static_cast<index_t>(sizeof(T)) / std::max<index_t>(1, job.depth);
  const index_t chunk = std::max<index_t>(4, fitting / tile) * tile;
  for (index_t begin = 0; begin < count; begin += chunk) {
    const index_t end = std::min(count, begin + chunk);
    for (index_t panel = 0; panel < lanes<T>::panels(job.channels); ++panel) {
      for (index_t s = begin; s < end; s += tile)
        gather_tile(job, taps, panel, spots + s, static_cast<std::size_t>(std::min(tile, end - s)),
                    std::make_index_sequence<lanes<T>::pixels>{});
      make_progress();
    }
  }
}

/// sums[term][lane] += sum over `count` spots of source[from + term] * gradient[to + lane].
template <class T, std::size_t... R>
[[gnu::always_inline]] inline void reduce_tile(T const* source, T const* gradient, spot const* spots, index_t count,
                                               T* sums, std::index_sequence<R...>) {
  using namespace Eigen::internal;
  using packet = typename lanes<T>::packet;
  packet sum[] = {(static_cast<void>(R), pset1<packet>(T{0}))...};
  for (index_t s = 0; s < count; ++s) {
    T const* x = source + spots[s].from;
    const packet g = ploadu<packet>(gradient + spots[s].to);
    ((sum[R] = pmadd(pset1<packet>(x[R]), g, sum[R])), ...);
  }
  const auto add_to = [](T* total, packet s) { pstore(total, padd(s, pload<packet>(total))); };
  (add_to(sums + static_cast<index_t>(R) * lanes<T>::width, sum[R]), ...);
}

/// A weight gradient as the tiles make it: [panel of output channels][term][lane], terms tap by tap, channel by
/// channel.
template <class T>
struct reduce_job {
  static constexpr index_t width = lanes<T>::width;
  static constexpr auto tile = static_cast<index_t>(lanes<T>::terms);
  static constexpr index_t chunk = 256;  ///< pixels taken together: a tile of their inputs stays in the nearest cache

  index_t channels;              ///< output channels
  index_t used;                  ///< terms
  std::vector<index_t> offsets;  ///< of each term from a spot, filled up to whole tiles
  std::vector<spot> in_packed;   ///< where the pixels of a chunk lie in packed inputs and gradients
  bool contiguous;               ///< inputs and gradients are read where they are; with more panels copies pay

  /// Terms beyond the last repeat it; their sums are not looked at.
  reduce_job(std::vector<tap> const& taps, index_t depth, index_t out_channels)
      : channels(out_channels), contiguous(channels == width) {
    for (tap const& t : taps) {
      for (index_t i = 0; i < t.count * depth; ++i) offsets.push_back(t.offset + i);
      if (t.count * depth % tile != 0) contiguous = false;
    }
    used = static_cast<index_t>(offsets.size());
    offsets.resize(static_cast<std::size_t>((used + tile - 1) / tile * tile), offsets.back());
    for (index_t s = 0; s < chunk; ++s) in_packed.push_back({s * tile, s * width});
  }
  index_t panels() const { return lanes<T>::panels(channels); }
  index_t terms() const { return static_cast<index_t>(offsets.size()); }
  index_t size() const { return panels() * terms() * width; }
  index_t scratch_size() const { return chunk * (panels() * width + tile); }

  void run(T const* source, T const* gradient, spot const* spots, index_t count, T* packed, T* sums) const {
    T* inputs = packed + panels() * chunk * width;
    for (; count > 0; spots += chunk, count -= chunk) {
      const index_t pixels = std::min(chunk, count);
      pack_gradients(gradient, spots, pixels, packed);
      for (index_t t = 0; t < terms(); t += tile) {
        index_t const* at = offsets.data() + t;
        if (!contiguous) pack_inputs(source, at, spots, pixels, inputs);
        for (index_t p = 0; p < panels(); ++p) {
          T* to = sums + (p * terms() + t) * width;
          constexpr auto all = std::make_index_sequence<lanes<T>::terms>{};
          if (contiguous)
            reduce_tile(source + *at, gradient, spots, pixels, to, all);
          else
            reduce_tile<T>(inputs, packed + p * chunk * width, in_packed.data(), pixels, to, all);
        }
        make_progress();
      }
    }
  }

  /// Writes the sums as [output channel][term].
  void store(T const* sums, T* out) const {
    for (index_t first = 0; first < channels; first += width, sums += terms() * width) {
      const index_t lanes_used = std::min(width, channels - first);
      for (index_t t = 0; t < used; t += tile)
        for (index_t l = 0; l < lanes_used; ++l)
          for (index_t i = t; i < std::min(used, t + tile); ++i) out[(first + l) * used + i] = sums[i * width + l];
    }
  }

 private:
  void pack_gradients(T const* gradient, spot const* spots, index_t pixels, T* to) const {
    for (index_t first = 0; first < channels; first += width, to += chunk * width) {
      const index_t lanes_used = std::min(width, channels - first);
      for (index_t s = 0; s < pixels; ++s) {
        T const* from = gradient + spots[s].to + first;
        if (lanes_used == width)
          std::copy_n(from, width, to + s * width);
        else
          for (index_t l = 0; l < width; ++l) to[s * width + l] = l < lanes_used ? from[l] : T{0};
      }
    }
  }
  static void pack_inputs(T const* source, index_t const* at, spot const* spots, index_t pixels, T* to) {
    bool together = true;
    for (index_t r = 1; r < tile; ++r) together = together && at[r] == at[0] + r;
    for (index_t s = 0; s < pixels; ++s, to += tile) {
      T const* from = source + spots[s].from;
      if (together)
        std::copy_n(from + at[0], tile, to);
      else
        for (index_t r = 0; r < tile; ++r) to[r] = from[at[r]];
    }
  }
};

// Depthwise: every channel has its own weight at each tap, stored [tap][channel].

template <class T>
void gather_depthwise(gather_job<T> const& job, std::vector<tap> const& taps, spot const* spots, index_t count) {
  for (index_t s = 0; s < count; ++s) {
    auto sum = array(job.target + spots[s].to, job.channels);
    T const* from = job.source + spots[s].from;
    sum.setZero();
    for (tap const& t : taps)
      for (index_t k = 0; k < t.count * job.channels; k += job.channels)
        sum += array(from + t.offset + k, job.channels) * array(job.weights + t.slot * job.channels + k, job.channels);
    make_progress();
  }
}

template <class T>
void reduce_depthwise(T const* source, std::vector<tap> const& taps, spot const* spots, index_t count,
                      T const* gradient, index_t channels, T* sums) {
  for (index_t s = 0; s < count; ++s) {
    for (tap const& t : taps)
      for (index_t k = 0; k < t.count * channels; k += channels)
        array(sums + t.slot * channels + k, channels) +=
            array(source + spots[s].from + t.offset + k, channels) * array(gradient + spots[s].to, channels);
    make_progress();
  }
}

}  // namespace tessera::detail::eigen_kernels
