#pragma once

#include <tessera/core/tensor.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace tessera::detail {

/// `rows` rows dealt in `count` blocks of as many.
struct row_blocks {
  index_t rows;
  index_t count;

  index_t each() const { return rows / count; }

  /// Block `i` of what has a row for each; what has none is left out.
  template <class T, int Rank, storage_order Order>
  block<T, Rank, Order> rows_of(block<T, Rank, Order> whole, index_t i) const {
    if (whole.data == nullptr || whole.size() == 0) return whole;
    const index_t size = whole.size() / count;
    whole.data += i * size;
    whole.extents[0] /= count;
    return whole;
  }
  /// A copy of block `i` of the columns of a matrix that has one for each row.
  template <class Memory, class T>
  auto columns_of(block<T const, 2> whole, index_t i) const {
    tensor<T, 2, Memory> part(shape<2>{{whole.extents[0], each()}});
    for (index_t r = 0; r < whole.extents[0]; ++r)
      std::copy_n(whole.data + r * rows + i * each(), each(), part.data() + r * each());
    return part;
  }
};

/// A block of a whole at an address that is a multiple of 64: where it is not so by itself, a copy that is written back
/// at the end.
template <class Whole, class Memory>
class aligned_part {
  using T = std::remove_pointer_t<decltype(Whole::data)>;
  using value_type = std::remove_const_t<T>;
  static constexpr std::uintptr_t alignment = 64;

 public:
  aligned_part(row_blocks of, Whole whole, index_t i) : part_(of.rows_of(whole, i)), view_(part_) {
    if (reinterpret_cast<std::uintptr_t>(part_.data) % alignment == 0) return;
    copy_ = tensor<value_type, 1, Memory>(shape<1>{{part_.size()}});
    std::copy_n(part_.data, part_.size(), copy_.data());
    view_.data = copy_.data();
  }
  aligned_part(aligned_part const&) = delete;
  aligned_part& operator=(aligned_part const&) = delete;
  ~aligned_part() {
    if constexpr (!std::is_const_v<T>)
      if (view_.data != part_.data) std::copy_n(view_.data, view_.size(), part_.data);
  }

  Whole view() const { return view_; }

 private:
  Whole part_;
  Whole view_;
  tensor<value_type, 1, Memory> copy_{};
};

/// out = the sums that `leaf(number, out)` makes of `count` blocks, a power of two, put together by `add(into, from)`
/// in a binary tree of neighbours. Sums of blocks lie at multiples of 64 too.
template <class T, class Memory, class Leaf, class Add>
void sum_tree(block<T, 1> out, index_t count, Leaf const& leaf, Add const& add) {
  const auto subtree = [&](auto const& self, index_t first, index_t blocks) -> tensor<T, 1, Memory> {
    if (blocks == 1) {
      tensor<T, 1, Memory> one(out.extents);
      leaf(first, one.view());
      return one;
    }
    auto total = self(self, first, blocks / 2);
    add(total.view(), self(self, first + blocks / 2, blocks / 2).read());
    return total;
  };
  const auto total = subtree(subtree, 0, count);
  std::copy_n(total.data(), out.size(), out.data);
}

/// Runs kernels block by block on what has a row, or some, for each row of the batch.
template <class Memory>
class by_blocks {
 public:
  index_t blocks = 1;  ///< on this rank

  template <class T, int Rank, storage_order Order>
  static block<T, 1> flat(block<T, Rank, Order> whole) {
    return {whole.data, {{whole.size()}}};
  }
  /// Blocks of these rows. What does not divide is no batch, or none for training: one block.
  row_blocks blocks_of(index_t rows) const { return {rows, rows % blocks == 0 ? blocks : 1}; }

  /// Calls `f(blocks, number, block of each whole...)` for the blocks of rows, in order.
  template <class F, class First, class... Whole>
  void each_numbered(F f, First first, Whole... whole) {
    const auto of = blocks_of(first.extents[0]);
    for (index_t i = 0; i < of.count; ++i)
      f(of, i, aligned_part<First, Memory>(of, first, i).view(), aligned_part<Whole, Memory>(of, whole, i).view()...);
  }
  template <class F, class... Whole>
  void each(F f, Whole... whole) {
    each_numbered([&](row_blocks, index_t, auto... part) { f(part...); }, whole...);
  }

  /// out = what `f(out of a block, block of each whole...)` writes, put together by `add(into, from)` in a tree.
  template <class Out, class Add, class F, class First, class... Whole>
  void tree(block<Out, 1> out, Add add, F f, First first, Whole... whole) {
    const auto of = blocks_of(first.extents[0]);
    sum_tree<Out, Memory>(
        out, of.count,
        [&](index_t i, block<Out, 1> to) {
          f(to, aligned_part<First, Memory>(of, first, i).view(), aligned_part<Whole, Memory>(of, whole, i).view()...);
        },
        add);
  }
  template <class T, class F, class... Whole>
  void sum(block<T, 1> out, F f, Whole... whole) {
    tree(
        out,
        [](block<T, 1> into, block<T const, 1> from) {
          for (index_t i = 0; i < into.size(); ++i) into.data[i] += from.data[i];
        },
        f, whole...);
  }
  /// Sums of two outputs at once, either of which may be empty.
  template <class T, class F, class... Whole>
  void both_sums(block<T, 1> one, block<T, 1> other, F f, Whole... whole) {
    tensor<T, 1, Memory> both(shape<1>{{one.size() + other.size()}});
    sum(
        both.view(),
        [&](block<T, 1> to, auto... part) {
          f(block<T, 1>{one.data == nullptr ? nullptr : to.data, one.extents},
            block<T, 1>{other.data == nullptr ? nullptr : to.data + one.size(), other.extents}, part...);
        },
        whole...);
    std::copy_n(both.data(), one.size(), one.data);
    std::copy_n(both.data() + one.size(), other.size(), other.data);
  }
};

/// to [columns, rows] = the transpose of from [rows, columns].
template <class T>
void transpose(T const* from, index_t rows, index_t columns, T* to) {
  for (index_t r = 0; r < rows; ++r)
    for (index_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
}

}  // namespace tessera::detail
