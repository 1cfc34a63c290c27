// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: a file descriptor with one owner.
#pragma once
#include <unistd.h>

#include <utility>

namespace coll {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    // Forgotten first: a child forked meanwhile must not take a number given anew for this one.
    if (const int old = release(); old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace coll
