// SPDX-License-Identifier: Apache-2.0
// In which way messages are best written to their slots, found out from these messages.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sys/machine/core_caches.hpp"
#include "transports/shm/shm_read_times.hpp"

namespace coll {

/// Which slots a trial is about. Small ones are a ring, which is longer where messages are spread.
enum class ShmSlotSize : std::uint8_t { small, large };
inline constexpr std::size_t kShmSlotSizes = 2;

/// What a sender knows of a message that it has written.
struct ShmWritten {
  bool streaming = false;  ///< one was written before, and none has come back since
  /// One from the same peer is being read meanwhile, and needs a slot, too. Among more ranks, what
  /// is passed on mostly comes from another peer: it counts as copied.
  bool passed_on = false;
};

/// The sender's side. It writes some messages each way, adds the time that it takes to write them
/// to the time that the receiver takes to read them, and goes on with the way that is clearly the
/// shortest; after many bytes it tries again, because a virtual machine's cores move.
class ShmSlotTrial {
 public:
  /// Begins with this choice, or with a trial, which touches memory. Where ranks share cores, it
  /// begins with a trial, and no other connection begins with what it chooses: some peers are on
  /// the same core, and others are not. Reads how large the caches are, which no call should wait
  /// for.
  explicit ShmSlotTrial(ShmSlotSize size, std::optional<ShmWay> way, double ranks_per_core = 1)
      : size_(size), crowded_(ranks_per_core > 1), spread_bytes_(spread_bytes(ranks_per_core)) {
    if (way && !crowded_) take(*way);
  }
  explicit ShmSlotTrial(ShmSlotSize size) : ShmSlotTrial(size, latest(size)) {}

  /// What a sender of this process chose last, of those whose ranks have cores of their own.
  static std::optional<ShmWay> latest(ShmSlotSize size) {
    const int way = latest_way(size).load(std::memory_order_relaxed);
    return way < 0 ? std::nullopt : std::optional(static_cast<ShmWay>(way));
  }

  /// Over how many bytes to spread: all ranks of a core together, over twice what its own cache
  /// holds.
  static std::size_t spread_bytes(double ranks_per_core = 1) {
    const std::size_t own = std::clamp<std::size_t>(own_core_caches().own, kLeast, kMost);
    return static_cast<std::size_t>(2 * static_cast<double>(own) / std::max(1.0, ranks_per_core));
  }
  [[nodiscard]] std::size_t spreads_over() const { return spread_bytes_; }
  /// Few slots hold up to so much. To spread over less is the same.
  static constexpr std::size_t few_bytes() { return kFew; }
  /// The most that this is on any machine.
  static constexpr std::size_t most_spread_bytes() { return 2 * kMost; }

  /// How to write the next message.
  [[nodiscard]] ShmWay way() const { return way_; }
  /// What to tell the receiver of it.
  [[nodiscard]] ShmTimed timed(bool passed_on = false) const {
    const bool asked = sampled() && has_say(passed_on);
    return asked ? ShmTimed{trial_, static_cast<std::uint16_t>(way_)} : ShmTimed{};
  }
  /// Whether `wrote` needs to know how long the next message took.
  [[nodiscard]] bool wants_times() const {
    return phase_ != Phase::chosen || messages_ % kWatched == 0;
  }
  /// Whether no trial is on, and the memory of the slots is not new.
  [[nodiscard]] bool has_settled() const {
    return phase_ == Phase::chosen && (!is_new_ || way_ != ShmWay::spread);
  }

  /// Whether the first trial has still time: a program's first calls should not wait for the new
  /// memory that it takes. A long stream is many calls. Short messages take less, and where ranks
  /// share cores only streams are spread at first.
  [[nodiscard]] bool may_wait() const {
    return size_ == ShmSlotSize::large && !crowded_ && !choice_ && phase_ == Phase::settle_few &&
           bytes_ < kWait && in_stream_ < kStream;
  }
  /// A message was lent meanwhile.
  void wait(std::size_t message_bytes) {
    if (may_wait()) bytes_ += message_bytes;
  }

