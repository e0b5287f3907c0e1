#pragma once

#include <tessera/backend/attention.hpp>
#include <tessera/backend/kernel_members.hpp>
#include <tessera/backend/settings.hpp>
#include <tessera/core/strided.hpp>
#include <tessera/core/tensor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tessera::detail {

/// The memory that the arguments of a kernel cover, and a copy of it on the other side of `Backend::upload` and
/// `download`. Ranges that overlap have one copy, so that operands in place stay so.
template <class Backend, std::size_t Most>
class covered_memory {
 public:
  /// Adds `count` elements; they will be written where T is not const.
  template <class T>
  void cover(T* data, index_t count) {
    if (count == 0) return;
    range more{address(data), address(data + count), !std::is_const_v<T>, &move<std::remove_const_t<T>>, {}};
    for (std::size_t i = 0; i < count_;) {
      range& r = ranges_[i];
      if (more.end <= r.begin || r.end <= more.begin) {
        ++i;
        continue;
      }
      more = {std::min(r.begin, more.begin), std::max(r.end, more.end), r.written || more.written, r.move, {}};
      r = std::move(ranges_[--count_]);
    }
    ranges_[count_++] = std::move(more);
  }
  /// Where a covered element has its copy.
  template <class T>
  T* at(T* data) const {
    for (std::size_t i = 0; i < count_; ++i) {
      range const& r = ranges_[i];
      if (r.begin <= address(data) && address(data) < r.end)
        return reinterpret_cast<T*>(address(r.copy.get()) + (address(data) - r.begin));
    }
    return nullptr;
  }

 protected:
  struct range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool written = false;
    /// Moves `bytes` bytes from the host's memory to the backend's, or back.
    void (*move)(Backend&, void* host, void* there, std::size_t bytes, bool up) = nullptr;
    memory_handle copy{};

    std::size_t bytes() const { return end - begin; }
    void* data() const { return reinterpret_cast<void*>(begin); }
  };
  template <class With>
  void each(With with) {
    for (std::size_t i = 0; i < count_; ++i) with(ranges_[i]);
  }

 private:
  static std::uintptr_t address(void const* data) { return reinterpret_cast<std::uintptr_t>(data); }
  template <class T>
  static void move(Backend& backend, void* host, void* there, std::size_t bytes, bool up) {
    const auto count = static_cast<index_t>(bytes / sizeof(T));
    if (up)
      backend.upload(static_cast<T const*>(host), static_cast<T*>(there), count);
    else
      backend.download(static_cast<T const*>(there), static_cast<T*>(host), count);
  }

  std::array<range, Most> ranges_{};
  std::size_t count_ = 0;
};

/// Copies in host memory of what arguments cover in that of `Backend`. Nothing is copied where the host reads that.
template <class Backend, std::size_t Most>
class host_copies : covered_memory<Backend, Most> {
  static constexpr bool needed = !Backend::memory::on_host;
  using base = covered_memory<Backend, Most>;

 public:
  explicit host_copies(Backend& backend) : backend_(backend) {}

  template <class T>
  void cover(T* data, index_t count) {
    if constexpr (needed) base::cover(data, count);
  }
  void download() {
    this->each([&](auto& r) {
      r.copy = host_memory::allocate(r.bytes());
      r.move(backend_, r.copy.get(), r.data(), r.bytes(), false);
      bytes_ += r.bytes();
    });
  }
  void upload() {
    this->each([&](auto& r) {
      if (!r.written) return;
      r.move(backend_, r.copy.get(), r.data(), r.bytes(), true);
      bytes_ += r.bytes();
    });
  }
  template <class T>
  T* at(T* data) const {
    if constexpr (needed)
      return base::at(data);
    else
      return data;
  }
  /// Counts what is copied within host memory.
  void add_bytes(index_t bytes) { bytes_ += static_cast<std::size_t>(bytes); }
  index_t bytes() const { return static_cast<index_t>(bytes_); }

 private:
  Backend& backend_;
  std::size_t bytes_ = 0;
};

/// An argument of kernel `Name`, the one at `Place`, as `Other` takes it, `other_type`; `heads` are the `head_rows`
/// before it. This one is passed as it is.
template <class Backend, class Other, kernel Name, std::size_t Place, std::size_t Heads, class Argument>
class host_argument {
 public:
  using other_type = Argument const&;

