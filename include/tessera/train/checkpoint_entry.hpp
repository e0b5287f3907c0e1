#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/partition.hpp>
#include <tessera/data/safetensors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// The elements of a tensor that lie in one place, in a file or in a rank's memory.
struct tensor_part {
  /// A part of the whole, one interval a dimension.
  std::vector<interval> box{};
  /// The dimensions as they lie in storage, outermost first; empty: row-major.
  std::vector<int> order{};
  /// Of the box's elements in storage order, those that are there: none named means all. (Optimizer levels cut buckets
  /// without regard to rows.)
  std::optional<interval> range{};

  /// Elements that are there.
  index_t size() const { return range ? range->size : box_size(); }
  index_t box_size() const {
    index_t n = 1;
    for (interval const& side : box) n *= side.size;
    return n;
  }
  /// Storage position of a dimension counted from outside.
  int stored(std::size_t position) const { return order.empty() ? static_cast<int>(position) : order[position]; }
  friend bool operator==(tensor_part const&, tensor_part const&) = default;
};

/// A tensor of a model or optimizer in a checkpoint, and what of it lies on this rank.
struct checkpoint_entry {
  std::string name;
  safetensors_type type = safetensors_type::f32;
  std::vector<index_t> extents{};  ///< of the whole
  tensor_part part{};              ///< this rank's: those of two ranks are equal or apart
  void* data = nullptr;            ///< of this rank's part
};

namespace detail {

/// Distance in elements between neighbours along each dimension of a part's box.
inline std::vector<index_t> strides_of(tensor_part const& part) {
  std::vector<index_t> strides(part.box.size());
  index_t step = 1;
  for (std::size_t p = part.box.size(); p-- > 0;) {
    const auto d = static_cast<std::size_t>(part.stored(p));
    strides[d] = step;
    step *= part.box[d].size;
  }
  return strides;
}

/// Calls `f(place in from, place in to, distance in to, count)` for runs of elements that both parts hold and that
/// are neighbours in `from`. Places count the elements that are there.
template <class F>
void for_each_shared_run(tensor_part const& from, tensor_part const& to, F&& f) {
  struct loop {
    index_t size;
    index_t read;
    index_t write;
    index_t done = 0;
  };
  const auto source = strides_of(from);
  const auto target = strides_of(to);
  std::vector<loop> loops;
  index_t read = 0;
  index_t write = 0;
  for (std::size_t p = 0; p < from.box.size(); ++p) {
    const auto d = static_cast<std::size_t>(from.stored(p));
    const interval shared = intersect(from.box[d], to.box[d]);
    if (shared.size == 0) return;
    read += (shared.begin - from.box[d].begin) * source[d];
    write += (shared.begin - to.box[d].begin) * target[d];
    if (shared.size == 1) continue;
    // A loop that goes on where the inner one ends is one loop with it.
    if (!loops.empty() && loops.back().read == shared.size * source[d] && loops.back().write == shared.size * target[d])
      loops.back() = {loops.back().size * shared.size, source[d], target[d]};
    else
      loops.push_back({shared.size, source[d], target[d]});
  }
  if (loops.empty() || loops.back().read != 1) loops.push_back({1, 1, 1});
  const loop run = loops.back();
  loops.pop_back();
  const interval readable = from.range.value_or(interval{0, from.box_size()});
  const interval writable = to.range.value_or(interval{0, to.box_size()});
  const auto steps_to = [&](index_t place) { return (place - write + run.write - 1) / run.write; };
  for (;;) {
    const index_t first =
        std::max({index_t{0}, readable.begin - read, write < writable.begin ? steps_to(writable.begin) : index_t{0}});
    const index_t last =
        std::min({run.size, readable.end() - read, write < writable.end() ? steps_to(writable.end()) : index_t{0}});
    if (first < last)
      f(read + first - readable.begin, write + first * run.write - writable.begin, run.write, last - first);
    std::size_t l = loops.size();
    for (;; --l) {
      if (l == 0) return;
      loop& outer = loops[l - 1];
      read += outer.read;
      write += outer.write;
      if (++outer.done < outer.size) break;
      read -= outer.read * outer.size;
      write -= outer.write * outer.size;
      outer.done = 0;
    }
  }
}

/// Spreads `count` elements of `bytes` bytes from neighbours to places `distance` elements apart.
inline void spread(std::byte const* from, std::byte* to, index_t distance, index_t count, std::size_t bytes) {
  const auto n = static_cast<std::size_t>(count);
  if (distance == 1) {
    std::memcpy(to, from, n * bytes);
    return;
  }
  const std::size_t step = static_cast<std::size_t>(distance) * bytes;
  const auto each = [&](auto width) {
    for (std::size_t i = 0; i < n; ++i) std::memcpy(to + i * step, from + i * width, width);
  };
  switch (bytes) {  // constant widths, so that memcpy is one move
    case 8: each(std::integral_constant<std::size_t, 8>{}); break;
    case 4: each(std::integral_constant<std::size_t, 4>{}); break;
    case 2: each(std::integral_constant<std::size_t, 2>{}); break;
    default: each(bytes); break;
  }
}

/// Copies the elements that both parts hold; returns how many.
inline index_t copy_shared(tensor_part const& from, void const* source, tensor_part const& to, void* target,
                           std::size_t bytes) {
  index_t copied = 0;
  for_each_shared_run(from, to, [&](index_t read, index_t write, index_t distance, index_t count) {
    spread(static_cast<std::byte const*>(source) + static_cast<std::size_t>(read) * bytes,
           static_cast<std::byte*>(target) + static_cast<std::size_t>(write) * bytes, distance, count, bytes);
    copied += count;
  });
  return copied;
}

/// The same part as it lies in a file: row-major where it is a box, else as in memory.
inline tensor_part in_file(tensor_part part) {
  if (part.range && *part.range == interval{0, part.box_size()}) part.range.reset();
  if (!part.range) part.order.clear();
  return part;
}

/// The extents that a part has as a tensor of a file.
inline std::vector<index_t> file_extents(tensor_part const& part) {
  if (part.range) return {part.range->size};
  std::vector<index_t> extents;
  for (interval const& side : part.box) extents.push_back(side.size);
  return extents;
}

/// The part that is all of a tensor, row-major.
inline tensor_part whole_part(std::vector<index_t> const& extents) {
  tensor_part part;
  for (const index_t e : extents) part.box.push_back({0, e});
  return part;
}

}  // namespace detail

}  // namespace tessera
