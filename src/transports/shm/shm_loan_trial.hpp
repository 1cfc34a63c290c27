// SPDX-License-Identifier: Apache-2.0
// Whether messages are better lent than written to slots, found out from these messages.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "transports/shm/shm_slot_trial.hpp"

namespace coll {

/// A message that the receiver combines may go through a slot: its sender copies it there, and the
/// receiver combines it from there. Or it is lent: the receiver copies it to the slot, by a system
/// call, and combines it from there. Which takes both ends less time depends on the processor, on
/// the distance of the cores, and on who last wrote the memory (docs/performance.md). The sender
/// sends some of the messages either way, adds the time that it takes to write them to the time
/// that the receiver takes to read them, and goes on with the shorter one; after many bytes it
/// tries again.
class ShmLoanTrial {
 public:
  /// Whether to lend the next message.
  [[nodiscard]] bool lends() const { return way_ == ShmWay::lent; }
  /// Whether `sent` needs to know how long it took to write the next message.
  [[nodiscard]] bool wants_times() const { return phase_ == Phase::slots; }
  /// What to tell the receiver of the next message.
  [[nodiscard]] ShmTimed timed() const {
    const bool sampled = phase_ == Phase::slots || phase_ == Phase::lent;
    return sampled ? ShmTimed{trial_, static_cast<std::uint16_t>(way_)} : ShmTimed{};
  }

  /// A message of `bytes` has been sent as `lends` said, and if through a slot, written within
  /// `ns`.
  void sent(std::size_t bytes, std::uint64_t ns, const ShmReadTimes& read) {
    ++messages_;
    bytes_ += bytes;
    switch (phase_) {
      case Phase::settle_slots:
        if (messages_ == kSettling) begin(Phase::slots, ShmWay::unlent);
        break;
      case Phase::slots:
        written_[messages_ - 1] = static_cast<float>(ns) / static_cast<float>(bytes);
        if (messages_ == kSamples) begin(Phase::settle_lent, ShmWay::lent);
        break;
      case Phase::settle_lent:
        if (messages_ == kSettling) begin(Phase::lent, ShmWay::lent);
        break;
      case Phase::lent:
        if (messages_ == kSamples) begin(Phase::wait, ShmWay::unlent);
        break;
      case Phase::wait:
        if (messages_ % kSamples == 0) choose(read);
        break;
      case Phase::chosen:
        if (bytes_ < kAgain) break;
        trial_ = static_cast<std::uint16_t>(trial_ % 0xffff + 1);
        begin(Phase::settle_slots, ShmWay::unlent);
        break;
    }
  }

 private:
  enum class Phase : std::uint8_t { settle_slots, slots, settle_lent, lent, wait, chosen };
  /// Others may take the core at any time: the median counts.
  static constexpr std::size_t kSamples = 8;
  /// So many messages bring the lines to where they are in the long run.
  static constexpr std::size_t kSettling = 8;
  /// Waits for the receiver's times for as many messages.
  static constexpr std::size_t kPatience = 1024;
  /// A choice holds for as many bytes.
  static constexpr std::size_t kAgain = std::size_t{64} << 20;
  /// What is lent must take as much less time: its sender's call has to wait until it is read.
  static constexpr float kClearly = 0.85F;

  void choose(const ShmReadTimes& read) {
    const auto reading = [&](ShmWay way) {
      return read.least({trial_, static_cast<std::uint16_t>(way)}, kSamples / 2);
    };
    const float unlent = reading(ShmWay::unlent), lent = reading(ShmWay::lent);
    const bool known = std::max(unlent, lent) < std::numeric_limits<float>::infinity();
    if (!known && messages_ < kPatience) return;
    std::nth_element(written_.begin(), written_.begin() + kSamples / 2, written_.end());
    const bool better = known && lent < kClearly * (written_[kSamples / 2] + unlent);
    begin(Phase::chosen, better ? ShmWay::lent : ShmWay::unlent);
  }
  void begin(Phase phase, ShmWay way) {
    phase_ = phase;
    way_ = way;
    messages_ = bytes_ = 0;
  }

  Phase phase_ = Phase::settle_slots;
  ShmWay way_ = ShmWay::unlent;
  std::uint16_t trial_ = 1;
  std::size_t messages_ = 0, bytes_ = 0;   ///< in this phase
  std::array<float, kSamples> written_{};  ///< nanoseconds per byte
};

}  // namespace coll