  explicit host_argument(Argument const& argument) : argument_(argument) {}
  template <class Copies, class... All>
  void cover(Copies&, All const&...) {}
  template <class Copies>
  other_type get(Copies&) {
    return argument_;
  }
  template <class Copies>
  void put(Copies&) {}

 private:
  Argument const& argument_;
};

/// The elements of a block, walked as `Walk` stores them.
template <storage_order Walk, class T, int Rank, storage_order Order>
strided<T> in_order(block<T, Rank, Order> b) {
  constexpr auto dims = stored_dims<Rank, Walk>();
  const auto strides = strides_of<Order>(b.extents);
  strided<T> s{b.data, {}, {}};
  s.extents.extents.fill(1);
  for (std::size_t p = 0; p < dims.size(); ++p) {
    s.extents.extents[6 - dims.size() + p] = b.extents[dims[p]];
    s.strides[6 - dims.size() + p] = strides[static_cast<std::size_t>(dims[p])];
  }
  return s;
}

/// A block: in the storage order of `Other`, with its element type where it is one of statistics.
template <class Backend, class Other, kernel Name, std::size_t Place, std::size_t Heads, class T, int Rank,
          storage_order Order>
class host_argument<Backend, Other, Name, Place, Heads, block<T, Rank, Order>> {
  static constexpr kernel_operands operands = kernel_member<Name>::operands;
  using value = std::remove_const_t<T>;
  using element = std::conditional_t<(operands.statistics >> Place & 1u) != 0, typename Other::statistic, value>;
  static constexpr storage_order other_order = Rank == 4 ? Other::order : Order;
  static constexpr bool converts = !std::is_same_v<value, element> || Order != other_order;
  // Batch norm takes images with channels innermost as matrices.
  static constexpr bool as_pixels = Order != other_order && other_order == storage_order::channels_last &&
                                    kernel_names[static_cast<std::size_t>(Name)].starts_with("batch_norm");
  using other_element = std::conditional_t<std::is_const_v<T>, element const, element>;

 public:
  using other_type = block<other_element, as_pixels ? 2 : Rank, as_pixels ? storage_order::channels_last : other_order>;

  explicit host_argument(block<T, Rank, Order> const& b) : block_(b) {}
  template <class Copies, class... All>
  void cover(Copies& copies, All const&...) {
    copies.cover(block_.data, block_.size());
  }
  template <class Copies>
  other_type get(Copies& copies) {
    block_.data = block_.empty() ? nullptr : copies.at(block_.data);
    if constexpr (!converts) {
      return {block_.data, block_.extents};
    } else {
      copy_ = tensor<element, Rank, host_memory, other_order>(block_.extents);
      move(block_, copy_.view());
      copies.add_bytes(block_.size() * static_cast<index_t>(sizeof(element)));
      if constexpr (as_pixels)
        return as_matrix(copy_.view());
      else
        return copy_.view();
    }
  }
  template <class Copies>
  void put(Copies& copies) {
    if constexpr (converts && !std::is_const_v<T>) {
      move(copy_.view(), block_);
      copies.add_bytes(block_.size() * static_cast<index_t>(sizeof(element)));
    }
  }

 private:
  template <class From, class To>
  static void move(From from, To to) {
    if (from.empty()) return;
    walk_runs(in_order<other_order>(from), in_order<other_order>(to),
              [](auto* source, auto* target, index_t count, index_t read, index_t write) {
                for (index_t i = 0; i < count; ++i)
                  target[i * write] = static_cast<typename To::value_type>(source[i * read]);
              });
  }

  block<T, Rank, Order> block_;
  std::conditional_t<converts, tensor<element, Rank, host_memory, other_order>, std::nullptr_t> copy_{};
};

/// Arguments that are a pointer and strides: the elements from the first to the last.
template <class Argument>
class host_span {
 public:
  using other_type = Argument;

  explicit host_span(Argument const& argument) : argument_(argument) {}
  template <class Copies>
  other_type get(Copies& copies) {
    argument_.data = copies.at(argument_.data);
    return argument_;
  }
  template <class Copies>
  void put(Copies&) {}

