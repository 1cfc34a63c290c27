// SPDX-License-Identifier: Apache-2.0
// Where receivers want long messages: their senders write them there, if both can.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace coll {

/// A place for one message, in the receiver's arena. The receiver tells of it, and the sender
/// claims it before it writes there. So the receiver can cancel it, and knows whether it has to
/// wait.
struct alignas(32) ShmWanted {
  enum Step : std::uint64_t { ended, told, claimed };

  std::atomic<std::uint64_t> state;  ///< of which message, and a Step
  std::uint64_t offset = 0;          ///< in the receiver's arena
  std::uint64_t bytes = 0;

  static constexpr std::uint64_t word(std::uint64_t sequence, Step step) {
    return sequence << 2 | step;
  }

  // --- the sender's
  [[nodiscard]] bool is_told(std::uint64_t sequence, std::size_t length) const {
    return state.load(std::memory_order_acquire) == word(sequence, told) && bytes == length;
  }
  /// False: it is cancelled.
  bool claim(std::uint64_t sequence) {
    std::uint64_t expected = word(sequence, told);
    return state.compare_exchange_strong(expected, word(sequence, claimed),
                                         std::memory_order_acquire, std::memory_order_relaxed);
  }
  /// All is written, or nothing will be any more.
  void end(std::uint64_t sequence) {
    state.store(word(sequence, ended), std::memory_order_release);
  }

  // --- the receiver's
  /// False: the sender may be writing there.
  bool cancel(std::uint64_t sequence) {
    std::uint64_t expected = word(sequence, told);
    state.compare_exchange_strong(expected, word(sequence, ended), std::memory_order_acq_rel,
                                  std::memory_order_acquire);
    return expected != word(sequence, claimed);
  }
};

/// The places of the messages ahead, in the segment: a ring. Zeroed memory: none is wanted.
struct ShmWantedRing {
  static constexpr std::uint32_t kAhead = 64;

  ShmWanted of[kAhead];

  ShmWanted& at(std::uint64_t sequence) { return of[sequence % kAhead]; }
};

/// What a receiver has told of, for itself: the peer may write to the ring.
class ShmLandings {
 public:
  explicit ShmLandings(ShmWantedRing& ring) : ring_(&ring) {}

  /// Message `sequence`, of `bytes`, is wanted at `into`, which lies at `offset` of the arena.
  void tell(std::uint64_t sequence, std::byte* into, std::uint64_t offset, std::size_t bytes) {
    told_[sequence % told_.size()] = {sequence, into, bytes};
    ShmWanted& wanted = ring_->at(sequence);
    wanted.offset = offset;
    wanted.bytes = bytes;
    wanted.state.store(ShmWanted::word(sequence, ShmWanted::told), std::memory_order_release);
  }
  /// Where the message, of `bytes`, was wanted; null: nowhere.
  [[nodiscard]] std::byte* place_of(std::uint64_t sequence, std::size_t bytes) const {
    const Told& told = told_[sequence % told_.size()];
    return told.sequence == sequence && told.bytes == bytes ? told.into : nullptr;
  }
  /// Ends what was told of messages from `first` on. Was there anything? Calls wait(done), once,
  /// if the peer may be writing.
  template <class Wait>
  bool cancel(std::uint64_t first, Wait wait) {
    bool some = false;
    const auto done = [&] {
      bool all = true;
      for (const Told& told : told_) {
        if (told.into == nullptr || told.sequence < first) continue;
        some = true;
        all = ring_->at(told.sequence).cancel(told.sequence) && all;
      }
      return all;
    };
    if (!done()) wait(done);
    told_ = {};
    return some;
  }

 private:
  struct Told {
    std::uint64_t sequence = 0;
    std::byte* into = nullptr;
    std::size_t bytes = 0;
  };

  ShmWantedRing* ring_;
  std::array<Told, ShmWantedRing::kAhead> told_ = {};
};

}  // namespace coll
