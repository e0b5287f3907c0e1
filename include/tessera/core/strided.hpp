#pragma once

#include <tessera/core/block.hpp>

#include <algorithm>
#include <array>
#include <type_traits>

namespace tessera {

/// Elements inside a block: where the first lies, how many there are along each of six dimensions, and how many
/// elements neighbours along each lie apart. Unused dimensions come first and have the extent 1.
template <class T>
struct strided {
  T* data = nullptr;
  shape<6> extents{};
  std::array<index_t, 6> strides{};

  constexpr operator strided<T const>() const requires(!std::is_const_v<T>) { return {data, extents, strides}; }
};

/// The elements of `part` (in the block's own indices) as they lie in memory. Dimensions are listed as `Listed` stores
/// them, for a copy to a block of another order.
template <storage_order Listed, class T, int Rank, storage_order Order>
constexpr strided<T> strided_part_as(block<T, Rank, Order> b, box<Rank> const& part) {
  constexpr auto dims = stored_dims<Rank, Listed>();
  const auto steps = strides_of<Order>(b.extents);
  strided<T> s{b.data, {}, {}};
  for (int p = 0; p < 6; ++p) {
    s.extents[p] = 1;
    if (p < 6 - Rank) continue;
    const int d = dims[static_cast<std::size_t>(p - (6 - Rank))];
    s.extents[p] = part[d].size;
    s.strides[static_cast<std::size_t>(p)] = steps[static_cast<std::size_t>(d)];
    s.data += part[d].begin * steps[static_cast<std::size_t>(d)];
  }
  return s;
}
template <class T, int Rank, storage_order Order>
constexpr strided<T> strided_part(block<T, Rank, Order> b, box<Rank> const& part) {
  return strided_part_as<Order>(b, part);
}

/// A box of the same extents that begins at `at`.
template <int Rank>
constexpr box<Rank> moved_to(box<Rank> part, std::array<index_t, static_cast<std::size_t>(Rank)> const& at) {
  for (int d = 0; d < Rank; ++d) part[d].begin = at[static_cast<std::size_t>(d)];
  return part;
}

namespace detail {

/// Calls `each(source, target, count, read, write)` for runs of `count` elements, which lie `read` apart in `from` and
/// `write` apart in `to`. Dimensions along which both go on evenly are one.
template <class From, class To, class Each>
void walk_runs(strided<From> const& from, strided<To> const& to, Each each) {
  std::array<index_t, 6> sizes{};
  std::array<index_t, 6> read{};
  std::array<index_t, 6> write{};
  std::size_t count = 0;
  for (std::size_t p = 0; p < 6; ++p) {
    const index_t size = to.extents.extents[p];
    if (size == 0) return;
    if (size == 1) continue;
    if (count > 0 && read[count - 1] == size * from.strides[p] && write[count - 1] == size * to.strides[p]) {
      sizes[count - 1] *= size;
      read[count - 1] = from.strides[p];
      write[count - 1] = to.strides[p];
    } else {
      sizes[count] = size;
      read[count] = from.strides[p];
      write[count] = to.strides[p];
      ++count;
    }
  }
  // The innermost dimension is the run, the one around it a loop of its own.
  struct side {
    index_t size = 1;
    index_t read = 0;
    index_t write = 0;
  };
  side run{1, 1, 1};
  side rows{};
  if (count > 0) run = {sizes[count - 1], read[count - 1], write[count - 1]};
  if (count > 1) rows = {sizes[count - 2], read[count - 2], write[count - 2]};
  const std::size_t outer = count > 2 ? count - 2 : 0;
  std::array<index_t, 6> at{};
  From* source = from.data;
  To* target = to.data;
  for (;;) {
    for (index_t r = 0; r < rows.size; ++r)
      each(source + r * rows.read, target + r * rows.write, run.size, run.read, run.write);
    std::size_t p = outer;
    for (; p > 0; --p) {
      const std::size_t d = p - 1;
      source += read[d];
      target += write[d];
      if (++at[d] < sizes[d]) break;
      source -= read[d] * sizes[d];
      target -= write[d] * sizes[d];
      at[d] = 0;
    }
    if (p == 0) return;
  }
}

}  // namespace detail

/// Copies elements in host memory to as many others.
template <class T>
void copy_elements(std::type_identity_t<strided<T const>> const& from, strided<T> const& to) {
  detail::walk_runs(from, to, [](T const* source, T* target, index_t count, index_t read, index_t write) {
    if (read == 1 && write == 1)
      std::copy_n(source, count, target);
    else
      for (index_t i = 0; i < count; ++i) target[i * write] = source[i * read];
  });
}

/// Copies the part `part` (in the source's own indices) of `from` to the place `at` of `to`, both in host memory. The
/// storage orders may differ.
template <class T, int Rank, storage_order From, storage_order Order>
void copy_box(block<T const, Rank, From> from, box<Rank> const& part, block<T, Rank, Order> to,
              std::array<index_t, static_cast<std::size_t>(Rank)> const& at) {
  copy_elements<T>(strided_part_as<Order>(from, part), strided_part(to, moved_to(part, at)));
}

/// The same by the kernels of a backend, in its memory.
template <class Kernels, class T, int Rank, storage_order Order>
void copy_box(Kernels& kernels, block<T const, Rank, Order> from, box<Rank> const& part, block<T, Rank, Order> to,
              std::array<index_t, static_cast<std::size_t>(Rank)> const& at) {
  if (part.size() > 0) kernels.copy_strided(strided_part(from, part), strided_part(to, moved_to(part, at)));
}
/// The same, adding to what is there.
template <class Kernels, class T, int Rank, storage_order Order>
void add_box(Kernels& kernels, block<T const, Rank, Order> from, box<Rank> const& part, block<T, Rank, Order> to,
             std::array<index_t, static_cast<std::size_t>(Rank)> const& at) {
  if (part.size() > 0) kernels.add_strided(strided_part(from, part), strided_part(to, moved_to(part, at)));
}

}  // namespace tessera
