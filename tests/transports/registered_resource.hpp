// SPDX-License-Identifier: Apache-2.0
// Registered memory for tests.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <memory_resource>
#include <new>

#include "sys/fd.hpp"
#include "sys/memory/peer_segments.hpp"
#include "sys/memory/registered_memory.hpp"
#include "sys/memory/shared_arena.hpp"

namespace coll::test {

/// Each piece is a memfd of its own, registered while it lives.
class RegisteredResource final : public std::pmr::memory_resource {
 public:
  static RegisteredResource* of_process() {
    static RegisteredResource one;
    return &one;
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t /*alignment*/) override {
    const Fd file(::memfd_create("coll-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED || !register_memory(static_cast<const std::byte*>(data), bytes).ok())
      throw std::bad_alloc();
    return data;
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t /*alignment*/) override {
    (void)SharedSegments::remove(static_cast<const std::byte*>(data));  // not in a fork
    ::munmap(data, bytes);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

/// Memory of the process's arena, as `coll_mem_alloc` gives it.
class ArenaResource final : public std::pmr::memory_resource {
 public:
  static ArenaResource* of_process() {
    static ArenaResource one;
    return &one;
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t /*alignment*/) override {
    auto block = SharedArena::own(bytes, ArenaUse::calls);
    if (!block) throw std::bad_alloc();
    return block.release();
  }
  void do_deallocate(void* data, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    const auto arena = SharedArena::of_this_process();
    if (arena.ok()) (void)(*arena)->free(static_cast<std::byte*>(data));  // not in a fork
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

/// May processes of this user open each other's descriptors?
inline bool opens_descriptors() {
  const auto arena = SharedArena::of_this_process();
  if (!arena.ok()) return false;
  const SharedPlace& place = (*arena)->place();
  return PeerSegments(Fd(::dup(static_cast<int>(place.descriptor))), ::getpid(), place).opens();
}

}  // namespace coll::test
