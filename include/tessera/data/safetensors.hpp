#pragma once

#include <tessera/core/error.hpp>
#include <tessera/data/checksum.hpp>
#include <tessera/data/durable_file.hpp>
#include <tessera/data/json_text.hpp>
#include <tessera/data/safetensors_tensor.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {
/// Among the metadata of a file: the checksums of its tensors, in the order in which they lie.
inline constexpr char const* checksums_name = "tessera.crc32.65536";

inline std::vector<std::uint64_t> bytes_of_each(std::span<safetensors_tensor const> tensors) {
  std::vector<std::uint64_t> bytes;
  for (safetensors_tensor const& t : tensors) bytes.push_back(t.bytes());
  return bytes;
}
}  // namespace detail

/// A safetensors file that is open for reading (the format of Hugging Face: the length of the header in 8 bytes, little
/// endian; a JSON header that gives each tensor's type, extents and place; then the elements without gaps).
///
/// The constructor throws `error` where the file cannot be read, its header is none, or the tensors do not fill the
/// rest of the file exactly, and names the tensor at fault where there is one. Files of `safetensors_writer` have
/// checksums of their elements: `read` throws where it meets others than were written.
class safetensors_file {
 public:
  explicit safetensors_file(std::filesystem::path path) : path_(std::move(path)), file_(open(path_)) { parse(); }

  std::filesystem::path const& path() const { return path_; }
  /// In the order in which they lie in the file.
  std::vector<safetensors_tensor> const& tensors() const { return tensors_; }
  /// Texts that the writer added, but for the checksums.
  std::map<std::string, std::string> const& metadata() const { return metadata_; }

  /// Null where there is none of this name.
  safetensors_tensor const* find(std::string const& name) const {
    const auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](safetensors_tensor const& t) { return t.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }
  /// Throws where there is none of this name.
  safetensors_tensor const& at(std::string const& name) const {
    if (auto const* found = find(name)) return *found;
    throw error(path_.string() + " has no tensor \"" + name + "\"", "a file with this tensor",
                "give the file of the same model");
  }

  /// Fills `to` with bytes of a tensor, from its byte `first` on.
  void read(safetensors_tensor const& from, std::uint64_t first, std::span<std::byte> to) const {
    if (first > from.bytes() || to.size() > from.bytes() - first)
      throw error("bytes " + std::to_string(first) + " to " + std::to_string(first + to.size()) + " of tensor \"" +
                      from.name + "\" in " + path_.string(),
                  "some of its " + std::to_string(from.bytes()) + " bytes", "read inside the tensor");
    if (!read_at(from.begin + first, to))
      throw error(path_.string() + " ends inside tensor \"" + from.name + "\"", "the file as it was when opened",
                  "do not change files that are read");
    if (!sums_.empty()) compare(from, first, to);
  }
  /// Whether the file has checksums.
  bool has_checksums() const { return !sums_.empty(); }
  /// All elements of a tensor, row-major. Throws where there is none of this name or it has other elements.
  template <class T>
  std::vector<T> read(std::string const& name) const {
    safetensors_tensor const& from = at(name);
    if (from.type != safetensors_type_of<T>)
      throw error("tensor \"" + name + "\" in " + path_.string() + " has elements " + std::string(name_of(from.type)),
                  std::string(name_of(safetensors_type_of<T>)), "read it as what it is");
    std::vector<T> all(static_cast<std::size_t>(from.size()));
    read(from, 0, std::as_writable_bytes(std::span(all)));
    return all;
  }

 private:
  /// As in the format's own reader.
  static constexpr std::uint64_t most_header_bytes = 100'000'000;

  static int open(std::filesystem::path const& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
      throw error("cannot open " + path.string() + " (" + std::strerror(errno) + ")", "a safetensors file",
                  "check the path and its permissions");
    return descriptor;
  }

  /// Tensors without elements lie before others of the same place.
  static bool lies_before(safetensors_tensor const& a, safetensors_tensor const& b) {
    return std::pair(a.begin, a.bytes()) < std::pair(b.begin, b.bytes());
  }

  /// False where the file ends before.
  bool read_at(std::uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw error("cannot read " + path_.string() + " (" + std::strerror(errno) + ")", "a readable file",
                    "check the path and the disk");
      if (got == 0) return false;
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }

