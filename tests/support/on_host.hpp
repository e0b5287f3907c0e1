#pragma once

#include <tessera/backend/capability.hpp>
#include <tessera/backend/eigen.hpp>
#include <tessera/backend/host_copies.hpp>

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tessera::test {

/// The kernels of `B` for blocks in host memory as `eigen` has them: operands are uploaded, results are downloaded.
/// Tests of kernels are written for this, whatever the backend.
template <class B>
class on_host : public detail::kernel_members<on_host<B>, eigen> {
  /// The blocks of `B`, in host memory.
  struct near {
    using memory = host_memory;
    static constexpr storage_order order = B::order;
    using statistic = typename B::statistic;
  };
  struct in_place {
    template <class T>
    void cover(T*, index_t) {}
    template <class T>
    T* at(T* data) const {
      return data;
    }
    void add_bytes(index_t) {}
  };
  template <std::size_t Most>
  class uploaded : public detail::covered_memory<B, Most> {
   public:
    explicit uploaded(B& backend) : backend_(backend) {}
    void upload() {
      this->each([&](auto& r) {
        r.copy = B::memory::allocate(r.bytes());
        r.move(backend_, r.data(), r.copy.get(), r.bytes(), true);
      });
    }
    void download() {
      this->each([&](auto& r) {
        if (r.written) r.move(backend_, r.data(), r.copy.get(), r.bytes(), false);
      });
    }

   private:
    B& backend_;
  };

  /// Matrices of pixels as the images that batch norm takes where channels do not lie innermost.
  template <detail::kernel Name, class Argument>
  static decltype(auto) as_pixels(Argument&& argument) {
    return std::forward<Argument>(argument);
  }
  template <detail::kernel Name, class T>
  requires(B::order == storage_order::row_major && std::is_same_v<std::remove_const_t<T>, float> &&
           detail::kernel_names[static_cast<std::size_t>(Name)].starts_with(
               "batch_norm")) static block<T, 4, storage_order::row_major> as_pixels(block<T, 2> const& matrix) {
    return {matrix.data, {matrix.extents[0], matrix.extents[1], 1, 1}};
  }

  template <class From, class To, detail::kernel Name, class... Args>
  struct arguments_of {
    template <std::size_t... Place>
    static auto types(std::index_sequence<Place...>)
        -> std::tuple<detail::host_argument<From, To, Name, Place, detail::heads_before<Place, Args...>(), Args>...>;
    using type = decltype(types(std::index_sequence_for<Args...>{}));
  };

 public:
  template <detail::kernel Name, class... Args>
  auto run(Args const&... args) -> decltype(detail::kernel_member<Name>::call(std::declval<eigen&>(), args...)) {
    return converted<Name>(as_pixels<Name>(args)...);
  }

  B& kernels() { return backend_; }

 private:
  /// In the storage order and with the statistics of `B`.
  template <detail::kernel Name, class... Args>
  auto converted(Args const&... args) {
    typename arguments_of<eigen, near, Name, Args...>::type arguments{args...};
    in_place copies;
    const auto give_back = [&] { std::apply([&](auto&... one) { (one.put(copies), ...); }, arguments); };
    return std::apply(
        [&](auto&... one) {
          (one.cover(copies, args...), ...);
          return then([&] { return moved<Name>(one.get(copies)...); }, give_back);
        },
        arguments);
  }
  /// In the memory of `B`.
  template <detail::kernel Name, class... Args>
  auto moved(Args const&... args) {
    typename arguments_of<near, near, Name, Args...>::type arguments{args...};
    uploaded<sizeof...(Args)> copies(backend_);
    return std::apply(
        [&](auto&... one) {
          (one.cover(copies, args...), ...);
          copies.upload();
          return then([&] { return detail::kernel_member<Name>::call(backend_, one.get(copies)...); },
                      [&] { copies.download(); });
        },
        arguments);
  }
  template <class Work, class After>
  static auto then(Work work, After after) {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      after();
    } else {
      const auto result = work();
      after();
      return result;
    }
  }

  B backend_{};
};

}  // namespace tessera::test
