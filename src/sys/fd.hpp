// SPDX-License-Identifier: Apache-2.0
// A file descriptor with one owner.
#pragma once
#include <unistd.h>

#include <utility>

namespace coll {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), kept_(other.kept_) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      kept_ = other.kept_;
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  /// What `make()` opens, which is closed in children made by fork; there the object owns nothing
  /// any more. For sockets: while a child has one, its other end does not see that this process is
  /// gone.
  template <class Make>
  static Fd kept_from_children(Make make) {
    const NoFork now;
    Fd fd(make());
    if (fd) fd.keep();
    return fd;
  }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// The descriptor, which the caller closes; not of one that is kept from children.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset() {
    const int old = std::exchange(fd_, -1);
    if (old < 0) return;
    if (kept_ == 0) {
      ::close(old);
    } else {
      close_kept(old, kept_);
    }
  }

 private:
  /// No thread forks while there is one.
  struct NoFork {
    NoFork();
    ~NoFork();
    NoFork(const NoFork&) = delete;
    NoFork& operator=(const NoFork&) = delete;
  };
  void keep();
  static void close_kept(int fd, unsigned generation);

  int fd_ = -1;
  unsigned kept_ = 0;  ///< by which generation of forks from its children; 0: not
};

}  // namespace coll
