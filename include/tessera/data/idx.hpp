#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/shape.hpp>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// The contents of an IDX file of unsigned bytes, last dimension fastest.
struct idx_file {
  std::vector<index_t> extents;
  std::vector<std::uint8_t> bytes;
};

namespace detail {

/// Reads a file as it is, or decompresses it where its content is gzip; zlib tells them apart.
class gzip_reader {
 public:
  explicit gzip_reader(std::filesystem::path const& path)
      : name_(path.string()), file_(gzopen(name_.c_str(), "rb"), &gzclose) {
    if (!file_)
      throw error("cannot open " + name_ + " (" + std::strerror(errno) + ")", "an IDX file, gzipped or not",
                  "check the path and its permissions");
    gzbuffer(file_.get(), 1u << 17);
  }

  /// Fills `to` as far as the file goes; returns the number of bytes.
  std::size_t read(std::span<std::uint8_t> to) {
    std::size_t done = 0;
    while (done < to.size()) {
      const auto piece = static_cast<unsigned>(std::min<std::size_t>(to.size() - done, 1u << 24));
      const int got = gzread(file_.get(), to.data() + done, piece);
      if (got > 0) done += static_cast<std::size_t>(got);
      if (got < static_cast<int>(piece)) {
        check();
        break;
      }
    }
    return done;
  }

 private:
  void check() {
    int code = Z_OK;
    const std::string text = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return;
    if (code == Z_BUF_ERROR)
      throw error(name_ + " ends in the middle of its gzip stream", "a complete gzip file", "fetch the file again");
    if (code == Z_ERRNO)
      throw error("cannot read " + name_ + " (" + std::strerror(errno) + ")", "a readable file",
                  "check the path and its permissions");
    throw error(name_ + " is corrupt (" + text + ")", "an intact gzip stream", "fetch the file again");
  }

  std::string name_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace detail

/// Reads an IDX file of unsigned bytes with 1 to `max_rank` dimensions, gzipped or not (told by content, not by name).
///
/// The format is that of the MNIST database (Y. LeCun, C. Cortes and C. Burges): two zero bytes, the element type,
/// the number of dimensions, each extent as a big-endian 32-bit number, then the elements. Throws `error` where the
/// file is missing, truncated, corrupt, of another format or element type, or longer than its header says.
inline idx_file read_idx(std::filesystem::path const& path) {
  const std::string name = path.string();
  detail::gzip_reader reader(path);

  std::array<std::uint8_t, 4> magic{};
  const std::size_t start = reader.read(magic);
  if (start < magic.size())
    throw error(name + " is truncated: it holds " + std::to_string(start) + " bytes", "an IDX header of at least 8",
                "fetch the file again");
  if (magic[0] != 0 || magic[1] != 0)
    throw error(name + " starts with the bytes " + std::to_string(magic[0]) + ", " + std::to_string(magic[1]),
                "an IDX file, which starts with 0, 0", "give a file of the MNIST format");
  if (magic[2] != 8)
    throw error(name + " holds elements of IDX type " + std::to_string(magic[2]), "type 8 (unsigned bytes)",
                "convert the file to unsigned bytes");
  const int rank = magic[3];
  if (rank < 1 || rank > max_rank)
    throw error(name + " has " + std::to_string(rank) + " dimensions", "1 to " + std::to_string(max_rank),
                "give a file of images or labels");

  idx_file file;
  index_t size = 1;
  for (int d = 0; d < rank; ++d) {
    std::array<std::uint8_t, 4> word{};
    if (reader.read(word) < word.size())
      throw error(name + " is truncated inside its header", std::to_string(rank) + " extents of 4 bytes each",
                  "fetch the file again");
    const index_t extent = index_t{word[0]} << 24 | index_t{word[1]} << 16 | index_t{word[2]} << 8 | index_t{word[3]};
    file.extents.push_back(extent);
    if (extent != 0 && size > std::numeric_limits<index_t>::max() / extent)
      throw error(name + " claims more elements than 63 bits can count", "extents whose product fits",
                  "the header is damaged: fetch the file again");
    size *= extent;
  }

  // Memory grows with what is really there, so that a damaged header cannot ask for all of it.
  const auto wanted = static_cast<std::size_t>(size);
  std::size_t done = 0;
  while (done < wanted) {
    const std::size_t piece = std::min(wanted - done, std::max<std::size_t>(done, std::size_t{1} << 20));
    file.bytes.resize(done + piece);
    const std::size_t got = reader.read(std::span(file.bytes).subspan(done));
    done += got;
    if (got < piece)
      throw error(name + " is truncated: it holds " + std::to_string(done) + " elements",
                  std::to_string(wanted) + " as its header says", "fetch the file again");
  }
  // Reading on to the end also verifies the checksum of a gzip stream.
  std::array<std::uint8_t, 1> beyond{};
  if (reader.read(beyond) != 0)
    throw error(name + " goes on after its last element",
                "no bytes after the " + std::to_string(wanted) + " elements of its header", "fetch the file again");
  return file;
}

}  // namespace tessera
