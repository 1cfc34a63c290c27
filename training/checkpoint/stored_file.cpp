// SPDX-License-Identifier: Apache-2.0
// Files by the calls of POSIX: pread and pwrite until all bytes are moved, fsync.
#include "stored_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace training {
namespace {

/// Damage, if the disk or the folder lacks what was there.
[[noreturn]] void fail_to_read(const std::filesystem::path& path, int error) {
  if (error == ENOENT) throw Damaged(fmt::format("{} is missing", path.string()));
  if (error == EIO) throw Damaged(fmt::format("the disk cannot read {}", path.string()));
  fail_on("read", path, error);
}

void check(const char* what, const std::filesystem::path& path, const std::error_code& error) {
  if (error) fail_on(what, path, error.value());
}

}  // namespace

void fail_on(const std::string& what, const std::filesystem::path& path, int error) {
  throw Failure(fmt::format("cannot {} {}: {} (errno {})", what, path.string(),
                            std::system_category().message(error), error));
}

StoredFile::StoredFile(std::filesystem::path path, int flags)
    : path_(std::move(path)), file_(::open(path_.c_str(), flags | O_CLOEXEC, 0666)) {}

StoredFile StoredFile::create(const std::filesystem::path& path) {
  StoredFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.file_ < 0) fail_on("create", path, errno);
  return file;
}

StoredFile StoredFile::open(const std::filesystem::path& path) {
  StoredFile file(path, O_RDONLY);
  if (file.file_ < 0) fail_to_read(path, errno);
  return file;
}

StoredFile::~StoredFile() {
  if (file_ >= 0) ::close(file_);  // Written data were synced: an error has nothing to add.
}

void StoredFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_on("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void StoredFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to_read(path_, errno);
    if (n == 0) throw Damaged(fmt::format("{} ends early, at byte {}", path_.string(), offset));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

std::uint64_t StoredFile::size() const {
  struct stat status {};
  if (::fstat(file_, &status) != 0) fail_to_read(path_, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void StoredFile::sync() {
  if (::fsync(file_) != 0) fail_on("write", path_, errno);
}

std::string read_text(const std::filesystem::path& path) {
  const StoredFile file = StoredFile::open(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void sync_folder(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail_on("open", folder, errno);
  const int error = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (error != 0) fail_on("write", folder, error);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  check("rename", from, error);
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  check("remove", path, error);
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  check("make the folder", path, error);
}

}  // namespace training
