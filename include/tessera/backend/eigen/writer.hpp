#pragma once

#include <tessera/backend/eigen/map.hpp>

#include <cstdint>
#include <type_traits>

namespace tessera::detail::eigen_kernels {

/// One number, or as many neighbours as a packet V holds.
template <class V, class T>
V load(T const* from) {
  if constexpr (std::is_same_v<V, T>)
    return *from;
  else
    return Eigen::internal::ploadu<V>(from);
}

/// Stores an aligned packet without reading its cache lines first; an ordinary store where the processor has no such.
template <class T, class V>
void store_past_caches(T* to, V const& value) {
  Eigen::internal::pstoreu(to, value);
}
#if defined(EIGEN_VECTORIZE_AVX512)
inline void store_past_caches(float* to, Eigen::internal::Packet16f const& value) { _mm512_stream_ps(to, value); }
inline void store_past_caches(double* to, Eigen::internal::Packet8d const& value) { _mm512_stream_pd(to, value); }
#elif defined(EIGEN_VECTORIZE_AVX)
inline void store_past_caches(float* to, Eigen::internal::Packet8f const& value) { _mm256_stream_ps(to, value); }
inline void store_past_caches(double* to, Eigen::internal::Packet4d const& value) { _mm256_stream_pd(to, value); }
#elif defined(EIGEN_VECTORIZE_SSE)
inline void store_past_caches(float* to, Eigen::internal::Packet4f const& value) { _mm_stream_ps(to, value); }
inline void store_past_caches(double* to, Eigen::internal::Packet2d const& value) { _mm_stream_pd(to, value); }
#endif

/// Writes a block whose elements are computed one by one, in vector code at any optimisation level.
///
/// A block that the caches would not hold anyway goes past them: an ordinary store reads each line first, which costs a
/// third of the traffic of a kernel that reads one block and writes one (measured: 1.5 times as fast at 25 MB).
template <class T>
class writer {
 public:
  static constexpr index_t large = (index_t{4} << 20) / static_cast<index_t>(sizeof(T));

  /// For a block of `elements` elements. `in_place`: the block is also read, so its lines are in the caches.
  writer(index_t elements, bool in_place) : past_caches_(elements >= large && !in_place) {}
  writer(writer const&) = delete;
  writer& operator=(writer const&) = delete;
  ~writer() {
#if defined(EIGEN_VECTORIZE_SSE)
    // Other ranks read this memory after an ordinary store tells them to.
    if (past_caches_) _mm_sfence();
#endif
  }

  /// out[i] = `of.operator()<V>(i)`, as a packet V or, for the few last elements, as one number. Which elements these
  /// are depends on `count` alone; those beside a cache line's border may be computed twice.
  template <class Of>
  void operator()(T* out, index_t count, Of of) const {
    using packet = typename Eigen::internal::packet_traits<T>::type;
    constexpr index_t width = Eigen::internal::packet_traits<T>::size;
    const index_t whole = count / width * width;
    // A call for each packet would load the constants of `of` each time.
    const auto packet_at = [&](index_t i) __attribute__((always_inline)) { return of.template operator()<packet>(i); };
    const auto store = [&](index_t i) __attribute__((always_inline)) {
      Eigen::internal::pstoreu(out + i, packet_at(i));
    };
    index_t i = 0;
    if (past_caches_ && whole > 0) {
      const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(out) % sizeof(packet);
      if (behind != 0) {
        store(0);
        i = static_cast<index_t>((sizeof(packet) - behind) / sizeof(T));
      }
      for (; i + width <= whole; i += width) store_past_caches(out + i, packet_at(i));
      if (i < whole) store(whole - width);
    } else {
      for (; i < whole; i += width) store(i);
    }
    for (i = whole; i < count; ++i) out[i] = of.template operator()<T>(i);
  }

 private:
  bool past_caches_;
};

}  // namespace tessera::detail::eigen_kernels