  /// A message of `message_bytes` has been written, within `ns` if that was wanted.
  void wrote(std::size_t message_bytes, std::uint64_t ns, const ShmReadTimes& read,
             ShmWritten how = {}) {
    const bool says = has_say(how.passed_on);
    in_a_row_ = how.passed_on ? in_a_row_ + 1 : 0;
    bytes_ += message_bytes;
    if (sampled() && !says) return;
    const bool watched = says && wants_times();
    // Every so many of those that are watched: calls that repeat have a rhythm.
    if (says || phase_ != Phase::chosen) ++messages_;
    switch (phase_) {
      case Phase::chosen:
        if (watched) {
          watch(kind_of(message_bytes, how.streaming),
                static_cast<float>(ns) / static_cast<float>(message_bytes));
        }
        if (way_ == ShmWay::spread && is_new_ && bytes_ >= filling()) {
          is_new_ = false;  // another connection had chosen it
          bytes_ = 0;
        }
        if (bytes_ < due(message_bytes)) break;
        trial_ = static_cast<std::uint16_t>(trial_ % 0xffff + 1);
        begin(Phase::settle_few, ShmWay::few);
        break;
      case Phase::settle_few:
        in_stream_ = how.streaming ? in_stream_ + 1 : 0;
        count_ = samples(message_bytes);
        if (messages_ < settling() || may_wait()) break;
        // Another sender may have chosen meanwhile.
        if (const std::optional<ShmWay> way = latest(size_); !choice_ && way && !crowded_) {
          take(*way);
        } else {
          begin(Phase::few, ShmWay::few);
        }
        break;
      case Phase::few:
        if (add(message_bytes, ns)) begin(Phase::settle_streamed, ShmWay::streamed);
        break;
      case Phase::settle_streamed:
        if (messages_ == settling()) begin(Phase::streamed, ShmWay::streamed);
        break;
      case Phase::streamed:
        if (!add(message_bytes, ns)) break;
        if (tries_spread_ = may_spread(how.streaming); tries_spread_) {
          begin(Phase::fill, ShmWay::spread);
        } else {
          begin(Phase::wait, ShmWay::streamed);
        }
        break;
      case Phase::fill:
        if (says) odd_ = loses(message_bytes, ns, read) ? odd_ + 1 : 0;
        if (bytes_ >= filling() || (bytes_ > spread_bytes_ && odd_ >= kOdd))
          begin(Phase::spread, ShmWay::spread);
        break;
      case Phase::spread:
        is_new_ = false;
        if (add(message_bytes, ns)) begin(Phase::wait, ShmWay::spread);
        break;
      case Phase::wait:
        if (messages_ % count_ == 0) choose(read, kind_of(message_bytes, how.streaming));
        break;
    }
  }

 private:
  enum class Phase : std::uint8_t {
    settle_few,
    few,
    settle_streamed,
    streamed,
    fill,
    spread,
    wait,
    chosen
  };
  /// Others may take the core at any time: the median counts.
  static constexpr std::size_t kSamples = 8, kLongSamples = 3;
  /// Few small slots are a ring. So many messages go round it twice: its pages are there then, and
  /// its lines are where they are in the long run.
  [[nodiscard]] std::size_t settling() const { return size_ == ShmSlotSize::small ? 128 : count_; }
  /// How many messages a trial times each way that begins with such a message. Of long ones fewer,
  /// as each of them takes long, perhaps eight times as long as it will take in the way that is
  /// chosen.
  static constexpr std::size_t samples(std::size_t message_bytes) {
    return message_bytes > kShort ? kLongSamples : kSamples;
  }
  /// To spread messages must take so many times as long as few slots do, or less: it takes memory.
  /// Of ranks that share cores, many connections would take it. A later choice must win by as much.
  [[nodiscard]] float spreads() const {
    return size_ == ShmSlotSize::large && crowded_ ? 0.8F : kClearly;
  }
  /// To go past the caches must take so many times as long as the better of these two, or less.
  /// Where large slots pay past the caches, they take 0.1 to 0.5 times as long; where they do not,
  /// a trial finds 0.8 to 2 (docs/performance.md).
  [[nodiscard]] float streams() const { return size_ == ShmSlotSize::small ? kClearly : 0.8F; }
  static constexpr float kClearly = 0.95F;
  /// Waits for the receiver's times for as many messages.
  static constexpr std::size_t kPatience = 1024;
  /// A choice holds for as many bytes, and for as many times more each time that a trial of
  /// messages of the same kind confirms it, up to a limit. A connection's first one is tried again
  /// sooner: the first messages of a process are not like later ones, and a choice that was
  /// inherited is another connection's. If as many messages in a row, of those that are watched,
  /// take as many times longer or shorter than in the trial, the cores have perhaps moved, and a
  /// choice holds for a part only, and no longer than a new one: messages that are combined as they
  /// are written may take other times, too. The same if as many short ones in a row are of a kind
  /// that no trial was of: what is best for 4 KiB, or for messages that alternate, may not be for a
  /// stream of 16 KiB. Not of long ones: their trials take more time than that gains.
  static constexpr std::size_t kFirst = std::size_t{4} << 20, kSoonest = std::size_t{16} << 20,
                               kLatest = std::size_t{256} << 20;
  static constexpr std::size_t kTimes = 4, kShort = std::size_t{32} << 10;
  /// The first trial waits for so many bytes, but not in a stream of so many messages.
  static constexpr std::size_t kWait = std::size_t{4} << 20, kStream = 16;
  static constexpr std::size_t kWatched = 16, kOdd = 6;
  static constexpr float kOddTimes = 2.5F;
  static constexpr std::size_t kLeast = std::size_t{256} << 10, kMost = std::size_t{2} << 20;
  static constexpr std::size_t kFew = std::size_t{300} << 10;

