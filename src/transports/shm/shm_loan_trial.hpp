// SPDX-License-Identifier: Apache-2.0
// Whether messages are better lent than written to slots, found out from these messages.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "transports/shm/shm_read_times.hpp"

namespace coll {

/// There is a trial for each of so many lengths of messages: ShmLoanTrial::length_of.
inline constexpr std::size_t kShmLoanLengths = 3;

/// What a direction's trial tells the other direction's. Written by the sender; a peer may write
/// anything.
class ShmLoanWords {
 public:
  /// Picoseconds per byte of both ends.
  struct Found {
    std::uint64_t lent = 0, unlent = 0;
  };
  /// What the leader says: which trial is on, and what came of it.
  struct Decision {
    std::uint16_t trial = 0;  ///< 0: there was none yet
    std::optional<ShmWay> choice{};
    friend bool operator==(const Decision&, const Decision&) = default;
  };
  void say(std::uint16_t trial, const Found& found) {
    found_.store(std::uint64_t{trial} << 48 | std::min(found.lent, kMost) << 24 |
                     std::min(found.unlent, kMost),
                 std::memory_order_relaxed);
  }
  [[nodiscard]] std::optional<Found> found(std::uint16_t trial) const {
    const std::uint64_t word = found_.load(std::memory_order_relaxed);
    if (word >> 48 != trial) return std::nullopt;
    return Found{word >> 24 & kMost, word & kMost};
  }
  void say(const Decision& decision) {
    const unsigned choice = !decision.choice ? 0 : *decision.choice == ShmWay::lent ? 2 : 1;
    decision_.store(unsigned{decision.trial} << 2 | choice, std::memory_order_relaxed);
  }
  [[nodiscard]] Decision decision() const {
    const std::uint32_t word = decision_.load(std::memory_order_relaxed);
    Decision decision{static_cast<std::uint16_t>(word >> 2)};
    if ((word & 3) != 0) decision.choice = (word & 3) == 2 ? ShmWay::lent : ShmWay::unlent;
    return decision;
  }

 private:
  static constexpr std::uint64_t kMost = 0xff'ffff;
  std::atomic<std::uint64_t> found_;
  std::atomic<std::uint32_t> decision_;
};

/// A message may go through a slot: its sender copies it there, and the receiver copies it on, or
/// combines it from there. Or it is lent: the receiver copies it by a system call, to where it
/// belongs, or to the slot if it is combined. Which takes both ends less time depends on the
/// processor, on the distance of the cores, and on who last wrote the memory (docs/performance.md).
/// The sender sends some of the messages either way, and the receiver says how long each took from
/// when its sender began until it was read: the shortest counts, as one of the two may come late.
///
/// Mostly both ends send such messages, as many and as long. Of their two trials one leads: it says
/// when a trial begins, adds what both have found, and says which way is clearly shorter for both.
/// So they always go the same way. Where one lent and the other did not, one would have nearly all
/// the work, and what each found of its own direction might keep them there. After many bytes both
/// try again.
///
/// If the leader says nothing new while the other end sends many bytes, that end decides alone,
/// until the leader says something.
class ShmLoanTrial {
 public:
  /// From these lengths on messages are of the next kind. How long a copy takes does not grow as a
  /// fetch does.
  static constexpr std::size_t kMiddle = std::size_t{16} << 10, kLong = std::size_t{128} << 10;
  static constexpr std::size_t length_of(std::size_t bytes) {
    return bytes < kMiddle ? 0 : bytes < kLong ? 1 : 2;
  }

  explicit ShmLoanTrial(bool leads = true)
      : leads_(leads),
        phase_(leads ? Phase::settle_slots : Phase::chosen),
        trial_(leads ? 1 : 0),
        number_(trial_),
        again_(leads ? kFirst : kSilenceAtFirst) {}

  /// Whether to lend the next message.
  [[nodiscard]] bool lends() const { return way_ == ShmWay::lent; }
  /// Whether the next message has to say when its sender began to write it.
  [[nodiscard]] bool wants_times() const { return phase_ == Phase::slots; }
  /// What to tell the receiver of the next message.
  [[nodiscard]] ShmTimed timed() const {
    const bool sampled = phase_ == Phase::slots || phase_ == Phase::lent;
    return sampled ? ShmTimed{trial_, static_cast<std::uint16_t>(way_)} : ShmTimed{};
  }

  /// A message of `bytes` has been sent as `lends` said. `here`: what this trial says; `there`: the
  /// other direction's.
  void sent(std::size_t bytes, const ShmReadTimes& read, ShmLoanWords& here,
            const ShmLoanWords& there) {
    ++messages_;
    bytes_ += bytes;
    if (leads_ ? lead(here) : follow(there.decision())) return;
    switch (phase_) {
      case Phase::settle_slots:
        if (messages_ >= samples(bytes)) begin(Phase::slots, ShmWay::unlent);
        break;
      case Phase::slots:
        if (messages_ >= samples(bytes)) begin(Phase::settle_lent, ShmWay::lent);
        break;
      case Phase::settle_lent:
        if (messages_ >= samples(bytes)) begin(Phase::lent, ShmWay::lent);
        break;
      case Phase::lent:
        if (messages_ >= samples(bytes)) begin(Phase::wait, ShmWay::unlent);
        break;
      case Phase::wait:
        if (messages_ % samples(bytes) != 0) break;
        tell(read, samples(bytes), here);
        if (decides()) decide(here, there);
        break;
      case Phase::chosen:
        break;
    }
  }

