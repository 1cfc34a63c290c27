// SPDX-License-Identifier: Apache-2.0
// Runs the parts of the proof one after another.
#include "schedule/proof/verify.hpp"

#include <algorithm>
#include <vector>

#include "schedule/proof/lane_order.hpp"
#include "schedule/proof/postcondition.hpp"
#include "schedule/proof/symbolic_run.hpp"
#include "schedule/step_rules.hpp"

namespace coll {
namespace {

bool any_in_place(std::span<const Schedule> schedules) {
  return std::ranges::any_of(schedules, [](const Schedule& schedule) {
    const CollectiveSpec& spec = schedule.spec;
    return in_place(spec.collective, spec.ranks, spec.root, schedule.rank).allowed;
  });
}

/// The run in place must do what the one apart did, message by message: then ranks may choose one
/// by one.
Status check_in_place(std::span<const Schedule> schedules, const Wiring& wiring,
                      Contributions& contributions, std::uint32_t credits,
                      const std::vector<std::uint64_t>& sent_apart) {
  SymbolicRun run(schedules, wiring, contributions, credits, 1, true);
  COLL_TRY(run.run());
  COLL_TRY(check_postcondition(schedules, run, contributions));
  const auto differs = std::ranges::mismatch(run.sent(), sent_apart);
  if (differs.in1 == run.sent().end()) return {};
  const Wiring::LaneEnd& lane =
      wiring.lanes[static_cast<std::size_t>(differs.in1 - run.sent().begin())];
  return fault(lane.rank,
               "lane " + std::to_string(lane.lane) + " sends something else than out of place");
}

}  // namespace

Verified counted(std::span<const Schedule> schedules) {
  Verified numbers;
  for (const Schedule& schedule : schedules) {
    std::uint64_t steps = 0;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t reduced = 0;
    for (const Lane& lane : schedule.lanes) {
      steps += lane.size();
      for (const Step& step : lane) {
        if (step.sends()) {
          sent += step.count;
          numbers.message_most = std::max(numbers.message_most, step.count);
        }
        if (step.receives()) received += step.count;
        if (step.with.present()) reduced += step.count;
      }
    }
    numbers.steps_total += steps;
    numbers.steps_most = std::max(numbers.steps_most, static_cast<std::uint32_t>(steps));
    numbers.chunks_sent_total += sent;
    numbers.chunks_sent_most = std::max(numbers.chunks_sent_most, sent);
    numbers.chunks_received_most = std::max(numbers.chunks_received_most, received);
    numbers.chunks_reduced_most = std::max(numbers.chunks_reduced_most, reduced);
    numbers.scratch_most = std::max(numbers.scratch_most, schedule.scratch_chunks);
  }
  return numbers;
}

Result<Verified> verify(std::span<const Schedule> schedules, std::uint32_t credits) {
  if (credits == 0) return failed(Code::invalid_argument, "a FIFO holds at least one message");
  COLL_TRY(check_rules(schedules));
  COLL_ASSIGN(const Wiring wiring, wire(schedules));
  COLL_TRY(check_lane_order(schedules));

  std::vector<std::uint32_t> input_chunks;
  for (const Schedule& schedule : schedules) {
    input_chunks.push_back(schedule.chunks.chunks(Space::input));
  }
  Contributions contributions(input_chunks, schedules.front().chunks.parts, kProvenPasses,
                              schedules.front().spec.order == SumOrder::sided_tree);
  Verified numbers = counted(schedules);
  std::vector<std::uint64_t> sent;
  {
    SymbolicRun run(schedules, wiring, contributions, credits, kProvenPasses, false);
    COLL_TRY(run.run());
    COLL_TRY(check_postcondition(schedules, run, contributions));
    numbers.rounds = run.rounds();
    numbers.same_order_everywhere = same_order_everywhere(schedules, run);
    sent = run.sent();
  }
  if (any_in_place(schedules)) {
    const Status status = check_in_place(schedules, wiring, contributions, credits, sent);
    if (!status.ok()) return status.with_context("in place");
  }
  return numbers;
}

}  // namespace coll
