#pragma once

#include <tessera/backend/capability.hpp>
#include <tessera/backend/host_copies.hpp>

#include <array>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

/// What a kernel that another backend runs has cost so far: bytes that were copied to the host and back, or into
/// another storage order or element type and back.
struct fallback_use {
  std::string_view kernel{};
  index_t calls = 0;
  index_t bytes = 0;
};

/// The backend `Backend` with kernels of `Other` for those that it lacks.
///
///     ts::session<world, ts::with_fallback<my_backend, ts::eigen>> session{argc, argv};
///
/// Each kernel runs on `Backend` where that has it for the element type, else on `Other`; where neither has it, a
/// program that calls it does not compile. `falls_back` says while compiling which groups need `Other`, `fallbacks()`
/// what that has cost.
///
/// Blocks are those of `Backend`. Where `Other` cannot read them, because the host cannot, or because the storage order
/// of images or the element type of statistics differs, a kernel of `Other` works on copies in host memory, and
/// the results are copied back: every argument that is not read-only is copied both ways, so pass operands as such.
/// Such a call waits for the kernels before it. `Other` computes on host memory.
template <class Backend, class Other>
class with_fallback : public detail::kernel_members<with_fallback<Backend, Other>, Backend> {
  static_assert(backend<Backend>,
                "tessera: the first of with_fallback<Backend, Other> is no backend; even one that lacks operators has "
                "memory and the kernels that every program needs (tessera::backend says which)");
  static_assert(backend<Other>,
                "tessera: the second of with_fallback<Backend, Other> is no backend: name one, as eigen");

  static constexpr bool same_blocks = [] {
    if constexpr (backend<Other>)
      return (std::is_same_v<typename Backend::memory, typename Other::memory> ||
              (Backend::memory::on_host && Other::memory::on_host)) &&
             Backend::order == Other::order && std::is_same_v<typename Backend::statistic, typename Other::statistic>;
    return true;
  }();
  static_assert(
      [] {
        if constexpr (!same_blocks) return Other::memory::on_host;
        return true;
      }(),
      "tessera: the second of with_fallback<Backend, Other> takes other blocks than the first and computes on memory "
      "that is not the host's; name a backend on host memory, as eigen");

  template <detail::kernel Name, class... Args, std::size_t... Place>
  static auto arguments_at(std::index_sequence<Place...>) -> std::tuple<
      detail::host_argument<Backend, Other, Name, Place, detail::heads_before<Place, Args...>(), Args>...>;
  template <detail::kernel Name, class... Args>
  using arguments_for = decltype(arguments_at<Name, std::remove_cvref_t<Args>...>(std::index_sequence_for<Args...>{}));
  template <detail::kernel Name, class... Argument>
  static auto result_of_call(std::tuple<Argument...> const&)
      -> decltype(detail::kernel_member<Name>::call(std::declval<Other&>(),
                                                    std::declval<typename Argument::other_type>()...));

 public:
  using detail::kernel_members<with_fallback<Backend, Other>, Backend>::kernel_members;

  /// Whether kernels of `Other` work on copies.
  static constexpr bool copies = !same_blocks;
  /// Whether a kernel of the group is one of `Other`, for elements of type T.
  template <class T, kernel_group Group>
  static constexpr bool falls_back = !offers<Backend, T, Group>;

  /// The kernels that `Other` has run on this rank, after those of a `Backend` that falls back itself.
  std::vector<fallback_use> fallbacks() const {
    std::vector<fallback_use> used;
    if constexpr (requires(Backend const& b) { b.fallbacks(); }) used = Backend::fallbacks();
    for (fallback_use const& one : uses_)
      if (one.calls > 0) used.push_back(one);
    return used;
  }
  /// The backend that steps in.
  Other& other() { return other_; }

  /// Where one of the two has threads.
  void use_threads(int threads) requires(requires(Backend& b) { b.use_threads(threads); } ||
                                         requires(Other& o) { o.use_threads(threads); }) {
    if constexpr (requires(Backend& b) { b.use_threads(threads); }) Backend::use_threads(threads);
    if constexpr (requires { other_.use_threads(threads); }) other_.use_threads(threads);
  }

  /// Calls a kernel, which is what the members with the kernels' names do.
  template <detail::kernel Name, class... Args>
  requires detail::has_kernel<Backend, Name, Args...>
  auto run(Args&&... args)
      -> decltype(detail::kernel_member<Name>::call(std::declval<Backend&>(), std::forward<Args>(args)...)) {
    return detail::kernel_member<Name>::call(static_cast<Backend&>(*this), std::forward<Args>(args)...);
  }
  template <detail::kernel Name, class... Args>
  requires(!detail::has_kernel<Backend, Name, Args...> && same_blocks &&
           detail::has_kernel<Other, Name, Args...>) auto run(Args&&... args)
      -> decltype(detail::kernel_member<Name>::call(std::declval<Other&>(), std::forward<Args>(args)...)) {
    count<Name>(0);
    return detail::kernel_member<Name>::call(other_, std::forward<Args>(args)...);
  }
  template <detail::kernel Name, class... Args>
  requires(!detail::has_kernel<Backend, Name, Args...> && !same_blocks) auto run(Args&&... args)
      -> decltype(result_of_call<Name>(std::declval<arguments_for<Name, Args...>>())) {
    detail::host_copies<Backend, sizeof...(Args)> copies(*this);
    arguments_for<Name, Args...> arguments{args...};
    const auto all = [&](auto each) { std::apply([&](auto&... one) { (each(one), ...); }, arguments); };
    all([&](auto& one) { one.cover(copies, args...); });
    copies.download();
    const auto compute = [&] {
      return std::apply([&](auto&... one) { return detail::kernel_member<Name>::call(other_, one.get(copies)...); },
                        arguments);
    };
    const auto give_back = [&] {
      all([&](auto& one) { one.put(copies); });
      copies.upload();
      count<Name>(copies.bytes());
    };
    if constexpr (std::is_void_v<decltype(compute())>) {
      compute();
      give_back();
    } else {
      const auto result = compute();
      give_back();
      return result;
    }
  }

 private:
  template <detail::kernel Name>
  void count(index_t bytes) {
    fallback_use& use = uses_[static_cast<std::size_t>(Name)];
    use.kernel = detail::kernel_names[static_cast<std::size_t>(Name)];
    ++use.calls;
    use.bytes += bytes;
  }

  Other other_{};
  std::array<fallback_use, static_cast<std::size_t>(detail::kernel::number_of)> uses_{};
};

}  // namespace tessera
