#pragma once

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

/// A text in a file, and texts like it.
namespace scratch_files {

/// A file of this process that is gone when the test ends.
class file {
 public:
  explicit file(std::string const& name)
      : path(std::filesystem::temp_directory_path() /
             ("tessera_" + name + '_' + std::to_string(::getpid()) + ".json")) {
    clear();
  }
  ~file() { clear(); }
  file(file const&) = delete;
  file& operator=(file const&) = delete;

  void clear() const {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  std::string text() const {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(std::string const& text) const { std::ofstream(path, std::ios::binary) << text; }

  const std::filesystem::path path;
};

/// `text` with the first `what` in it, which must be there, replaced.
inline std::string replaced(std::string text, std::string const& what, std::string const& with) {
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

inline bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace scratch_files
