// SPDX-License-Identifier: Apache-2.0
// The parts of the proof by symmetry, put together.
#include "schedule/proof/verify_symmetric.hpp"

#include <string>
#include <vector>

#include "schedule/proof/folded_run.hpp"
#include "schedule/proof/lane_order.hpp"
#include "schedule/proof/postcondition.hpp"
#include "schedule/schedule_fault.hpp"
#include "schedule/step_rules.hpp"

namespace coll {
namespace {

Status check_symmetry(const CollectiveSpec& spec, const Symmetry& symmetry) {
  if (spec.order != SumOrder::any) {
    return failed(Code::unsupported, "a proof by symmetry does not follow the order of sums",
                  "verify() does");
  }
  if (spec.ranks > 0 && symmetry.fits(spec.ranks) && !has_root(spec.collective)) return {};
  return failed(Code::invalid_argument,
                "a " + std::string(name_of(spec.collective)) + " of " + std::to_string(spec.ranks) +
                    " ranks has no symmetry of groups of " + std::to_string(symmetry.size));
}

/// How parts belong to groups: whichever makes the second group an image of the first.
PartsOf parts_of(const std::vector<Schedule>& group, const Symmetry& symmetry,
                 const Schedule& next) {
  for (const PartsOf parts : {PartsOf::stride, PartsOf::mirrored}) {
    if (check_moved(group[0], symmetry, parts, symmetry.size, next).ok()) return parts;
  }
  return PartsOf::stretch;
}

struct FirstGroup {
  std::vector<Schedule> schedules;
  PartsOf parts = PartsOf::stretch;
};

/// Every rank is a rank of the first group, moved. The first group's steps are looked at by
/// themselves first: no motion says where a step goes that breaks the rules.
Result<FirstGroup> first_group(const std::function<Schedule(Rank)>& build,
                               const Symmetry& symmetry) {
  FirstGroup group{.schedules = {build(0)}};
  const CollectiveSpec spec = group.schedules[0].spec;
  COLL_TRY(check_symmetry(spec, symmetry));
  for (Rank rank = 0; rank < symmetry.size; ++rank) {
    if (rank > 0) group.schedules.push_back(build(rank));
    if (group.schedules.back().rank != rank || group.schedules.back().spec != spec) {
      return fault(rank, "has the schedule of another rank or operation");
    }
  }
  COLL_TRY(check_steps(group.schedules));
  for (Rank rank = symmetry.size; rank < spec.ranks; ++rank) {
    const Schedule schedule = build(rank);
    if (rank == symmetry.size) group.parts = parts_of(group.schedules, symmetry, schedule);
    const Schedule& original = group.schedules[static_cast<std::size_t>(rank % symmetry.size)];
    COLL_TRY(check_moved(original, symmetry, group.parts, rank - original.rank, schedule));
  }
  return group;
}

/// What is wrong with a content; empty if nothing.
std::string wrong_with(const FoldedContent& content, std::uint32_t pass, const Wanted& wanted,
                       Rank ranks) {
  const bool reduced = wanted.source == kNoRank;
  if (content.nothing()) return "never written";
  if (content.pass != pass) return "of another pass";
  if (content.chunk != wanted.chunk) return "input chunk " + std::to_string(content.chunk);
  if (!reduced && content.ranks != RankSet(wanted.source, wanted.source + 1)) {
    return "not the contribution of rank " + std::to_string(wanted.source);
  }
  if (reduced && content.ranks != RankSet(0, ranks)) return "not the contributions of all ranks";
  if (reduced && ranks > 1 && !content.finished) return "the reduction is nowhere finished";
  return {};
}

Status check_outputs(const std::vector<Schedule>& group, const FoldedRun& run) {
  const CollectiveSpec& spec = group.front().spec;
  const RankSet all(0, spec.ranks);
  for (std::uint32_t pass = 0; pass < run.passes(); ++pass) {
    for (const Schedule& schedule : group) {
      const Rank rank = schedule.rank;
      if (spec.collective == Collective::barrier && run.heard(pass, rank) != all) {
        return fault(rank, "leaves the barrier although some rank may not have entered it");
      }
      for (std::uint32_t chunk = 0; chunk < schedule.chunks.chunks(Space::output); ++chunk) {
        const Wanted wanted = wanted_in(spec, schedule.chunks.parts, rank, chunk);
        const std::string wrong =
            wrong_with(run.output(pass, rank, chunk), pass, wanted, spec.ranks);
        if (wrong.empty()) continue;
        return fault(rank, "output chunk " + std::to_string(chunk) + ": " + wrong);
      }
    }
  }
  return {};
}

}  // namespace

Result<Verified> verify_symmetric(const std::function<Schedule(Rank)>& build,
                                  const Symmetry& symmetry, std::uint32_t credits) {
  if (credits == 0) return failed(Code::invalid_argument, "a FIFO holds at least one message");
  COLL_ASSIGN(const FirstGroup first, first_group(build, symmetry));
  const std::vector<Schedule>& group = first.schedules;
  COLL_TRY(check_lane_order(group));

  FoldedRun apart(group, symmetry, first.parts, credits, kProvenPasses, false);
  COLL_TRY(apart.run());
  COLL_TRY(check_outputs(group, apart));
  const CollectiveSpec& spec = group.front().spec;
  if (in_place(spec.collective, spec.ranks, spec.root, 0).allowed) {
    FoldedRun aliased(group, symmetry, first.parts, credits, 1, true);
    const auto status = [&]() -> Status {
      COLL_TRY(aliased.run());
      return check_outputs(group, aliased);
    }();
    if (!status.ok()) return status.with_context("in place");
    if (aliased.sent() != apart.sent()) {
      return fault(0, "or its group sends something else in place than out of place");
    }
  }

  Verified numbers = counted(group);
  const auto groups = static_cast<std::uint64_t>(spec.ranks / symmetry.size);
  numbers.steps_total *= groups;
  numbers.chunks_sent_total *= groups;
  numbers.rounds = apart.rounds();
  numbers.same_order_everywhere = spec.collective != Collective::all_reduce;
  return numbers;
}

}  // namespace coll
