// SPDX-License-Identifier: Apache-2.0
// Which messages may be lent instead of copied.
#include "executor/lending.hpp"

#include <algorithm>

namespace coll {
namespace {

/// The last step that writes each chunk of the output.
class Writes {
 public:
  Writes(const Schedule& schedule, std::size_t own_lane)
      : lane_(&schedule.lanes[own_lane]),
        own_(schedule.chunks.chunks(Space::output), -1),
        others_(own_.size(), false) {
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
        const Step step = schedule.lanes[lane][index];
        if (step.into.space != Space::output) continue;
        for (std::uint32_t chunk = step.into.chunk; chunk < step.into.chunk + step.count; ++chunk) {
          if (lane == own_lane) {
            own_[chunk] = static_cast<std::ptrdiff_t>(index);
          } else {
            others_[chunk] = true;
          }
        }
      }
    }
  }
  /// Does no step after `index` write a chunk of [first, first + count)? (A step that sends and
  /// writes a chunk leaves it unchanged.) Chunks outside the output are never written.
  [[nodiscard]] bool spare(std::int64_t first, std::uint32_t count, std::size_t index) const {
    const auto size = static_cast<std::int64_t>(own_.size());
    for (std::int64_t at = std::max<std::int64_t>(first, 0); at < std::min(first + count, size);
         ++at) {
      const auto chunk = static_cast<std::size_t>(at);
      if (others_[chunk] || own_[chunk] > static_cast<std::ptrdiff_t>(index)) return false;
    }
    return true;
  }
  /// Before step `index`, is the chunk a result of the reduction, finished here or received whole?
  [[nodiscard]] bool complete(const Operand& chunk, std::size_t index) const {
    if (chunk.space != Space::output) return false;
    const std::ptrdiff_t last = own_[chunk.chunk];
    if (last < 0 || last >= static_cast<std::ptrdiff_t>(index)) return false;
    const Step step = (*lane_)[static_cast<std::size_t>(last)];
    return step.finish || (step.receives() && !step.with.present());
  }

 private:
  const Lane* lane_;
  std::vector<std::ptrdiff_t> own_;
  std::vector<bool> others_;
};

/// Where a lent message is read: at the source of a plain send, else where the step keeps the
/// value.
Operand lent_operand(const Step& step) {
  const bool from_source = !step.receives() && !step.with.present();
  return from_source ? step.from : step.into;
}

BoundStep::When lend_of(const Schedule& schedule, const Writes& writes, std::size_t index,
                        const Step& step) {
  using enum BoundStep::When;
  const Operand lent = lent_operand(step);
  if (!step.sends() || step.count == 0) return never;
  if (lent.space == Space::output) {
    return writes.spare(lent.chunk, step.count, index) ? always : never;
  }
  if (lent.space != Space::input) return never;
  // The input itself is never written, only the output that it is in a call in place.
  const CollectiveSpec& spec = schedule.spec;
  const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
  if (!place.allowed) return always;
  const std::int64_t alias = place.output_chunk(lent.chunk, schedule.chunks.parts);
  return writes.spare(alias, step.count, index) ? always : if_apart;
}

/// Does the receiver only copy the message? In a reduction that is so for results, else for all.
bool is_complete(const Schedule& schedule, const Writes& writes, std::size_t index,
                 const Step& step) {
  if (!reduces(schedule.spec.collective) || step.finish) return true;
  return step.receives() ? !step.with.present() : writes.complete(lent_operand(step), index);
}

}  // namespace

std::vector<std::vector<Loan>> find_loans(const Schedule& schedule) {
  std::vector<std::vector<Loan>> loans;
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    const Writes writes(schedule, lane);
    std::vector<Loan>& of_lane = loans.emplace_back();
    for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
      const Step step = schedule.lanes[lane][index];
      of_lane.push_back(
          {lend_of(schedule, writes, index, step), is_complete(schedule, writes, index, step)});
    }
  }
  return loans;
}

}  // namespace coll
