// SPDX-License-Identifier: Apache-2.0
// How long messages take: a sender asks for it, and its receiver says it.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sys/clock.hpp"

namespace coll {

/// A sender writes to memory that the receiver has read, so the lines lie in the other core's
/// cache. What that costs differs between processors, and with the distance of the two cores, up to
/// eight times (docs/performance.md):
enum class ShmWay : std::uint8_t {
  few,       ///< into few slots, which stay in the caches
  spread,    ///< over as much memory as leaves both cores' own caches before it is written again
  streamed,  ///< into few slots, past the caches
  // Of messages that may also be lent (shm_loan_trial.hpp):
  unlent,  ///< into slots, in whichever of the ways above is chosen
  lent,    ///< not at all: the receiver fetches it
};
inline constexpr auto kShmWays = static_cast<std::size_t>(ShmWay::unlent);  ///< to write a message
/// That receivers time.
inline constexpr auto kShmTimedWays = static_cast<std::size_t>(ShmWay::lent) + 1;

/// Asks the receiver to time the reading of a message. `trial` 0: does not.
struct ShmTimed {
  std::uint16_t trial = 0;
  std::uint16_t way = 0;  ///< a ShmWay
  // Of a message that goes either way: when its sender began, nanoseconds, the last 32 bits, and
  // how long it took to write.
  std::uint32_t begun = 0, took = 0;
};

/// The shortest times of a trial's messages, by way. Written by the receiver.
class ShmReadTimes {
 public:
  void add(ShmTimed timed, std::size_t bytes, std::uint64_t ns) {
    if (timed.way >= kShmTimedWays || bytes == 0) return;  // a peer may write anything
    std::atomic<std::uint64_t>& entry = entries_[timed.way];
    const std::uint64_t before = entry.load(std::memory_order_relaxed);
    const bool same = before >> 48 == timed.trial;
    const std::uint64_t count =
        same ? std::min<std::uint64_t>((before >> 32 & 0xffff) + 1, 0xffff) : 1;
    const std::uint64_t shortest = same ? before & 0xffff'ffff : 0xffff'ffff;
    const std::uint64_t ps_per_byte = std::min<std::uint64_t>(ns * 1000 / bytes, 0xffff'ffff);
    entry.store(std::uint64_t{timed.trial} << 48 | count << 32 | std::min(shortest, ps_per_byte),
                std::memory_order_relaxed);
  }
  /// Nanoseconds per byte, if so many messages of the trial have been read; else infinity.
  [[nodiscard]] float least(ShmTimed timed, std::size_t messages) const {
    const std::uint64_t entry = entries_[timed.way].load(std::memory_order_relaxed);
    if (entry >> 48 != timed.trial || (entry >> 32 & 0xffff) < messages)
      return std::numeric_limits<float>::infinity();
    return static_cast<float>(entry & 0xffff'ffff) / 1000;
  }

 private:
  std::atomic<std::uint64_t> entries_[kShmTimedWays];
};

/// The receiver's side.
class ShmReadTimer {
 public:
  /// The later one of two times before `now`, of the last 4.3 s each.
  static constexpr std::uint32_t later(std::uint32_t now, std::uint32_t one, std::uint32_t other) {
    return now - one < now - other ? one : other;
  }
  /// A message has been found that says `timed`, and is about to be read.
  [[gnu::always_inline]] void found(const ShmTimed& timed) {
    timed_.trial = timed.trial;
    if (timed.trial != 0) [[unlikely]]
      begin(timed);
  }
  /// Whether that message wants to be timed.
  [[nodiscard]] bool is_on() const { return timed_.trial != 0; }
  /// Whether it may be lent, or go through a slot.
  [[nodiscard]] bool either_way() const {
    return timed_.way >= static_cast<std::uint16_t>(ShmWay::unlent);
  }
  /// It has been read, and perhaps `passed_on`: another one was written from it meanwhile. That
  /// took as long as it takes in the way which the other direction is using, or trying. So the
  /// message counts as read in no time.
  void read(std::size_t bytes, ShmReadTimes& times, bool passed_on = false) {
    const auto now = static_cast<std::uint32_t>(now_ns());
    const bool counts = either_way() || !passed_on;
    times.add(timed_, bytes, counts ? std::max(now - begun_, timed_.took) : 0);
    timed_.trial = 0;
    ended_ = now;
  }

 private:
  /// If messages go either way, a slot's writer does not see when its stores reach the other core,
  /// so the time since it began counts. In a stream that is not how long a message waits for those
  /// before it, but how soon one follows the other.
  [[gnu::noinline]] void begin(const ShmTimed& timed) {
    timed_ = timed;
    begun_ = static_cast<std::uint32_t>(now_ns());
    if (either_way()) begun_ = later(begun_, ended_.value_or(timed_.begun), timed_.begun);
  }

  ShmTimed timed_;
  std::uint32_t begun_ = 0;             ///< nanoseconds; may wrap
  std::optional<std::uint32_t> ended_;  ///< the same of the last message that was timed
};

}  // namespace coll