  /// A ShmWay, or -1.
  static std::atomic<int>& latest_way(ShmSlotSize size) {
    static constinit std::atomic<int> ways[kShmSlotSizes] = {-1, -1};
    return ways[static_cast<std::size_t>(size)];
  }

  /// To spread takes new memory. Where ranks share cores, a collective may use many connections,
  /// but with few messages under way on each: there it pays only for those that are used much.
  [[nodiscard]] bool may_spread(bool streaming) const {
    if (spread_bytes_ <= kFew) return false;
    return !crowded_ || streaming || again_ > kFirst;
  }
  /// What is passed on takes its sender the time to read it, too, and its receiver mostly copies it
  /// where it combines others, or the other way round. So ways are compared by messages that are
  /// only copied to their slots, unless so many in a row were passed on. Else each way would have
  /// its own share of either kind, and the shares would decide.
  static constexpr std::size_t kPassedOn = 256;
  [[nodiscard]] bool has_say(bool passed_on) const { return !passed_on || in_a_row_ >= kPassedOn; }
  [[nodiscard]] bool sampled() const {
    return phase_ == Phase::few || phase_ == Phase::streamed || phase_ == Phase::spread;
  }
  /// So many bytes go before spread messages are timed. The first time round, their pages are new;
  /// twice more, and their lines are where they are in the long run.
  [[nodiscard]] std::size_t filling() const { return (is_new_ ? 3 : 1) * spread_bytes_; }
  /// After so many bytes the choice is tried again.
  [[nodiscard]] std::size_t due(std::size_t message_bytes) const {
    if (is_new_ && way_ == ShmWay::spread) return kLatest;  // it is not settled
    if (odd_ >= kOdd) return std::min(again_ / kTimes, kSoonest);
    return message_bytes > kShort ? std::max(again_, kSoonest) : again_;
  }
  bool add(std::size_t message_bytes, std::uint64_t ns) {
    auto& of_way = samples_[static_cast<std::size_t>(way_)];
    of_way[messages_ - 1] = static_cast<float>(ns) / static_cast<float>(message_bytes);
    return messages_ == count_;
  }
  /// A bit for lengths up to the next power of two, at least 1, streaming or not; 0: long messages.
  static std::uint64_t kind_of(std::size_t message_bytes, bool streaming) {
    if (message_bytes > kShort) return 0;
    return std::uint64_t{1} << (std::bit_width(message_bytes - 1) + (streaming ? 32 : 0));
  }
  void watch(std::uint64_t kind, float ns_per_byte) {
    const bool odd_time =
        ns_per_byte > kOddTimes * expected_ || ns_per_byte * kOddTimes < expected_;
    const bool odd = odd_time || (kind & ~tried_) != 0;
    odd_ = odd && expected_ > 0 ? odd_ + 1 : 0;
  }
  /// Nanoseconds per byte that the sender took.
  float writing(ShmWay way) {
    auto& of_way = samples_[static_cast<std::size_t>(way)];
    const auto median = of_way.begin() + static_cast<std::ptrdiff_t>(count_ / 2);
    std::nth_element(of_way.begin(), median, of_way.begin() + static_cast<std::ptrdiff_t>(count_));
    return *median;
  }
  /// That the receiver took; infinity: not known yet; 0: it passes on what comes.
  [[nodiscard]] float reading(ShmWay way, const ShmReadTimes& read) const {
    return read.least({trial_, static_cast<std::uint16_t>(way)}, (count_ + 1) / 2);
  }
  /// Whether the message, which was spread, took far longer than it would have past the caches.
  bool loses(std::size_t message_bytes, std::uint64_t ns, const ShmReadTimes& read) {
    const float streamed = writing(ShmWay::streamed) + reading(ShmWay::streamed, read);
    return static_cast<float>(ns) > 1.5F * streamed * static_cast<float>(message_bytes);
  }
  void choose(const ShmReadTimes& read, std::uint64_t kind) {
    std::array<float, kShmWays> written{}, both{};
    bool passed_on = false;
    for (std::size_t i = 0; i < kShmWays; ++i) {
      const auto way = static_cast<ShmWay>(i);
      written[i] = both[i] = std::numeric_limits<float>::infinity();
      if (way == ShmWay::spread && !tries_spread_) continue;
      const float ns = reading(way, read);
      if (ns == std::numeric_limits<float>::infinity() && messages_ < kPatience) return;
      passed_on = passed_on || ns == 0;
      written[i] = writing(way);
      both[i] = written[i] + ns;
    }
    // Of one way the receiver may have passed on some, of another one none.
    const auto& counts = passed_on ? written : both;
    const auto of = [&](ShmWay way) { return counts[static_cast<std::size_t>(way)]; };
    auto best = of(ShmWay::spread) < spreads() * of(ShmWay::few) ? ShmWay::spread : ShmWay::few;
    if (of(ShmWay::streamed) < streams() * of(best)) best = ShmWay::streamed;
    if (choice_ && of(best) > kClearly * of(*choice_)) best = *choice_;
    const bool confirmed = best == choice_ && (kind & ~tried_) == 0;
    if (choice_) again_ = confirmed ? std::min(kTimes * again_, kLatest) : kSoonest;
    if (!crowded_) latest_way(size_).store(static_cast<int>(best), std::memory_order_relaxed);
    take(best);
    expected_ = samples_[static_cast<std::size_t>(best)][count_ / 2];
    tried_ |= kind;  // the last message's, mostly that of the whole trial
  }
  void take(ShmWay choice) {
    choice_ = choice;
    begin(Phase::chosen, choice);
  }
  void begin(Phase phase, ShmWay way) {
    phase_ = phase;
    way_ = way;
    messages_ = bytes_ = odd_ = 0;
  }

  ShmSlotSize size_;
  bool crowded_;               ///< ranks share cores
  bool is_new_ = true;         ///< no trial has spread messages yet
  bool tries_spread_ = false;  ///< the trial is also about spreading
  std::size_t spread_bytes_;
  ShmWay way_ = ShmWay::few;
  Phase phase_ = Phase::settle_few;
  std::uint16_t trial_ = 1;
  std::size_t messages_ = 0, bytes_ = 0;  ///< in this phase
  std::size_t count_ = kSamples;          ///< messages that this trial times each way
  std::size_t in_stream_ = 0;             ///< the last messages, as long as no trial was
  std::size_t in_a_row_ = 0;              ///< so many messages up to the last one were passed on
  std::size_t odd_ = 0;                   ///< watched messages in a row that were odd
  std::size_t again_ = kFirst;            ///< bytes
  std::optional<ShmWay> choice_;
  float expected_ = 0;       ///< nanoseconds per byte in the last trial; 0: none yet
  std::uint64_t tried_ = 0;  ///< kinds of messages that trials were of
  std::array<float, kSamples> samples_[kShmWays]{};
};

}  // namespace coll
