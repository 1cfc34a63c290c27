// SPDX-License-Identifier: Apache-2.0
// Operator new that fails where a test says so, and counts bytes.
#pragma once
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

// Clang links the operators of its thread sanitizer into each program, ahead of these.
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define COLL_OPERATORS_OF_THE_SANITIZER
#endif
#endif
/// For the begin of a test.
#ifdef COLL_OPERATORS_OF_THE_SANITIZER
#define NEEDS_FAILING_ALLOCATIONS() GTEST_SKIP() << "the sanitizer has operator new"
#else
#define NEEDS_FAILING_ALLOCATIONS()
#endif

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

  /// Allocated by the whole process and not freed.
  static long bytes() { return bytes_.load(); }
  static void* add(void* memory) {
    bytes_.fetch_add(bytes_of(memory), std::memory_order_relaxed);
    return memory;
  }
  static void remove(void* memory) {
    bytes_.fetch_sub(bytes_of(memory), std::memory_order_relaxed);
  }

 private:
  static long bytes_of(void* memory) { return static_cast<long>(malloc_usable_size(memory)); }

  static inline std::atomic<long> which_{0}, count_{0}, bytes_{0};
  static inline std::atomic<Mode> mode_{Mode::one};
};

/// Null where it fails.
inline void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  if (FailingAllocations::fails()) return nullptr;
  return FailingAllocations::add(
      alignment == 0
          ? std::malloc(bytes == 0 ? 1 : bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
}

inline void give_back(void* memory) noexcept {
  FailingAllocations::remove(memory);
  std::free(memory);
}

inline void* allocate(std::size_t bytes, std::size_t alignment) {
  void* memory = allocate_or_null(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace coll::test

#ifndef COLL_OPERATORS_OF_THE_SANITIZER
// One program includes this file once, so these are its only definitions. All of them: a sanitizer
// has its own of each, and compares which of them gave what another one takes back. Not inlined:
// g++ would see free() called for what operator new gave.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return coll::test::allocate(bytes, 0);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return coll::test::allocate(bytes, 0);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return coll::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return coll::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t& /*unused*/) noexcept {
  return coll::test::allocate_or_null(bytes, 0);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes,
                                       const std::nothrow_t& /*unused*/) noexcept {
  return coll::test::allocate_or_null(bytes, 0);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t /*bytes*/) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/,
                                       std::align_val_t /*alignment*/) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t /*bytes*/,
                                         std::align_val_t /*alignment*/) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t& /*unused*/) noexcept {
  coll::test::give_back(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t& /*unused*/) noexcept {
  coll::test::give_back(memory);
}
#endif