  /// Throws where a block of a tensor that these bytes belong to has another checksum. What is left of the blocks is
  /// read for it.
  void compare(safetensors_tensor const& from, std::uint64_t first, std::span<std::byte const> bytes) const {
    constexpr std::uint64_t block_bytes = detail::block_checksums::block_bytes;
    const auto place = std::lower_bound(tensors_.begin(), tensors_.end(), from, lies_before);
    const auto number = static_cast<std::size_t>(place - tensors_.begin());
    const std::uint64_t end = first + bytes.size();
    std::vector<std::byte> rest;
    for (std::uint64_t block = first / block_bytes; block * block_bytes < end; ++block) {
      const std::uint64_t begins = block * block_bytes;
      const std::uint64_t ends = std::min(begins + block_bytes, from.bytes());
      std::uint32_t sum = 0;
      const auto add = [&](std::uint64_t some, std::uint64_t until) {
        if (some >= until) return;
        rest.resize(static_cast<std::size_t>(until - some));
        if (!read_at(from.begin + some, rest)) broken("shrank while it was read", "a file at rest");
        sum = detail::checksum(rest, sum);
      };
      add(begins, first);
      const std::uint64_t inside = std::max(begins, first);
      sum = detail::checksum(bytes.subspan(static_cast<std::size_t>(inside - first),
                                           static_cast<std::size_t>(std::min(ends, end) - inside)),
                             sum);
      add(end, ends);
      if (sum != sums_.of(number, block))
        throw error("tensor \"" + from.name + "\" in " + path_.string() + " is damaged: its bytes from " +
                        std::to_string(begins) + " to " + std::to_string(ends) +
                        " do not have the checksum that was written with them",
                    "the values that were saved", "remove the file, and take another copy or checkpoint");
    }
  }

  [[noreturn]] void broken(std::string const& how, std::string const& wanted) const {
    throw error(path_.string() + " " + how, wanted, "fetch or save the file again");
  }

  void parse() {
    const off_t end = ::lseek(file_.get(), 0, SEEK_END);
    if (end < 0) broken("has no size", "a regular file");
    const auto size = static_cast<std::uint64_t>(end);
    std::array<std::uint8_t, 8> word{};
    if (size < 8 || !read_at(0, std::as_writable_bytes(std::span(word))))
      broken("is truncated: it holds " + std::to_string(size) + " bytes", "a safetensors file, which has at least 8");
    std::uint64_t header_bytes = 0;
    for (std::size_t i = 8; i-- > 0;) header_bytes = header_bytes << 8 | word[i];
    if (header_bytes > most_header_bytes)
      broken("claims a header of " + std::to_string(header_bytes) + " bytes",
             "a safetensors file, with at most " + std::to_string(most_header_bytes));
    if (header_bytes > size - 8)
      broken("is truncated: it holds " + std::to_string(size) + " bytes",
             "a header of " + std::to_string(header_bytes) + " bytes as its first 8 say");
    std::string text(static_cast<std::size_t>(header_bytes), ' ');
    if (!read_at(8, std::as_writable_bytes(std::span(text)))) broken("shrank while it was read", "a file at rest");
    nlohmann::json header;
    try {
      header = detail::parse_json(text);
    } catch (detail::json_fault const& fault) {
      broken(std::string("has a header that is no JSON object of its format (") + fault.what() + ")",
             "a safetensors file");
    }
    if (!header.is_object()) broken("has a header that is no JSON object", "a safetensors file");

    const std::uint64_t data = 8 + header_bytes;
    for (auto const& [name, value] : header.items())
      if (name == "__metadata__")
        parse_metadata(value);
      else
        tensors_.push_back(parse_tensor(name, value));
    std::sort(tensors_.begin(), tensors_.end(), lies_before);
    std::uint64_t next = 0;
    for (safetensors_tensor& t : tensors_) {
      const std::string named = "tensor \"" + t.name + "\"";
      if (t.begin != next)
        broken("has " + named + " at byte " + std::to_string(t.begin) + " of its data",
               "byte " + std::to_string(next) + ", where the one before it ends");
      if (t.bytes() > size - data - next)
        broken("is truncated inside " + named + ": it holds " + std::to_string(size) + " bytes",
               "at least " + std::to_string(data) + " + " + std::to_string(next) + " + " + std::to_string(t.bytes()));
      next += t.bytes();
      t.begin += data;
    }
    if (next != size - data)
      broken("goes on after its last tensor", std::to_string(data + next) + " bytes, not " + std::to_string(size));
    if (const auto sums = metadata_.find(detail::checksums_name); sums != metadata_.end()) {
      auto parsed = detail::block_checksums::parse(sums->second, detail::bytes_of_each(tensors_));
      if (!parsed) broken("has checksums that are none of its tensors", "eight digits for each block of a tensor");
      sums_ = *std::move(parsed);
      metadata_.erase(sums);
    }
  }

  void parse_metadata(nlohmann::json const& value) {
    if (!value.is_object()) broken("has metadata that are no object", "texts by name");
    for (auto const& [key, text] : value.items()) {
      if (!text.is_string()) broken("has metadata \"" + key + "\" that are no text", "texts by name");
      metadata_[key] = text.get<std::string>();
    }
  }

