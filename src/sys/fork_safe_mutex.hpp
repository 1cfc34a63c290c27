// SPDX-License-Identifier: Apache-2.0
// A mutex that is free in a child made by fork.
#pragma once
#include <mutex>

namespace coll {

/// A fork waits until no thread holds it, so a child finds it free and what it guards whole. For
/// namespace scope only, and for short work: never wait for anything, nor take a second one, while
/// holding it.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  ~ForkSafeMutex() = default;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void before_fork();
  static void after_fork();

  std::mutex mutex_;
  ForkSafeMutex* next_;
};

}  // namespace coll