 private:
  enum class Phase : std::uint8_t { settle_slots, slots, settle_lent, lent, wait, chosen };
  /// How many messages are timed, after as many that bring the lines to where they are in the long
  /// run.
  static constexpr std::size_t samples(std::size_t bytes) { return bytes < kLong ? 8 : 3; }
  /// Waits for the receiver's times for as many messages, and then for the other direction. That
  /// may be silent: because messages go one way, or while it tries how to write slots.
  static constexpr std::size_t kPatience = 1024, kPatienceForOther = 64;
  /// Trials begin so many bytes apart: few at first, because the first messages of a process are
  /// not like later ones, and four times as many each time that a trial confirms the last one.
  static constexpr std::size_t kFirst = std::size_t{32} << 20, kLatest = std::size_t{128} << 20;
  static constexpr std::size_t kTimes = 4;
  /// A leader that says nothing new within so many bytes of the other direction is idle. Once it
  /// has made a choice, it may be silent for half of kSilence.
  static constexpr std::size_t kSilenceAtFirst = std::size_t{16} << 20, kSilence = 2 * kLatest;
  static constexpr std::uint16_t kMostTrials = 0x3fff, kAlone = 0x4000;
  /// What is lent must take as many percent of the time, or less.
  static constexpr std::uint64_t kClearly = 90;

  /// Whether this end decides what it does.
  [[nodiscard]] bool decides() const { return leads_ || alone_; }
  /// Whether a trial has begun.
  bool lead(ShmLoanWords& here) {
    if (phase_ == Phase::settle_slots && messages_ == 1) here.say({.trial = trial_});
    return begin_if_due();
  }
  /// Whether one has begun, or ended.
  bool follow(const ShmLoanWords::Decision& leader) {
    if (leader == heard_) return begin_if_due();
    heard_ = leader;
    trial_ = leader.trial;
    alone_ = false;
    bytes_ = 0;
    again_ = leader.choice ? kSilence : kSilenceAtFirst;
    begin(leader.choice ? Phase::chosen : Phase::settle_slots,
          leader.choice.value_or(ShmWay::unlent));
    return true;
  }
  bool begin_if_due() {
    if (bytes_ < again_ || (decides() && phase_ != Phase::chosen)) return false;
    bytes_ = 0;
    alone_ = !leads_;
    number_ = static_cast<std::uint16_t>(number_ % kMostTrials + 1);
    trial_ = static_cast<std::uint16_t>(number_ | (alone_ ? kAlone : 0));
    begin(Phase::settle_slots, ShmWay::unlent);
    return true;
  }
  /// Says once what is found.
  void tell(const ShmReadTimes& read, std::size_t count, ShmLoanWords& here) {
    if (here.found(trial_)) return;
    const auto reading = [&](ShmWay way) {
      return read.least({trial_, static_cast<std::uint16_t>(way)}, (count + 1) / 2);
    };
    const float unlent = reading(ShmWay::unlent), lent = reading(ShmWay::lent);
    if (std::max(unlent, lent) == std::numeric_limits<float>::infinity()) return;
    const auto ps = [](float ns) { return static_cast<std::uint64_t>(std::lround(ns * 1000)); };
    here.say(trial_, {ps(lent), ps(unlent)});
  }
  void decide(ShmLoanWords& here, const ShmLoanWords& there) {
    const auto mine = here.found(trial_), theirs = there.found(trial_);
    const bool complete = mine && (theirs || alone_);
    if (messages_ < (mine ? kPatienceForOther : kPatience) && !complete) return;
    std::uint64_t lent = 0, unlent = 0;
    for (const auto& found : {mine, theirs}) {
      if (!found) continue;
      lent += found->lent;
      unlent += found->unlent;
    }
    const bool better = mine && 100 * lent < kClearly * unlent;
    const ShmWay choice = better ? ShmWay::lent : ShmWay::unlent;
    if (leads_) here.say({.trial = trial_, .choice = choice});
    again_ = choice == choice_ ? std::min(kTimes * again_, kLatest) : kFirst;
    choice_ = choice;
    begin(Phase::chosen, choice);
  }
  void begin(Phase phase, ShmWay way) {
    phase_ = phase;
    way_ = way;
    messages_ = 0;
  }

  bool leads_;
  Phase phase_;
  ShmWay way_ = ShmWay::unlent;
  bool alone_ = false;    ///< does not lead, but decides
  std::uint16_t trial_;   ///< 1 to kMostTrials, with kAlone if decided alone; 0: there was none yet
  std::uint16_t number_;  ///< of the last trial that this end began
  std::optional<ShmWay> choice_;    ///< the last one of this end
  ShmLoanWords::Decision heard_{};  ///< from the leader
  std::size_t messages_ = 0;        ///< in this phase
  std::size_t bytes_ = 0;           ///< since the trial began, or the leader said something
  std::size_t again_;               ///< at so many of them the next one begins
};

}  // namespace coll