 protected:
  /// Covers `extents` elements that lie `strides` apart.
  template <class Copies, std::size_t Dims>
  void cover(Copies& copies, std::array<index_t, Dims> const& extents, std::array<index_t, Dims> const& strides) {
    index_t count = 1;
    for (std::size_t d = 0; d < Dims; ++d) {
      if (extents[d] == 0) return;
      count += (extents[d] - 1) * strides[d];
    }
    if (argument_.data != nullptr) copies.cover(argument_.data, count);
  }

  Argument argument_;
};

template <class Backend, class Other, kernel Name, std::size_t Place, std::size_t Heads, class T>
class host_argument<Backend, Other, Name, Place, Heads, strided<T>> : public host_span<strided<T>> {
 public:
  using host_span<strided<T>>::host_span;
  template <class Copies, class... All>
  void cover(Copies& copies, All const&...) {
    host_span<strided<T>>::cover(copies, this->argument_.extents.extents, this->argument_.strides);
  }
};

/// Samples, heads, positions and width of head vectors, by what they are of.
constexpr shape<4> extents_of_heads(char of, attention_geometry const& g) {
  switch (of) {
    case 'q': return {{g.batch, g.heads, g.queries, g.width}};
    case 'k': return {{g.batch, g.heads, g.keys, g.width}};
    case 'v': return {{g.batch, g.heads, g.keys, g.value_width}};
    case 'm': return {{g.batch, g.heads, g.queries, g.first_key + g.keys}};
    default: return {{g.batch, g.heads, g.queries, g.value_width}};
  }
}
constexpr shape<4> extents_of_heads(char, shape<4> const& all) { return all; }

template <class Backend, class Other, kernel Name, std::size_t Place, std::size_t Heads, class T>
class host_argument<Backend, Other, Name, Place, Heads, head_rows<T>> : public host_span<head_rows<T>> {
 public:
  using host_span<head_rows<T>>::host_span;
  template <class Copies, class... All>
  void cover(Copies& copies, All const&... all) {
    const auto with = [&](auto const& geometry) {
      if constexpr (requires { extents_of_heads('q', geometry); }) {
        constexpr char of = kernel_member<Name>::operands.heads[Heads];
        head_rows<T> const& rows = this->argument_;
        host_span<head_rows<T>>::cover(copies, extents_of_heads(of, geometry).extents,
                                       std::array<index_t, 4>{rows.batch, rows.head, rows.row, 1});
      }
    };
    (with(all), ...);
  }
};

/// The weights of classes: one for each column of the first argument where that is logits, and one at least, as a
/// pointer to any says that there are some.
template <class Backend, class Other, kernel Name, std::size_t Place, std::size_t Heads, class T>
class host_argument<Backend, Other, Name, Place, Heads, cross_entropy_part<T>> {
 public:
  using other_type = cross_entropy_part<T>;

  explicit host_argument(cross_entropy_part<T> const& part) : part_(part) {}
  template <class Copies, class First, class... All>
  void cover(Copies& copies, First const& first, All const&...) {
    const index_t classes = Name == kernel::cross_entropy_loss ? 1 : first.extents[1];
    if (part_.class_weights != nullptr) copies.cover(part_.class_weights, std::max(classes, index_t{1}));
  }
  template <class Copies>
  other_type get(Copies& copies) {
    if (part_.class_weights != nullptr) part_.class_weights = copies.at(part_.class_weights);
    return part_;
  }
  template <class Copies>
  void put(Copies&) {}

 private:
  cross_entropy_part<T> part_;
};

template <class Argument>
inline constexpr bool is_head_rows = false;
template <class T>
inline constexpr bool is_head_rows<head_rows<T>> = true;

/// How many of the first `Count` arguments are `head_rows`.
template <std::size_t Count, class... Arguments>
constexpr std::size_t heads_before() {
  constexpr bool is[] = {is_head_rows<Arguments>..., false};
  std::size_t heads = 0;
  for (std::size_t i = 0; i < Count; ++i) heads += is[i] ? 1 : 0;
  return heads;
}

}  // namespace tessera::detail
