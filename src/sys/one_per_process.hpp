// SPDX-License-Identifier: Apache-2.0
// What a process has one of, as long as anybody keeps it.
#pragma once
#include <unistd.h>

#include <memory>
#include <mutex>

#include "base/made_once.hpp"
#include "base/status.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {

/// The one `T` of a process. A child made by fork begins without one: its parent's has threads that
/// are not there. For namespace scope only.
template <class T>
class OnePerProcess {
 public:
  /// Null if there is none.
  std::shared_ptr<T> find() {
    const std::lock_guard lock(mutex_);
    return found();
  }

  /// What is there, or else what `make()` returns: a Result of a shared_ptr. No lock is held while
  /// it makes, so two threads may do so at the same time; both get the one that was first.
  template <class Make>
  Result<std::shared_ptr<T>> find_or_make(Make make) {
    if (auto one = find()) return one;
    COLL_ASSIGN(std::shared_ptr<T> made, make());
    const std::lock_guard lock(mutex_);
    if (auto others = found()) return others;  // `made` goes unlocked
    kept() = {made, ::getpid()};
    return made;
  }

 private:
  struct Kept {
    std::weak_ptr<T> one;
    pid_t owner = 0;
  };
  static Kept& kept() {
    return made_once([] { return Kept(); });
  }
  std::shared_ptr<T> found() { return kept().owner == ::getpid() ? kept().one.lock() : nullptr; }

  ForkSafeMutex mutex_;  // guards what is kept
};

}  // namespace coll
