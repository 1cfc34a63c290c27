// SPDX-License-Identifier: Apache-2.0
// One group of ranks run for all, where all groups do the same.
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

/// What a chunk holds in a folded run: the same chunk of the inputs of some ranks, combined. A rank
/// that is in it twice would never come out again, so that is an error at once.
struct FoldedContent {
  RankSet ranks;  ///< empty: nothing was written yet
  std::uint32_t chunk = 0;
  std::uint32_t pass = 0;
  bool finished = false;

  [[nodiscard]] bool nothing() const { return ranks.ranges().empty(); }
  friend bool operator==(const FoldedContent&, const FoldedContent&) = default;
};

/// The run of symbolic_run.hpp for the first group of a symmetry alone (verify_symmetric.hpp says
/// why that is enough). What a rank of it gets from the group d before is what the same rank of the
/// first group sent to the group d behind, moved; so a FIFO has both its ends here.
class FoldedRun {
 public:
  /// As SymbolicRun. References are kept.
  FoldedRun(std::span<const Schedule> group, const Symmetry& symmetry, PartsOf parts,
            std::uint32_t credits, std::uint32_t passes, bool aliased);

  /// Fails on a deadlock, on messages that nobody takes or that have another length than expected,
  /// where something never written is read, where chunks of different length are mixed, and where
  /// two values are combined that are not of one chunk, one pass and different ranks, neither of
  /// them finished.
  Status run();

  [[nodiscard]] std::uint32_t passes() const { return passes_; }
  [[nodiscard]] const FoldedContent& output(std::uint32_t pass, Rank rank,
                                            std::uint32_t chunk) const;
  /// Ranks that had begun the pass before `rank` ended it.
  [[nodiscard]] const RankSet& heard(std::uint32_t pass, Rank rank) const {
    return heard_[pass * group_.size() + static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::uint32_t rounds() const { return rounds_; }
  /// A hash of everything each lane sent in the first pass, in order.
  [[nodiscard]] const std::vector<std::uint64_t>& sent() const { return sent_; }

 private:
  /// What a lane knows besides chunks.
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
    bool holds = false;  ///< `held` waits for a credit
    Message held{};
    Past past{};
  };
  /// From a rank of the first group to one so many groups behind, on a lane.
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
  std::vector<std::size_t> first_cell_;  ///< of a rank, within a pass; the last is the sum
  std::vector<FoldedContent> content_;   ///< [pass][rank][cell]
  std::vector<LaneState> lanes_;
  std::unordered_map<FifoKey, std::deque<Message>> fifos_;
  std::map<MarkKey, Past> marks_;  ///< of steps that others wait for: rank, lane, pass, step
  std::vector<RankSet> heard_;     ///< [pass][rank]
  std::vector<std::uint64_t> sent_;
  std::vector<FoldedContent> value_;  ///< of the step at hand
  std::uint32_t rounds_ = 0;
};

}  // namespace coll
