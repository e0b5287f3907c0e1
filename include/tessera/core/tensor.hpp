#pragma once

#include <tessera/core/block.hpp>
#include <tessera/core/memory.hpp>

#include <algorithm>
#include <utility>

namespace tessera {

/// One rank's dense block with its memory: a handle that shares the block when copied; `clone` copies the elements.
///
/// Elements are addressed in logical order, `t(n, c, h, w)`; in memory a tensor of rank 4 lies as `Order` says
/// (channels last on the CPU: N, H, W, C), others row-major. `tessera::view` and `to_tensor` (core/xtensor.hpp) convert
/// whole arrays.
///
/// Values that layers keep for backward are kept by copying the handle, so sharing is what they want.
///
/// Only where the memory is the host's (`Memory::on_host`) are elements read and written here; elsewhere by the kernels
/// of the backend, as `tessera::to_host` and `tessera::from_host` (backend/transfer.hpp) do.
template <class T, int Rank, class Memory = host_memory, storage_order Order = storage_order::channels_last>
class tensor {
 public:
  using block_type = block<T, Rank, order_of_rank<Rank>(Order)>;
  using read_block_type = block<T const, Rank, order_of_rank<Rank>(Order)>;
  using value_type = T;
  static constexpr int rank = Rank;

  tensor() = default;
  tensor(tensor const&) = default;
  tensor& operator=(tensor const&) = default;
  /// A tensor that was moved from has no memory: it does not see what others do with it.
  tensor(tensor&& other) noexcept : owner_(std::move(other.owner_)), view_(std::exchange(other.view_, block_type{})) {}
  tensor& operator=(tensor&& other) noexcept {
    owner_ = std::move(other.owner_);
    view_ = std::exchange(other.view_, block_type{});
    return *this;
  }
  ~tensor() = default;
  /// Memory for `extents`, contents arbitrary.
  explicit tensor(shape<Rank> extents)
      : owner_(Memory::allocate(static_cast<std::size_t>(extents.size()) * sizeof(T))),
        view_{static_cast<T*>(owner_.get()), extents} {}
  tensor(shape<Rank> extents, T value) requires(Memory::on_host) : tensor(extents) {
    std::fill(view_.begin(), view_.end(), value);
  }
  /// A tensor inside memory that another object owns (a gradient inside its bucket).
  tensor(memory_handle owner, T* data, shape<Rank> extents) : owner_(std::move(owner)), view_{data, extents} {}

  block_type view() { return view_; }
  read_block_type view() const { return view_; }
  read_block_type read() const { return view_; }
  T* data() { return view_.data; }
  T const* data() const { return view_.data; }
  shape<Rank> const& extents() const { return view_.extents; }
  index_t extent(int dim) const { return view_.extents[dim]; }
  index_t size() const { return view_.size(); }
  template <class... At>
  T& operator()(At... at) {
    require_host_memory<At...>();
    return view_(at...);
  }
  template <class... At>
  T const& operator()(At... at) const {
    require_host_memory<At...>();
    return view_(at...);
  }

  /// A copy of the elements in memory of its own.
  tensor clone() const requires(Memory::on_host) {
    tensor copy(extents());
    std::copy(view_.begin(), view_.end(), copy.view_.begin());
    return copy;
  }

  /// The same memory seen with other extents of the same size (no elements move).
  template <int To>
  tensor<T, To, Memory, Order> reshaped(shape<To> to) const {
    return part(0, to);
  }

  /// A tensor of these extents inside this one's memory, from element `first` on.
  template <int To>
  tensor<T, To, Memory, Order> part(index_t first, shape<To> to) const {
    return {owner_, view_.data + first, to};
  }

  /// Only tensors of rank 4 lie in different orders.
  template <storage_order Other>
  requires(Rank != 4 && Other != Order) operator tensor<T, Rank, Memory, Other>() const {
    return {owner_, view_.data, view_.extents};
  }

  /// Whether this handle is the only one, so that an operator may write in place.
  bool unique() const { return owner_.unique(); }

 private:
  template <class...>
  static constexpr void require_host_memory() {
    static_assert(Memory::on_host,
                  "tessera: the elements of this tensor are in a device's memory, which the host cannot read or write: "
                  "take a copy in host memory first, as in tessera::to_host(session.kernels(), x)");
  }

  memory_handle owner_;
  block_type view_{};
};

}  // namespace tessera
