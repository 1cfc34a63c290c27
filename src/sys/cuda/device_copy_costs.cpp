// SPDX-License-Identifier: Apache-2.0
// Times copies of a GPU by CUDA's events.
#include "sys/cuda/device_copy_costs.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/cuda/device_memory.hpp"
#include "sys/cuda/pinned_block.hpp"
#include "sys/cuda/primary_context.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

/// Beyond the cache of every GPU (50 MB on an H100, 60 on an H200), and no longer than it takes: to
/// get the memory takes longer than to copy it.
constexpr std::size_t kWithinBytes = std::size_t{64} << 20;
/// Long beside the start of a copy: 80 us at 50 GB/s, while a start takes 2.
constexpr std::size_t kHostBytes = std::size_t{4} << 20;
constexpr std::size_t kShortBytes = 64;
constexpr int kShortCopies = 50;  ///< as many as end a little later than the clock's 0.5 us
constexpr int kCopyRounds = 3;    ///< of which the fastest was disturbed the least

/// A stream that waits for no other, and events before and behind what is timed on it.
class CopyClock {
 public:
  CopyClock(const CudaDriver& driver, CudaContext context) : driver_(driver), context_(context) {}
  CopyClock(const CopyClock&) = delete;
  CopyClock& operator=(const CopyClock&) = delete;
  ~CopyClock() {
    const CurrentContext current(driver_, context_);
    if (current.error() != 0) return;  // the context is gone, and they too
    if (stream_ != nullptr) driver_.stream_synchronize(stream_);
    if (begin_ != nullptr) driver_.event_destroy(begin_);
    if (end_ != nullptr) driver_.event_destroy(end_);
    if (stream_ != nullptr) driver_.stream_destroy(stream_);
  }

  int make() {
    constexpr unsigned kNonBlocking = 1, kTimed = 0;  // CU_STREAM_NON_BLOCKING, CU_EVENT_DEFAULT
    int error = driver_.stream_create(&stream_, kNonBlocking);
    if (error == 0) error = driver_.event_create(&begin_, kTimed);
    if (error == 0) error = driver_.event_create(&end_, kTimed);
    return error;
  }

  /// Microseconds of one of `count` copies, in the best of some rounds; the first is not counted,
  /// since clocks rise and pages are touched. 0: it cannot be told.
  double copy_us(CudaAddress to, CudaAddress from, std::size_t bytes, int count) {
    double best = 0;
    for (int round = -1; round < kCopyRounds; ++round) {
      const double us = round_us(to, from, bytes, count);
      if (us <= 0) return 0;
      if (round >= 0) best = best > 0 ? std::min(best, us) : us;
    }
    return best;
  }

 private:
  double round_us(CudaAddress to, CudaAddress from, std::size_t bytes, int count) {
    int error = driver_.event_record(begin_, stream_);
    for (int i = 0; i < count && error == 0; ++i)
      error = driver_.copy_async(to, from, bytes, stream_);
    if (error == 0) error = driver_.event_record(end_, stream_);
    if (error == 0) error = driver_.event_synchronize(end_);
    float milliseconds = 0;
    if (error == 0) error = driver_.event_elapsed(&milliseconds, begin_, end_);
    return error == 0 ? static_cast<double>(milliseconds) * 1e3 / count : 0;
  }

  const CudaDriver& driver_;
  CudaContext context_;
  CudaStream stream_ = nullptr;
  CudaEvent begin_ = nullptr, end_ = nullptr;
};

Result<DeviceCopyCosts> measured(const CudaDriver& driver, int ordinal) {
  COLL_ASSIGN(const PrimaryContext primary, PrimaryContext::retain(driver, ordinal));
  const CurrentContext current(driver, primary.context);
  if (current.error() != 0) return driver.failed_to("a context", current.error());
  const BesideCaptures beside(driver);
  COLL_ASSIGN(const CudaPiece from, CudaPiece::allocate(primary.context, kWithinBytes));
  COLL_ASSIGN(const CudaPiece to, CudaPiece::allocate(primary.context, kWithinBytes));
  COLL_ASSIGN(const PinnedBlock host, PinnedBlock::allocate(driver, primary.context, kHostBytes));
  CopyClock clock(driver, primary.context);  // ends first, when nothing copies any more
  if (const int error = clock.make()) return driver.failed_to("a stream and events", error);
  const auto rate = [&](CudaAddress there, CudaAddress here, std::size_t bytes) {
    const double us = clock.copy_us(there, here, bytes, 1);
    return us > 0 ? static_cast<double>(bytes) * 1e-3 / us : 0;
  };
  return DeviceCopyCosts{
      .within_gbytes_per_s = rate(to.address(), from.address(), kWithinBytes),
      .to_host_gbytes_per_s = rate(host.address(), from.address(), kHostBytes),
      .from_host_gbytes_per_s = rate(to.address(), host.address(), kHostBytes),
      .start_us = clock.copy_us(to.address(), from.address(), kShortBytes, kShortCopies)};
}

std::string text_of(const DeviceCopyCosts& costs, double ms) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%.1f GB/s within it, %.1f to the host and %.1f from there, each begun in %.2f us; "
                "measured in %.1f ms",
                costs.within_gbytes_per_s, costs.to_host_gbytes_per_s, costs.from_host_gbytes_per_s,
                costs.start_us, ms);
  return text;
}

/// Empty while a thread measures it.
using Known = std::vector<std::pair<int, std::optional<DeviceCopyCosts>>>;  // by CUDA's number

ForkSafeMutex g_known_mutex;  // guards `g_known`
Known* g_known = nullptr;     // stays for good

}  // namespace

DeviceCopyCosts device_copy_costs(int ordinal) {
  const CudaDriver* const driver = loaded_cuda_driver();
  if (driver == nullptr || !driver->missing_for_streams().empty()) return {};
  {
    const std::lock_guard lock(g_known_mutex);
    if (g_known == nullptr) g_known = new Known();
    const auto found = std::ranges::find(*g_known, ordinal, &Known::value_type::first);
    if (found != g_known->end()) return found->second.value_or(DeviceCopyCosts{});
    g_known->emplace_back(ordinal, std::nullopt);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Result<DeviceCopyCosts> now = measured(*driver, ordinal);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  log(LogLevel::info, "copies of CUDA device " + std::to_string(ordinal) +
                          (now.ok() ? ": " + text_of(*now, took.count())
                                    : " are not measured: " + now.status().text()));
  const std::lock_guard lock(g_known_mutex);
  const auto mine = std::ranges::find(*g_known, ordinal, &Known::value_type::first);
  return *(mine->second = now.ok() ? *now : DeviceCopyCosts{});
}

}  // namespace coll
