#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/shape.hpp>
#include <tessera/data/durable_file.hpp>
#include <tessera/data/json_text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// A safetensors file that is open for reading (the format of Hugging Face: the length of the header in 8 bytes, little
/// endian; a JSON header that gives each tensor's type, extents and place; then the elements without gaps).
///
/// The constructor throws `error` where the file cannot be read, its header is none, or the tensors do not fill the
/// rest of the file exactly, and names the tensor at fault where there is one.
class safetensors_file {
 public:
  explicit safetensors_file(std::filesystem::path path) : path_(std::move(path)), file_(open(path_)) { parse(); }

  std::filesystem::path const& path() const { return path_; }
  /// In the order in which they lie in the file.
  std::vector<safetensors_tensor> const& tensors() const { return tensors_; }
  /// Texts that the writer added.
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
  }
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
    std::sort(tensors_.begin(), tensors_.end(), [](safetensors_tensor const& a, safetensors_tensor const& b) {
      return std::pair(a.begin, a.bytes()) < std::pair(b.begin, b.bytes());
    });
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
};

/// Writes a safetensors file: the header at once, then the tensors one after the other with `append`, in the order of
/// the list (whose `begin` it ignores). The file is whole, and on the disk, when `finish` returns.
///
/// Throws `error` where two tensors have one name, or the file cannot be written.
class safetensors_writer {
 public:
  safetensors_writer(std::filesystem::path path, std::span<safetensors_tensor const> tensors,
                     std::map<std::string, std::string> const& metadata = {})
      : file_(std::move(path)) {
    auto header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    for (safetensors_tensor const& t : tensors) {
      if (t.name == "__metadata__" || header.contains(t.name))
        throw error("two tensors \"" + t.name + "\" for " + file_.path().string(), "a name of its own for each",
                    "rename one of them");
      header[t.name] = {{"dtype", name_of(t.type)}, {"shape", t.extents}, {"data_offsets", {left_, left_ + t.bytes()}}};
      left_ += t.bytes();
    }
    std::string text = text_of(header);
    text.append((8 - text.size() % 8) % 8, ' ');  // the elements of 8 bytes that come first are aligned
    std::array<std::uint8_t, 8> word{};
    for (std::size_t i = 0; i < 8; ++i) word[i] = static_cast<std::uint8_t>(text.size() >> 8 * i & 0xFF);
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
    left_ -= bytes.size();
  }
  /// Throws where there are fewer.
  void finish() {
    if (left_ != 0)
      throw error(std::to_string(left_) + " bytes fewer than the tensors of " + file_.path().string() + " have",
                  "the bytes of the list's tensors", "append each tensor");
    file_.finish();
  }

 private:
  std::string text_of(nlohmann::ordered_json const& header) const {
    try {
      return header.dump();
    } catch (nlohmann::json::exception const& fault) {
      throw error("names for " + file_.path().string() + " that are no text (" + fault.what() + ")", "UTF-8",
                  "rename the tensors");
    }
  }

  detail::durable_file file_;
  std::uint64_t left_ = 0;
};

}  // namespace tessera
