#pragma once

#include "support/errors.hpp"

#include <tessera/core/error.hpp>

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace data_test {

using bytes = std::vector<std::uint8_t>;

/// A folder of its own for each test case, removed at its end.
class folder {
 public:
  folder()
      : path_(std::filesystem::temp_directory_path() /
              ("tessera-data-" + std::to_string(getpid()) + "-" + std::to_string(count++))) {
    std::filesystem::create_directories(path_);
  }
  folder(folder const&) = delete;
  folder& operator=(folder const&) = delete;
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path const& path() const { return path_; }

  std::filesystem::path write(std::string const& name, bytes const& content) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(reinterpret_cast<char const*>(content.data()), static_cast<std::streamsize>(content.size()));
    REQUIRE(out.good());
    return path_ / name;
  }

  std::filesystem::path write_gzip(std::string const& name, bytes const& content) const {
    const std::string path = (path_ / name).string();
    const gzFile out = gzopen(path.c_str(), "wb");
    REQUIRE(out != nullptr);
    REQUIRE(gzwrite(out, content.data(), static_cast<unsigned>(content.size())) == static_cast<int>(content.size()));
    REQUIRE(gzclose(out) == Z_OK);
    return path;
  }

  bytes read(std::string const& name) const {
    std::ifstream in(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  static inline int count = 0;
  std::filesystem::path path_;
};

/// An IDX file of unsigned bytes.
inline bytes idx(std::initializer_list<std::uint32_t> extents, bytes const& elements) {
  bytes file{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents)
    for (int shift = 24; shift >= 0; shift -= 8) file.push_back(static_cast<std::uint8_t>(extent >> shift & 0xFF));
  file.insert(file.end(), elements.begin(), elements.end());
  return file;
}

using errors::error_of;

}  // namespace data_test
