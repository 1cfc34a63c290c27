// SPDX-License-Identifier: Apache-2.0
// The run, one call of a program in flight.
#include "executor/run.hpp"

#include <algorithm>

#include "executor/window_pieces.hpp"

namespace coll {

void Run::bind(Program& of, const CallBinding& with) {
  const bool same_program = program == &of;
  const bool same_extents = same_program && !of.unequal && extents.windows.count == with.count &&
                            extents.element_bytes == with.element_bytes;
  program = nullptr;  // until all is there: what follows allocates
  if (of.unequal) {
    extents.make(of, *with.blocks, with.element_bytes);
    traffic = extents.traffic(of);
  } else if (!same_extents) {
    extents.make(of, with.count, with.element_bytes);
    traffic = extents.traffic(of);
  }
  if (!same_program) {
    lanes.assign(of.lanes.size(), {});
    tickets.resize(of.lane_turns.size());
    marks.assign(of.connections.size(), 0);
    std::uint32_t* ticket = tickets.data();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const Program::Lane& lane = of.lanes[i];
      Cursor& cursor = lanes[i];
      cursor.lane = &lane;
      cursor.places = &of.places[i];
      cursor.siblings = &lanes[lane.first_sibling];
      cursor.base[static_cast<int>(Space::scratch)] =
          reinterpret_cast<std::uintptr_t>(lane.scratch);
      cursor.tickets = ticket;
      ticket += lane.turns.size();
      cursor.marks = marks.data() + (lane.connections.data() - of.connections.data());
    }
  }
  StepExtent* own = extents.steps.data();
  for (Cursor& cursor : lanes) {  // the extents may have moved
    if (of.unequal) {
      cursor.last_extents = cursor.extents = own;
      cursor.entered = Cursor::kNone;
      own += cursor.lane->end - cursor.lane->begin;
      continue;
    }
    cursor.extents = extents.steps.data() + (cursor.lane->begin - of.steps.data());
    cursor.last_extents = cursor.extents + of.steps.size();
  }
  call = with;
  program = &of;
}

void mover::expect_messages(const Run& run, Cursor& lane) {
  const Windows& windows = run.extents.windows;
  const std::uint64_t copies = run.program->shape.copies;
  const std::uint64_t end = std::min(windows.passes, lane.pass + lane.lane->told_passes * copies);
  for (lane.told = std::max(lane.told, lane.pass); lane.told < end; lane.told += copies) {
    const StepExtent* const extents =
        lane.told + 1 == windows.passes ? lane.last_extents : lane.extents;
    std::byte* const output =
        run.call.output + lane.told * windows.elements * run.call.element_bytes;
    for (const Expected& one : lane.lane->expected) {
      const bool lands = one.when == BoundStep::When::always || run.call.apart;
      const StepExtent& extent = extents[one.step - lane.lane->begin];
      if (!lands || !extent.one_piece) continue;
      const std::uint64_t passes = (lane.told - lane.pass) / copies;
      one.landing->expect(one.landing->next() + passes * one.of + one.nth, output + extent.into,
                          extent.bytes, one.part_first && !run.call.apart);
    }
  }
}

const Connection* failed_connection(const Run& run) {
  const auto& all = run.program->connections;
  const auto failed =
      std::ranges::find_if(all, [](const Connection* one) { return !one->status().ok(); });
  return failed == all.end() ? nullptr : *failed;
}

}  // namespace coll
