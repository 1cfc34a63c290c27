// SPDX-License-Identifier: Apache-2.0
// SymbolicRun: runs the schedules of all ranks on expressions instead of bytes.
#pragma once
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "schedule/cells.hpp"
#include "schedule/proof/contribution.hpp"
#include "schedule/rank_set.hpp"
#include "schedule/schedule_fault.hpp"
#include "schedule/wiring.hpp"

namespace coll {

/// Runs all lanes until nothing moves.
///
/// One fair run is enough. Lanes are processes of a Kahn network (Kahn 1974: "The semantics of a
/// simple language for parallel programming"): each is sequential, waits for one FIFO at a time,
/// and cannot ask whether a FIFO is empty. So neither the result nor termination depends on timing.
/// Bounded FIFOs fit into the model (a credit is a message in the opposite direction), and so does
/// `wait` (a message from lane to lane), as long as conflicting accesses to chunks are ordered
/// (lane_order.hpp).
///
/// A step first takes its message, which frees a place in the FIFO, and only then waits for a place
/// to send to. An executor that keeps the received message in its slot until it has a credit for
/// the next message needs one credit more. To see this, put each message that a lane of this run
/// holds back at the head of its FIFO: then each state of this run with c credits is a state of
/// that executor with c + 1.
class SymbolicRun {
 public:
  /// Runs `passes` passes one after another in every lane. Each pass has its own elements, and so
  /// its own contributions: whatever the first pass leaves behind in a FIFO shows in the second.
  /// With `aliased`, every rank that can runs in place. Keeps references to the arguments.
  SymbolicRun(std::span<const Schedule> schedules, const Wiring& wiring,
              Contributions& contributions, std::uint32_t credits, std::uint32_t passes,
              bool aliased);

  /// Fails on a deadlock, on a message of an unexpected length, on a read of something never
  /// written, and if chunks of different length are mixed.
  Status run();

  [[nodiscard]] std::uint32_t passes() const { return passes_; }
  [[nodiscard]] Content output(std::uint32_t pass, Rank rank, std::uint32_t chunk) const;
  /// For barriers: a rank that may not have begun when `rank` ended the pass, or kNoRank.
  [[nodiscard]] Rank unheard(std::uint32_t pass, Rank rank) const;
  /// The longest chain of messages in which each was sent after the one before had arrived.
  [[nodiscard]] std::uint32_t rounds() const { return rounds_; }
  /// For each lane, a hash of everything that it sent in the first pass, in order.
  [[nodiscard]] const std::vector<std::uint64_t>& sent() const { return sent_; }

 private:
  /// What a lane knows besides chunks: its place in chains of messages, and which ranks have begun.
  struct Past {
    std::uint32_t depth = 0;
    RankSet heard;
    void join(const Past& other);
  };
  struct Message {
    std::vector<Content> chunks;
    Past past;
    std::uint32_t step = 0;  ///< the writer's step
    std::uint32_t next = Wiring::kNone;
  };
  struct Queue {
    std::uint32_t head = Wiring::kNone, tail = Wiring::kNone;  ///< indices of messages
    std::uint32_t size = 0;
  };
  enum class Blocked : std::uint8_t { no, wait, empty, full };
  struct LaneState {
    std::uint32_t step = 0, pass = 0;
    Blocked blocked = Blocked::no;
    bool listed = false;
    std::uint32_t held = Wiring::kNone;  ///< the message to send, while it waits for a credit
    Past past;
  };

  Blocked advance(std::uint32_t lane, Status& status);
  bool may_start(std::uint32_t lane, const Step& step) const;
  Status start(std::uint32_t lane, const Step& step, std::uint32_t in);
  Status compute(std::uint32_t lane, const Step& step, const std::vector<Content>* received);
  void begin_pass(std::uint32_t lane);
  void push(std::uint32_t fifo, std::uint32_t message);
  std::uint32_t pop(std::uint32_t fifo);
  std::uint32_t fresh_message();
  void wake(std::uint32_t lane);
  [[nodiscard]] Status deadlock() const;
  [[nodiscard]] const Lane& steps_of(std::uint32_t lane) const;
  [[nodiscard]] Content* cells_of(std::uint32_t pass, Rank rank);
  [[nodiscard]] StepPlace place_of(std::uint32_t lane) const;
  /// The key of a step that others wait for.
  [[nodiscard]] std::size_t mark(std::uint32_t lane, std::uint32_t step, std::uint32_t pass) const {
    return (wiring_.lanes[lane].first_step + step) * passes_ + pass;
  }

  std::span<const Schedule> schedules_;
  const Wiring& wiring_;
  Contributions& contributions_;
  std::uint32_t credits_, passes_;
  bool barrier_;

  std::vector<Cells> cells_;
  std::vector<std::size_t> first_cell_;  ///< by rank, within a pass; the last entry is the sum
  std::vector<Content> content_;         ///< [pass][rank][cell]
  std::vector<LaneState> state_;
  std::vector<Queue> queues_;
  std::vector<Message> messages_;
  std::uint32_t free_message_ = Wiring::kNone;
  std::deque<std::uint32_t> ready_;  ///< lanes to try, in this order, which is fair
  std::unordered_map<std::size_t, Past> marks_;
  std::vector<Content> value_;  ///< the current step's value
  std::vector<RankSet> heard_;  ///< [pass][rank]
  std::vector<std::uint64_t> sent_;
  std::uint32_t rounds_ = 0;
};

}  // namespace coll
