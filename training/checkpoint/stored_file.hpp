// SPDX-License-Identifier: Apache-2.0
// A file whose errors name it, and whose data are on the disk when it says so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "../memory/failure.hpp"

namespace training {

/// What is stored is not what was written: a file is missing, cut or changed.
class Damaged : public Failure {
 public:
  using Failure::Failure;
};

/// Throws Failure: "cannot <what> <path>: <text of `error`>".
[[noreturn]] void fail_on(const std::string& what, const std::filesystem::path& path, int error);

class StoredFile {
 public:
  static StoredFile create(const std::filesystem::path& path);  ///< empty, to be written
  static StoredFile open(const std::filesystem::path& path);    ///< to be read
  StoredFile(StoredFile&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
  StoredFile& operator=(StoredFile&&) = delete;
  ~StoredFile();

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  [[nodiscard]] std::uint64_t size() const;
  /// Waits until all is on the disk.
  void sync();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  StoredFile(std::filesystem::path path, int flags);
  std::filesystem::path path_;
  int file_;
};

/// The whole file as text.
std::string read_text(const std::filesystem::path& path);
/// Waits until the folder's entries are on the disk.
void sync_folder(const std::filesystem::path& folder);
/// The same as those of std::filesystem, with our errors.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_tree(const std::filesystem::path& path);
void make_folder(const std::filesystem::path& path);  ///< and those that it lies in

}  // namespace training
