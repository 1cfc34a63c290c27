// SPDX-License-Identifier: Apache-2.0
// A rank's file for states. It has no name once it is open, so that it is gone when the process is,
// however that ends.
#pragma once
#include <cstddef>
#include <string>

namespace training {

/// O_DIRECT: offsets, sizes and memory are multiples of this.
inline constexpr std::size_t kPage = 4096;

class StateFile {
 public:
  /// A new file of zeros with room for `bytes`. If `direct`, it is read and written past the
  /// system's cache (O_DIRECT); a file system that refuses that is said once, on standard error.
  StateFile(const std::string& folder, std::size_t rank, std::size_t bytes, bool direct);
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;
  ~StateFile();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool direct() const { return direct_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::size_t bytes_;
  bool direct_;
  int fd_ = -1;
};

}  // namespace training
