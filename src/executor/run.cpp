// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: the run, one call of a program in flight.
#include "executor/run.hpp"

namespace coll {

void Run::bind(Program& of, const CallBinding& with) {
  const bool same_program = program == &of;
  const bool same_cut =
      same_program && cut.windows.count == with.count && cut.element_bytes == with.element_bytes;
  program = nullptr;  // until all is there: what follows allocates
  if (!same_cut) cut.make(of, with.count, with.element_bytes);
  if (!same_program) {
    lanes.assign(of.lanes.size(), {});
    tickets.resize(of.lane_turns.size());
    std::uint32_t* ticket = tickets.data();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const Program::Lane& lane = of.lanes[i];
      Cursor& cursor = lanes[i];
      cursor.lane = &lane;
      cursor.places = &of.places[i];
      cursor.siblings = &lanes[lane.first_sibling];
      cursor.base[static_cast<int>(Space::scratch)] = lane.scratch;
      cursor.tickets = ticket;
      ticket += lane.turns.size();
    }
  }
  call = with;
  program = &of;
}

}  // namespace coll
