#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/backend/eigen.hpp>
#include <tessera/backend/kernel_members.hpp>
#include <tessera/comm/concept.hpp>

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// A backend as on a device: Eigen's kernels on memory whose addresses mean nothing to the host. Whatever reads or
/// writes an element by its address without the backend ends the program; a kernel or a communicator that is given an
/// address of the host throws.
namespace worlds {

using tessera::index_t;

/// Memory in two ranges of addresses of equal size: those handed out, which cannot be read or written, and, at one
/// distance from them, those where the elements are.
class far_memory {
 public:
  static constexpr bool on_host = false;

  static tessera::memory_handle allocate(std::size_t bytes) {
    const std::size_t size = (bytes + 63) / 64 * 64;
    return {arena(), arena()->take(size), size};
  }
  /// The address of an element on the device.
  template <class T>
  static T* near(T* address) {
    return address == nullptr ? nullptr
                              : reinterpret_cast<T*>(arena()->found(reinterpret_cast<std::uintptr_t>(address)));
  }

 private:
  struct pool : tessera::memory_handle::source {
    static constexpr std::size_t room = std::size_t{1} << 36;
    std::uintptr_t handed_out = reserve(PROT_NONE);
    std::uintptr_t elements = reserve(PROT_READ | PROT_WRITE);
    std::size_t used = 0;
    std::map<std::size_t, std::vector<void*>> free;

    static std::uintptr_t reserve(int access) {
      void* const range = mmap(nullptr, room, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) throw std::bad_alloc{};
      return reinterpret_cast<std::uintptr_t>(range);
    }
    void* take(std::size_t size) {
      if (size == 0) return nullptr;
      auto& same = free[size];
      if (same.empty()) {
        if (size > room - used) throw std::bad_alloc{};
        same.push_back(reinterpret_cast<void*>(handed_out + used));
        used += size;
      }
      void* const data = same.back();
      same.pop_back();
      return data;
    }
    void take_back(void* data, std::size_t size) noexcept override {
      if (data != nullptr) free[size].push_back(data);
    }
    std::uintptr_t found(std::uintptr_t address) const {
      // One beyond the last element is an address of an empty block.
      if (address < handed_out || address > handed_out + used)
        throw std::logic_error("an address of the host was given to the device: " + std::to_string(address));
      return address - handed_out + elements;
    }
  };

  static std::shared_ptr<pool> const& arena() {
    static const std::shared_ptr<pool> one = std::make_shared<pool>();
    return one;
  }
};

/// Arguments of kernels with the addresses on the device.
template <class T>
T const& near(T const& number) {
  return number;
}
template <class T, int Rank, tessera::storage_order Order>
tessera::block<T, Rank, Order> near(tessera::block<T, Rank, Order> const& b) {
  // The address of nothing may be any.
  return {b.empty() ? nullptr : far_memory::near(b.data), b.extents};
}
template <class T>
tessera::strided<T> near(tessera::strided<T> const& s) {
  return {far_memory::near(s.data), s.extents, s.strides};
}
template <class T>
tessera::head_rows<T> near(tessera::head_rows<T> const& h) {
  return {far_memory::near(h.data), h.batch, h.head, h.row};
}
template <class T>
tessera::cross_entropy_part<T> near(tessera::cross_entropy_part<T> part) {
  part.class_weights = far_memory::near(part.class_weights);
  return part;
}

class far : public tessera::detail::kernel_members<far, tessera::eigen> {
 public:
  using memory = far_memory;

  template <tessera::detail::kernel Name, class... Args>
  auto run(Args const&... args)
      -> decltype(tessera::detail::kernel_member<Name>::call(std::declval<tessera::eigen&>(), near(args)...)) {
    return tessera::detail::kernel_member<Name>::call(static_cast<tessera::eigen&>(*this), near(args)...);
  }

  template <class T>
  void upload(T const* from, T* to, index_t count) {
    eigen::upload(from, far_memory::near(to), count);
  }
  template <class T>
  void download(T const* from, T* to, index_t count) {
    eigen::download(far_memory::near(from), to, count);
  }
  template <class T>
  void fill(tessera::block<T, 1> y, std::type_identity_t<T> value) {
    eigen::fill(near(y), value);
  }
  template <class T>
  void copy(tessera::operand<T, 1> x, tessera::block<T, 1> y) {
    eigen::copy(near(x), near(y));
  }
  template <class T>
  void copy_strided(std::type_identity_t<tessera::strided<T const>> const& from, tessera::strided<T> const& to) {
    eigen::copy_strided(near(from), near(to));
  }
};
static_assert(tessera::backend<far>);

/// The communicator of `far`: messages between the devices' memories.
template <tessera::communicator Comm>
class far_comm {
 public:
  using request = typename Comm::request;

  explicit far_comm(Comm inner) : inner_(std::move(inner)) {}

  /// For values in host memory.
  Comm& host() { return inner_; }
  Comm& inner() { return inner_; }
  void label(tessera::axis_set axes) requires requires(Comm& inner) { inner.label(axes); }
  { inner_.label(axes); }

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }

  template <class T>
  void all_reduce(T* data, index_t count, tessera::reduction op) {
    inner_.all_reduce(far_memory::near(data), count, op);
  }
  template <class T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    inner_.all_gather(far_memory::near(send), far_memory::near(receive), counts);
  }
  template <class T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, tessera::reduction op) {
    inner_.reduce_scatter(far_memory::near(send), far_memory::near(receive), counts, op);
  }
  template <class T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    inner_.all_to_all(far_memory::near(send), send_counts, far_memory::near(receive), receive_counts);
  }
  template <class T>
  void broadcast(T* data, index_t count, int root) {
    inner_.broadcast(far_memory::near(data), count, root);
  }
  void barrier() { inner_.barrier(); }

  template <class T>
  request start_all_reduce(T* data, index_t count, tessera::reduction op) {
    return inner_.start_all_reduce(far_memory::near(data), count, op);
  }
  template <class T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    return inner_.start_all_gather(far_memory::near(send), far_memory::near(receive), counts);
  }
  template <class T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, tessera::reduction op) {
    return inner_.start_reduce_scatter(far_memory::near(send), far_memory::near(receive), counts, op);
  }
  template <class T>
  request start_send(T const* data, index_t count, int to, int tag) {
    return inner_.start_send(far_memory::near(data), count, to, tag);
  }
  template <class T>
  request start_receive(T* data, index_t count, int from, int tag) {
    return inner_.start_receive(far_memory::near(data), count, from, tag);
  }

  tessera::memory_handle allocate(std::size_t bytes) { return far_memory::allocate(bytes); }
  far_comm split(int color, int key) const { return far_comm(inner_.split(color, key)); }
  [[noreturn]] void abort(int code) const { inner_.abort(code); }

 private:
  Comm inner_;
};

}  // namespace worlds
