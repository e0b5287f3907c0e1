#pragma once

#include <tessera/layer/parameter.hpp>

#include <cstddef>
#include <vector>

/// How gradients are put together for their all-reduces. Gradients are counted in the order in which backward produces
/// them: 0 is the last parameter of the model.
namespace tessera::fuse {

/// Buckets of gradients up to the given numbers: `at<8, 16>` makes 0 to 7, 8 to 15, and the rest.
template <int... Cuts>
struct at {
  static constexpr bool cuts_before(int gradient, index_t, index_t) { return ((gradient == Cuts) || ...); }
};

/// Buckets of at most this many bytes, or of one gradient that is larger.
template <index_t Bytes>
struct bytes {
  static_assert(Bytes > 0, "tessera: fuse::bytes needs a positive size; use fuse::each for no fusion");
  static constexpr bool cuts_before(int, index_t held, index_t next) { return held + next > Bytes; }
};

/// One bucket for all.
struct all {
  static constexpr bool cuts_before(int, index_t, index_t) { return false; }
};

/// A bucket for each gradient.
struct each {
  static constexpr bool cuts_before(int, index_t, index_t) { return true; }
};

}  // namespace tessera::fuse

namespace tessera {

/// Gradients that are reduced together, over the same axes, from one contiguous buffer.
struct gradient_bucket {
  axis_set axes{};
  int last = 0;                ///< the parameter whose gradient exists last: the first one of the model in the bucket
  std::vector<int> members{};  ///< positions among the trainable parameters, in the order of the buffer
};

/// A static partition of the gradients of a model's trainable parameters. A bucket holds gradients that are partial
/// over the same axes; gradients that come out whole are in none. `Policy` is one of `tessera::fuse`.
///
/// Sizes are those of the rank at coordinates 0, which holds the largest blocks, so the partition is the same on all
/// ranks by construction.
template <device_mesh Mesh, class Policy>
constexpr std::vector<gradient_bucket> fuse_gradients(std::vector<parameter_info<Mesh::axes>> const& trainable,
                                                      index_t element_bytes) {
  std::vector<gradient_bucket> buckets;
  // The open bucket of each set of axes, and the bytes in it.
  std::vector<int> open(std::size_t{1} << Mesh::axes, -1);
  std::vector<index_t> held(open.size(), 0);
  const int n = static_cast<int>(trainable.size());
  for (int gradient = 0; gradient < n; ++gradient) {
    const int position = n - 1 - gradient;
    auto const& p = trainable[static_cast<std::size_t>(position)];
    if (Policy::cuts_before(gradient, 0, 0))
      for (int& bucket : open) bucket = -1;
    unsigned axes = 0;
    for (int a = 0; a < Mesh::axes; ++a)
      if (p.gradient[a].is_partial() && Mesh::sizes[static_cast<std::size_t>(a)] > 1) axes |= 1u << a;
    if (axes == 0) continue;
    const index_t size = p.template local_size<Mesh>({}) * element_bytes;
    if (open[axes] < 0 || Policy::cuts_before(gradient, held[axes], size)) {
      open[axes] = static_cast<int>(buckets.size());
      held[axes] = 0;
      buckets.push_back({static_cast<axis_set>(axes), 0, {}});
    }
    gradient_bucket& bucket = buckets[static_cast<std::size_t>(open[axes])];
    bucket.members.push_back(position);
    bucket.last = position;
    held[axes] += size;
  }
  return buckets;
}

}  // namespace tessera