  /// Its `begin` is counted from the end of the header.
  safetensors_tensor parse_tensor(std::string const& name, nlohmann::json const& value) const {
    const std::string named = "tensor \"" + name + "\"";
    const auto list = [&](char const* key) {
      std::vector<std::uint64_t> numbers;
      const auto found = value.find(key);
      if (found == value.end() || !found->is_array())
        broken("has " + named + " without " + key, "a list of whole numbers");
      for (auto const& number : *found) {
        if (!number.is_number_unsigned() ||
            number.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<index_t>::max()))
          broken("has " + named + " with " + key + " " + detail::short_text(*found), "a list of whole numbers");
        numbers.push_back(number.get<std::uint64_t>());
      }
      return numbers;
    };
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string())
      broken("has " + named + " without dtype", "a name such as F32");
    const auto type_name = value["dtype"].get<std::string>();
    const auto type = safetensors_type_named(type_name);
    if (!type)
      broken("has " + named + " with elements " + type_name.substr(0, 40), "F64, F32, F16, BF16, I64, I32 or U8");
    safetensors_tensor t{name, *type};
    std::uint64_t bytes = bytes_of(*type);
    for (const std::uint64_t extent : list("shape")) {
      if (extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / 2 / extent)
        broken("has " + named + " with more elements than can be counted", "extents whose product fits");
      bytes *= extent;
      t.extents.push_back(static_cast<index_t>(extent));
    }
    const auto offsets = list("data_offsets");
    if (offsets.size() != 2 || offsets[1] < offsets[0] || offsets[1] - offsets[0] != bytes)
      broken("has " + named + " of " + to_string(t.extents) + " " + type_name + " with data_offsets " +
                 detail::short_text(value["data_offsets"]),
             "two offsets " + std::to_string(bytes) + " bytes apart");
    t.begin = offsets[0];
    return t;
  }

  std::filesystem::path path_;
  detail::file_handle file_;
  std::vector<safetensors_tensor> tensors_;
  std::map<std::string, std::string> metadata_;
  detail::block_checksums sums_;
};

/// Writes a safetensors file: the header at once, then the tensors one after the other with `append`, in the order of
/// the list (whose `begin` it ignores). The file is whole, and on the disk, when `finish` returns. Among its metadata
/// are checksums (CRC-32) of each tensor's blocks of 64 KiB, which other readers of the format pass over.
///
/// Throws `error` where two tensors have one name, or the file cannot be written.
class safetensors_writer {
 public:
  safetensors_writer(std::filesystem::path path, std::span<safetensors_tensor const> tensors,
                     std::map<std::string, std::string> const& metadata = {})
      : file_(std::move(path)), sums_(detail::bytes_of_each(tensors)) {
    if (!metadata.empty()) header_["__metadata__"] = metadata;
    if (!sums_.empty()) header_["__metadata__"][detail::checksums_name] = sums_.text();
    for (safetensors_tensor const& t : tensors) {
      if (t.name == "__metadata__" || header_.contains(t.name))
        throw error("two tensors \"" + t.name + "\" for " + file_.path().string(), "a name of its own for each",
                    "rename one of them");
      header_[t.name] = {
          {"dtype", name_of(t.type)}, {"shape", t.extents}, {"data_offsets", {left_, left_ + t.bytes()}}};
      left_ += t.bytes();
    }
    const std::string text = header_text();
    std::array<std::uint8_t, length_bytes> word{};
    for (std::size_t i = 0; i < word.size(); ++i) word[i] = static_cast<std::uint8_t>(text.size() >> 8 * i & 0xFF);
    file_.append(std::as_bytes(std::span(word)));
    file_.append(std::as_bytes(std::span(text)));
  }

  /// The next bytes of the tensors. Throws where there are more of them than the header says.
  void append(std::span<std::byte const> bytes) {
    if (bytes.size() > left_)
      throw error(
          std::to_string(bytes.size() - left_) + " bytes more than the tensors of " + file_.path().string() + " have",
          "the bytes of the list's tensors", "append each tensor once");
    file_.append(bytes);
    sums_.add(bytes);
    left_ -= bytes.size();
  }
  /// Throws where there are fewer.
  void finish() {
    if (left_ != 0)
      throw error(std::to_string(left_) + " bytes fewer than the tensors of " + file_.path().string() + " have",
                  "the bytes of the list's tensors", "append each tensor");
    if (!sums_.empty()) {
      header_["__metadata__"][detail::checksums_name] = sums_.text();
      const std::string text = header_text();  // as long as before
      file_.overwrite(length_bytes, std::as_bytes(std::span(text)));
    }
    file_.finish();
  }

 private:
  static constexpr std::size_t length_bytes = 8;  // before the header, its length

  std::string header_text() const {
    try {
      std::string text = header_.dump();
      text.append((8 - text.size() % 8) % 8, ' ');  // the elements of 8 bytes that come first are aligned
      return text;
    } catch (nlohmann::json::exception const& fault) {
      throw error("names for " + file_.path().string() + " that are no text (" + fault.what() + ")", "UTF-8",
                  "rename the tensors");
    }
  }

  detail::durable_file file_;
  detail::block_checksums sums_;
  nlohmann::ordered_json header_ = nlohmann::ordered_json::object();
  std::uint64_t left_ = 0;
};

}  // namespace tessera
