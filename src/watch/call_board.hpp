// SPDX-License-Identifier: Apache-2.0
// Which call a rank is in, readable by other threads.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace coll {

/// What a call has beside what all calls of its operation have.
enum class CallForm : std::uint8_t {
  usual,
  unequal,  ///< blocks of different lengths: all_gatherv…
  tagged,   ///< a send or recv that finds its other end by a tag
  parts,    ///< of many parts, which travel as one
};
inline constexpr int kCallForms = 4;

/// One user call, as a value: what errors and reports name, and what the digest is made of.
struct Call {
  /// 1 for the communicator's first operation; 0: none yet. Collectives, which all ranks call, must
  /// have the same number on all ranks: sends and receives are counted apart.
  std::uint64_t sequence = 0;
  Collective collective = Collective::barrier;
  DataType type = DataType::int8;
  ReduceOp op = ReduceOp::sum;
  CallForm form = CallForm::usual;
  Rank root = kNoRank;  ///< root or peer, where there is one; a tagged recv may be from any
  /// Elements, as the user gave them; with unequal blocks, of this rank's larger buffer.
  std::uint64_t count = 0;

  /// All but sequence and count as one word, which takes one load.
  [[nodiscard]] std::uint64_t what() const {
    std::uint64_t word;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(this) + kWhat, sizeof word);
    return word;
  }
  void set_what(std::uint64_t word) {
    std::memcpy(reinterpret_cast<std::byte*>(this) + kWhat, &word, sizeof word);
  }

  friend bool operator==(const Call& a, const Call& b) {
    return a.what() == b.what() && a.count == b.count && a.sequence == b.sequence;
  }
  /// "all_reduce #41 f32x4096 sum", "broadcast #42 int8x16 root 3", "send #2 f32x1 peer 5",
  /// "recv_tagged #1 f32x1 any peer"
  [[nodiscard]] std::string text() const;
  /// "all_reduce", "all_gatherv", "recv_tagged", "all_reduce of parts"
  [[nodiscard]] std::string name() const;
  /// For failures.
  [[nodiscard]] CallLabel label() const { return {text(), sequence, collective}; }
  [[nodiscard]] constexpr bool unequal() const { return form == CallForm::unequal; }
  [[nodiscard]] constexpr bool tagged() const { return form == CallForm::tagged; }
  [[nodiscard]] constexpr bool has_parts() const { return form == CallForm::parts; }
  /// Does it concern two ranks only?
  [[nodiscard]] constexpr bool is_pair() const {
    return collective == Collective::send || collective == Collective::recv;
  }
  /// Is the count this rank's own, and another on other ranks? So it is where no rank knows the
  /// lengths of all blocks.
  [[nodiscard]] constexpr bool has_own_count() const {
    return unequal() && (collective == Collective::all_to_all || collective == Collective::gather ||
                         collective == Collective::scatter);
  }
  /// Is it the rank's send to itself, or the recv of that, without a tag?
  [[nodiscard]] constexpr bool is_with_itself(Rank rank) const {
    return is_pair() && root == rank && !tagged();
  }

 private:
  static constexpr std::size_t kWhat = sizeof sequence;
};
static_assert(sizeof(Call) == 3 * sizeof(std::uint64_t), "what() has no padding in it");

/// Where a rank notes the calls that it is in, and its watch thread reads them. Writing costs a few
/// plain stores on the call path, no clock. A reader that meets a write in progress tries again (a
/// seqlock per entry). One thread at a time writes. The last calls are kept, so that a rank that
/// has gone on can still say what its call #41 was.
class CallBoard {
 public:
  struct Reading {
    Call call;            ///< the oldest that it is in, or else the last one; sequence 0: none yet
    bool inside = false;  ///< it is in `call` now
    std::uint32_t others = 0;       ///< calls that it is in beside `call`
    std::uint64_t entered = 0;      ///< how many calls have been entered: tells two readings apart
    std::uint64_t collectives = 0;  ///< the number of the last collective (no send or receive)
    friend bool operator==(const Reading&, const Reading&) = default;
  };
  /// The board shows at most this many calls that the rank is in.
  static constexpr std::size_t kKept = 16;

  /// Notes that the rank is in the call; returns its place for `leave`. 0: the board is full of
  /// calls that the rank is in, and this one is not noted.
  std::uint64_t enter(const Call& call);
  void leave(std::uint64_t place);
  /// For calls that may be many and last long: they should not keep others off the board.
  [[nodiscard]] bool half_full() const;
  [[nodiscard]] Reading read() const;
  /// All calls that the rank is in, oldest first.
  [[nodiscard]] std::vector<Call> open_calls() const;
  /// This rank's counterpart of what `asker` calls `asked`, among the last calls: the collective
  /// of that number, or the send or receive of that number with `asker`. Tagged ones have none: the
  /// two ends number them differently until they meet.
  [[nodiscard]] std::optional<Call> counterpart(const Call& asked, Rank asker) const;

 private:
  /// `version` is odd while the entry is written, 2 x (number of the call) when it stands.
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint64_t> sequence{0}, what{0}, count{0};  ///< the call's
  };
  struct Noted {
    std::uint64_t number = 0;
    Call call;
  };
  [[nodiscard]] std::optional<Noted> read_entry(std::size_t slot) const;

  std::array<Entry, kKept> entries_;
  /// Calls entered, above a bit for each entry that the rank is in.
  alignas(64) std::atomic<std::uint64_t> state_{0};
  std::atomic<std::uint64_t> collectives_{0};
};

}  // namespace coll
