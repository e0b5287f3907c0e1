#pragma once

#include <tessera/core/shape.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The element types of safetensors files that are read and written here.
enum class safetensors_type : std::uint8_t { f64 = 1, f32, f16, bf16, i64, i32, u8 };

namespace detail {
struct safetensors_type_entry {
  safetensors_type type;
  std::string_view name;
  std::size_t bytes;
};
inline constexpr safetensors_type_entry safetensors_types[] = {
    {safetensors_type::f64, "F64", 8},   {safetensors_type::f32, "F32", 4}, {safetensors_type::f16, "F16", 2},
    {safetensors_type::bf16, "BF16", 2}, {safetensors_type::i64, "I64", 8}, {safetensors_type::i32, "I32", 4},
    {safetensors_type::u8, "U8", 1}};
constexpr safetensors_type_entry const& entry_of(safetensors_type type) {
  return safetensors_types[static_cast<std::size_t>(type) - 1];
}

template <class T>
struct safetensors_type_for;
template <>
struct safetensors_type_for<double> {
  static constexpr auto value = safetensors_type::f64;
};
template <>
struct safetensors_type_for<float> {
  static constexpr auto value = safetensors_type::f32;
};
template <>
struct safetensors_type_for<std::int64_t> {
  static constexpr auto value = safetensors_type::i64;
};
template <>
struct safetensors_type_for<std::int32_t> {
  static constexpr auto value = safetensors_type::i32;
};
template <>
struct safetensors_type_for<std::uint8_t> {
  static constexpr auto value = safetensors_type::u8;
};
}  // namespace detail

/// The name of an element type in the files: `F32`.
constexpr std::string_view name_of(safetensors_type type) { return detail::entry_of(type).name; }
/// Bytes of one element.
constexpr std::size_t bytes_of(safetensors_type type) { return detail::entry_of(type).bytes; }
/// The element type of a name, if it is one of these.
inline std::optional<safetensors_type> safetensors_type_named(std::string_view name) {
  for (auto const& entry : detail::safetensors_types)
    if (entry.name == name) return entry.type;
  return std::nullopt;
}
/// The type of elements of C++.
template <class T>
inline constexpr safetensors_type safetensors_type_of = detail::safetensors_type_for<T>::value;

/// A tensor of a safetensors file.
struct safetensors_tensor {
  std::string name;
  safetensors_type type = safetensors_type::f32;
  std::vector<index_t> extents{};
  /// Where its bytes lie in the file: those of its elements in row-major order, little-endian.
  std::uint64_t begin = 0;

  index_t size() const {
    index_t n = 1;
    for (const index_t e : extents) n *= e;
    return n;
  }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(size()) * bytes_of(type); }
};

/// Extents known at run time as text: `[3, 4]`.
inline std::string to_string(std::vector<index_t> const& extents) {
  std::string text = "[";
  for (std::size_t d = 0; d < extents.size(); ++d) text += (d ? ", " : "") + std::to_string(extents[d]);
  return text + "]";
}

static_assert(std::endian::native == std::endian::little, "tessera: safetensors files hold little-endian numbers");

}  // namespace tessera
