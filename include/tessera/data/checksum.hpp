#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::detail {

/// CRC-32 (ISO 3309, that of zlib) of these bytes behind others whose CRC-32 is `before`.
inline std::uint32_t checksum(std::span<std::byte const> bytes, std::uint32_t before = 0) {
  // zlib takes no bytes at no place for a question.
  if (bytes.empty()) return before;
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<Bytef const*>(bytes.data()), bytes.size()));
}
inline std::uint32_t checksum(std::string_view text) { return checksum(std::as_bytes(std::span(text))); }

/// A checksum as eight hexadecimal digits.
inline std::string checksum_text(std::uint32_t sum) {
  std::array<char, 8> digits{};
  for (std::size_t i = digits.size(); i-- > 0; sum >>= 4) digits[i] = "0123456789abcdef"[sum & 0xF];
  return {digits.begin(), digits.end()};
}

/// The checksums of tensors that lie one after the other, one for each block of a tensor: who reads a part of a tensor
/// looks at the blocks of this part.
class block_checksums {
 public:
  static constexpr std::uint64_t block_bytes = std::uint64_t{1} << 16;

  block_checksums() = default;
  /// Of tensors of so many bytes, nothing of which is there yet.
  explicit block_checksums(std::vector<std::uint64_t> const& tensors) {
    for (const std::uint64_t bytes : tensors) {
      first_.push_back(sums_.size());
      for (std::uint64_t begin = 0; begin < bytes; begin += block_bytes) {
        sums_.push_back(0);
        left_.push_back(static_cast<std::uint32_t>(std::min(block_bytes, bytes - begin)));
      }
    }
  }
  /// The same from what `text` says; none where it says no such thing.
  static std::optional<block_checksums> parse(std::string_view text, std::vector<std::uint64_t> const& tensors) {
    block_checksums parsed(tensors);
    if (text.size() != 8 * parsed.sums_.size()) return std::nullopt;
    for (std::size_t i = 0; i < parsed.sums_.size(); ++i) {
      char const* const digits = text.data() + 8 * i;
      if (std::from_chars(digits, digits + 8, parsed.sums_[i], 16).ptr != digits + 8) return std::nullopt;
    }
    return parsed;
  }

  /// Takes in the next bytes of the tensors, no more than there are.
  void add(std::span<std::byte const> bytes) {
    while (!bytes.empty()) {
      const std::size_t some = std::min<std::size_t>(bytes.size(), left_[next_]);
      sums_[next_] = checksum(bytes.first(some), sums_[next_]);
      left_[next_] -= static_cast<std::uint32_t>(some);
      if (left_[next_] == 0) ++next_;
      bytes = bytes.subspan(some);
    }
  }
  /// Eight digits a block.
  std::string text() const {
    std::string all;
    for (const std::uint32_t sum : sums_) all += checksum_text(sum);
    return all;
  }

  bool empty() const { return sums_.empty(); }
  /// That of a block of a tensor.
  std::uint32_t of(std::size_t tensor, std::uint64_t block) const { return sums_[first_[tensor] + block]; }

 private:
  std::vector<std::size_t> first_{};  // by tensor
  std::vector<std::uint32_t> sums_{};
  std::vector<std::uint32_t> left_{};  // bytes of each block that are still to come
  std::size_t next_ = 0;
};

}  // namespace tessera::detail
