// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: operator new that fails where a test says so.
#pragma once
#include <atomic>
#include <cstdlib>
#include <new>

namespace coll::test {

/// Counts the allocations of the whole process while armed; lets one of them fail, or all from one
/// on. The library under test uses the operators of this program.
class FailingAllocations {
 public:
  enum class Mode { one, all_from_there };

  static void arm(long which, Mode mode) {
    mode_.store(mode);
    count_.store(0);
    which_.store(which);
  }
  /// Did any fail?
  static bool disarm() {
    const long which = which_.exchange(0);
    return which != 0 && count_.load() >= which;
  }
  static bool fails() {
    const long which = which_.load(std::memory_order_relaxed);
    if (which == 0) return false;
    const long now = count_.fetch_add(1) + 1;
    return mode_.load() == Mode::one ? now == which : now >= which;
  }

 private:
  static inline std::atomic<long> which_{0}, count_{0};
  static inline std::atomic<Mode> mode_{Mode::one};
};

inline void* allocate(std::size_t bytes, std::size_t alignment) {
  if (FailingAllocations::fails()) throw std::bad_alloc();
  void* memory = alignment == 0 ? std::malloc(bytes == 0 ? 1 : bytes)
                                : std::aligned_alloc(
                                      alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace coll::test

// One program includes this file once, so these are its only definitions. Those for arrays and
// those that do not throw call them.
void* operator new(std::size_t bytes) {
  return coll::test::allocate(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return coll::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
