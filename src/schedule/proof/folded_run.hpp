// SPDX-License-Identifier: Apache-2.0
// FoldedRun: runs one group of ranks in place of all, where all groups do the same.
#pragma once
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "schedule/cells.hpp"
#include "schedule/proof/motion.hpp"
#include "schedule/rank_set.hpp"
#include "schedule/schedule_fault.hpp"

namespace coll {

/// The content of a chunk in a folded run: the same chunk of several ranks' inputs, combined. A
/// rank that is in it twice could never be removed again, so that is an error at once.
struct FoldedContent {
  RankSet ranks;  ///< empty: the chunk was never written
  std::uint32_t chunk = 0;
  std::uint32_t pass = 0;
  bool finished = false;

  [[nodiscard]] bool nothing() const { return ranks.ranges().empty(); }
  friend bool operator==(const FoldedContent&, const FoldedContent&) = default;
};

/// The run of symbolic_run.hpp for only the first group of a symmetry; verify_symmetric.hpp says
/// why that is enough. What a rank of the group receives from the group d before it is what the
/// same rank of the first group sent to the group d behind it, moved. So both ends of a FIFO are in
/// the group.
class FoldedRun {
 public:
  /// Parameters as in SymbolicRun. Keeps references to the arguments.
  FoldedRun(std::span<const Schedule> group, const Symmetry& symmetry, PartsOf parts,
            std::uint32_t credits, std::uint32_t passes, bool aliased);

  /// Fails on a deadlock, on a message that nobody receives or that has another length than
  /// expected, on a read of something never written, and if chunks of different length are mixed.
  /// It also fails if two combined values are not unfinished values of one chunk, one pass and
  /// different ranks.
  Status run();

  [[nodiscard]] std::uint32_t passes() const { return passes_; }
  [[nodiscard]] const FoldedContent& output(std::uint32_t pass, Rank rank,
                                            std::uint32_t chunk) const;
  /// The ranks that `rank`, when it ended the pass, knew to have begun it.
  [[nodiscard]] const RankSet& heard(std::uint32_t pass, Rank rank) const {
    return heard_[pass * group_.size() + static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::uint32_t rounds() const { return rounds_; }
  /// For each lane, a hash of everything that it sent in the first pass, in order.
  [[nodiscard]] const std::vector<std::uint64_t>& sent() const { return sent_; }

 private:
  /// What a lane knows besides chunks: its place in chains of messages, and which ranks have begun.
  struct Past {
    std::uint32_t depth = 0;
    RankSet heard;
  };
  struct Message {
    std::vector<FoldedContent> chunks;
    Past past;
  };
  enum class Blocked : std::uint8_t { no, wait, empty, full };
  struct LaneState {
    std::size_t rank = 0, lane = 0;
    std::size_t step = 0;
    std::uint32_t pass = 0;
    Blocked blocked = Blocked::no;
    bool holds = false;  ///< `held` is waiting for a credit
    Message held{};
    Past past{};
  };
  /// A FIFO: from a rank of the first group to a rank some groups behind, on a lane.
  using FifoKey = std::uint64_t;
  using MarkKey = std::tuple<std::size_t, std::size_t, std::uint32_t, std::size_t>;

  [[nodiscard]] FifoKey key(std::size_t from, std::size_t to, Rank groups_on,
                            std::size_t lane) const;
  [[nodiscard]] FifoKey incoming(const LaneState& lane, Rank source) const;
  [[nodiscard]] FifoKey outgoing(const LaneState& lane, Rank target) const;
  Blocked advance(LaneState& lane, Status& status);
  [[nodiscard]] bool may_start(const LaneState& lane, const Step& step) const;
  Status start(LaneState& lane, const Step& step);
  Status compute(const LaneState& lane, const Step& step, std::vector<FoldedContent>* received);
  Status combine(const StepPlace& place, FoldedContent& value, const FoldedContent& with) const;
  Message taken(const LaneState& lane, const Step& step);
  void begin_pass(LaneState& lane);
  [[nodiscard]] Status ended() const;
  [[nodiscard]] FoldedContent* cells_of(std::uint32_t pass, std::size_t rank) {
    return content_.data() + pass * first_cell_.back() + first_cell_[rank];
  }

  std::span<const Schedule> group_;
  Symmetry symmetry_;
  PartsOf parts_;
  Rank all_;
  std::uint32_t credits_, passes_;

  std::vector<Cells> cells_;
  std::vector<std::size_t> first_cell_;  ///< by rank, within a pass; the last entry is the sum
  std::vector<FoldedContent> content_;   ///< [pass][rank][cell]
  std::vector<LaneState> lanes_;
  std::unordered_map<FifoKey, std::deque<Message>> fifos_;
  std::map<MarkKey, Past> marks_;  ///< steps that others wait for, by rank, lane, pass, step
  std::vector<RankSet> heard_;     ///< [pass][rank]
  std::vector<std::uint64_t> sent_;
  std::vector<FoldedContent> value_;  ///< the current step's value
  std::uint32_t rounds_ = 0;
};

}  // namespace coll
