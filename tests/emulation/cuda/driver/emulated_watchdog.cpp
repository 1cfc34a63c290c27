// SPDX-License-Identifier: Apache-2.0
// The watchdog: a deadlock of streams reports itself and ends the process.
#include "emulation/cuda/driver/emulated_watchdog.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "emulation/cuda/driver/emulated_machine.hpp"

namespace emucuda {
namespace {

using Clock = std::chrono::steady_clock;

const char* name_of(unsigned flags) {
  constexpr const char* kNames[] = {"at least", "exactly", "a common bit with",
                                    "a common zero bit with"};
  return kNames[flags % 4];
}

/// What the word has now. A look from aside: the thread sanitizer would miss an order between it
/// and the word's writers.
__attribute__((no_sanitize("thread"))) std::uint64_t look(const void* word, bool wide) {
  return wide ? *static_cast<const volatile std::uint64_t*>(word)
              : *static_cast<const volatile std::uint32_t*>(word);
}

const char* function_name(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_sname != nullptr ? info.dli_sname : "?";
}

/// Reads counters only, and tells nobody anything: it orders no two threads.
void watch() {
  const auto limit = std::chrono::duration<double>(machine().watchdog_s);
  const auto pause = static_cast<unsigned>(std::clamp(machine().watchdog_s / 10, 0.005, 1.0) * 1e6);
  std::uint64_t before = 0;
  Clock::time_point moved = Clock::now();
  for (;; usleep(pause)) {
    std::uint64_t sum = 0;
    bool any = false;
    const auto streams = all_streams();
    for (const auto& stream : streams) {
      sum += stream->completed();
      any = any || stream->busy();
    }
    if (sum != before || !any) {
      before = sum;
      moved = Clock::now();
      continue;
    }
    if (Clock::now() - moved < limit) continue;
    std::fprintf(stderr,
                 "emulated CUDA, process %d: no stream has moved for %g s (EMUCUDA_WATCHDOG_S)\n",
                 getpid(), machine().watchdog_s);
    for (const auto& stream : streams) stream->describe();
    std::abort();
  }
}

}  // namespace

void start_watchdog() {
  static std::once_flag started;
  std::call_once(started, [] { std::thread(watch).detach(); });
}

void describe_operation(const void* stream, int device, std::uint64_t completed,
                        std::uint64_t submitted, Doing doing, const void* about,
                        std::uint64_t value, unsigned flags) {
  if (completed == UINT64_MAX) return;  // it has ended
  std::fprintf(stderr, "  stream %p of device %d, %llu of %llu operations done: ", stream, device,
               static_cast<unsigned long long>(completed),
               static_cast<unsigned long long>(submitted));
  const auto number = static_cast<unsigned long long>(value);
  switch (doing) {
    case Doing::nothing:
      std::fprintf(stderr, "idle\n");
      break;
    case Doing::copy:
      std::fprintf(stderr, "copies %llu bytes to %p\n", number, about);
      break;
    case Doing::set:
      std::fprintf(stderr, "sets %llu bytes at %p\n", number, about);
      break;
    case Doing::write:
      std::fprintf(stderr, "writes %llu to the word at %p\n", number, about);
      break;
    case Doing::wait_word_32:
    case Doing::wait_word_64:
      std::fprintf(stderr, "waits for %s %llu in the word at %p, which has %llu\n", name_of(flags),
                   number, about,
                   static_cast<unsigned long long>(look(about, doing == Doing::wait_word_64)));
      break;
    case Doing::wait_event:
      std::fprintf(stderr, "waits for an event (recording %p)\n", about);
      break;
    case Doing::host_function:
      std::fprintf(stderr, "runs the host function %s (%p)\n", function_name(about), about);
      break;
    case Doing::kernel:
      std::fprintf(stderr, "runs the kernel %s\n", function_name(about));
      break;
  }
}

}  // namespace emucuda
