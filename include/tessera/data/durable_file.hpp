#pragma once

#include <tessera/core/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace tessera::detail {

/// Called before each change of files below: tests stop a program at every one of them.
inline std::function<void(std::filesystem::path const&)> before_file_step;

inline void file_step(std::filesystem::path const& path) {
  if (before_file_step) before_file_step(path);
}

[[noreturn]] inline void file_fault(std::string const& what, std::filesystem::path const& path, int code) {
  throw error("cannot " + what + " " + path.string() + " (" + std::strerror(code) + ")",
              "a folder that can be written and has room", "check the path, its permissions and the disk");
}

/// An open POSIX file.
class file_handle {
 public:
  explicit file_handle(int descriptor) : descriptor_(descriptor) {}
  file_handle(file_handle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  file_handle& operator=(file_handle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~file_handle() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// A new file, whose contents are on the disk when `finish` returns.
class durable_file {
 public:
  explicit durable_file(std::filesystem::path path) : path_(std::move(path)), file_(create(path_)) {}

  void append(std::span<std::byte const> bytes) {
    put(bytes, [this](auto rest, std::size_t) { return ::write(file_.get(), rest.data(), rest.size()); });
  }
  /// Puts bytes in the place of others, from byte `first` of the file on.
  void overwrite(std::size_t first, std::span<std::byte const> bytes) {
    put(bytes, [this, first](auto rest, std::size_t done) {
      return ::pwrite(file_.get(), rest.data(), rest.size(), static_cast<off_t>(first + done));
    });
  }

  void finish() {
    file_step(path_);
    if (::fsync(file_.get()) != 0) file_fault("write", path_, errno);
  }

  std::filesystem::path const& path() const { return path_; }

 private:
  /// Calls `write(rest, bytes so far)` until all are written.
  template <class Write>
  void put(std::span<std::byte const> bytes, Write write) {
    file_step(path_);
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t done = write(bytes.subspan(at), at);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) file_fault("write", path_, errno);
      at += static_cast<std::size_t>(done);
    }
  }

  static int create(std::filesystem::path const& path) {
    file_step(path);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) file_fault("create", path, errno);
    return descriptor;
  }

  std::filesystem::path path_;
  file_handle file_;
};

/// Puts the entries of a folder on the disk.
inline void sync_folder(std::filesystem::path const& folder) {
  file_step(folder);
  const file_handle handle(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) file_fault("open the folder", folder, errno);
  // Some file systems have no such operation and need none.
  if (::fsync(handle.get()) != 0 && errno != EINVAL) file_fault("write the folder", folder, errno);
}

/// Renames at once and for good: whoever looks sees the old or the new name.
inline void rename_durably(std::filesystem::path const& from, std::filesystem::path const& to) {
  file_step(to);
  std::error_code fault;
  std::filesystem::rename(from, to, fault);
  if (fault) file_fault("rename " + from.string() + " to", to, fault.value());
  sync_folder(to.parent_path());
}

}  // namespace tessera::detail
