// SPDX-License-Identifier: Apache-2.0
// Asking where memory lies, without a CUDA driver: who asks again takes no lock.
#include "sys/memory/memory_places.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

#include "test_seed.hpp"

// SANITIZED: with a sanitizer, which asks the loader on its own.
#ifndef SANITIZED
namespace {
thread_local int t_loader_asked = 0;
}

/// Takes a lock of the loader's, for which all threads of a process compete.
extern "C" int dl_iterate_phdr(int (*visit)(dl_phdr_info*, std::size_t, void*), void* into) {
  using Iterate = int (*)(int (*)(dl_phdr_info*, std::size_t, void*), void*);
  static const Iterate real = reinterpret_cast<Iterate>(dlsym(RTLD_NEXT, "dl_iterate_phdr"));
  ++t_loader_asked;
  return real(visit, into);
}

namespace coll {
namespace {

/// As many buffers as a thread may use in turn, wherever they lie.
TEST(MemoryPlaces, AskTheLoaderOnlyOnceForEachOfFourBuffers) {
  std::mt19937_64 random(test::test_seed());
  std::uniform_int_distribution<std::uintptr_t> anywhere(1, (1ULL << 47) - 1);
  for (int round = 0; round < 1000; ++round) {
    std::array<const void*, 4> buffers{};
    std::ranges::generate(buffers, [&] { return reinterpret_cast<const void*>(anywhere(random)); });
    const auto ask_for_all = [&buffers] {
      for (const void* buffer : buffers) EXPECT_EQ(place_of_memory(buffer).kind, MemoryKind::host);
    };
    t_loader_asked = 0;
    ask_for_all();
    ASSERT_GT(t_loader_asked, 0);
    t_loader_asked = 0;
    ask_for_all();
    ask_for_all();
    ASSERT_EQ(t_loader_asked, 0) << "round " << round;
  }
}

}  // namespace
}  // namespace coll
#endif
