// SPDX-License-Identifier: Apache-2.0
// Hierarchical operations whose data every rank has or gets whole; each rail has its range of it.
#include "collectives/hierarchical/hierarchical.hpp"
#include "collectives/patterns.hpp"

namespace coll {
namespace {

using enum Collective;

/// How the data is cut: a range for each rail, in as many parts as the line's algorithm needs.
struct Ranges {
  std::uint32_t parts;  ///< of a range
  std::uint32_t all;    ///< parts
  std::uint32_t own;    ///< the first part of the own rail's range

  [[nodiscard]] EmbeddedSpace whole(Space space) const { return {space, stretched(0, all)}; }
  [[nodiscard]] EmbeddedSpace by_rail(Space space) const { return {space, stretched(0, parts)}; }
  [[nodiscard]] EmbeddedSpace range(Space space) const { return {space, stretched(own, parts)}; }
  [[nodiscard]] EmbeddedSpace by_part(Space space, std::uint32_t base = 0) const {
    return {space, stretched(base + own, 1)};
  }
};

Ranges cut(Composer& c, const Schedule& line) {
  const std::uint32_t parts = line.chunks.parts;
  c.start(parts * index_of(c.grid.rails));
  return {parts, parts * index_of(c.grid.rails), parts * index_of(c.grid.rail)};
}

/// The sums of a host's inputs, each rail's range at its owner, in `sums`. Says where they are.
Space sum_up(Composer& c, const Ranges& ranges, Space sums) {
  Space at = Space::input;
  c.in_team(reduce, {.input = ranges.whole(at),
                     .output = ranges.whole(sums),
                     .scratch = ranges.whole(Space::scratch)});
  if (c.grid.team_size(c.grid.host, c.grid.rail) > 1) at = sums;
  if (c.grid.rails == 1) return at;
  c.in_row(*c.how.row_reduce_scatter, reduce_scatter,
           {.input = ranges.by_rail(at), .output = ranges.range(sums)});
  return sums;
}

/// From each owner its range to all ranks of the host.
void hand_out(Composer& c, const Ranges& ranges) {
  if (c.grid.rails > 1) {
    c.in_row(*c.how.row_all_gather, all_gather,
             {.input = ranges.range(Space::output), .output = ranges.by_rail(Space::output)});
  }
  c.in_team(broadcast,
            {.input = ranges.whole(Space::output), .output = ranges.whole(Space::output)});
}

void compose_all_reduce(Composer& c) {
  const Schedule line = c.line_part();
  const Ranges ranges = cut(c, line);
  const Space at = sum_up(c, ranges, Space::output);
  c.on_line(line, {.input = ranges.by_part(at),
                   .output = ranges.by_part(Space::output),
                   .scratch = ranges.by_part(Space::scratch),
                   .finishes = true});
  hand_out(c, ranges);
}

void compose_reduce(Composer& c) {
  const Schedule line = c.line_part();
  const Ranges ranges = cut(c, line);
  const Space sums = c.schedule.rank == c.spec.root ? Space::output : Space::scratch;
  const Space at = sum_up(c, ranges, sums);
  c.on_line(line, {.input = ranges.by_part(at),
                   .output = ranges.by_part(sums),
                   .scratch = ranges.by_part(Space::scratch, ranges.all),
                   .finishes = true});
  if (c.grid.rails > 1) {
    c.in_row(kLinear, gather,
             {.input = ranges.range(sums), .output = ranges.by_rail(Space::output)});
  }
}

void compose_broadcast(Composer& c) {
  const Schedule line = c.line_part();
  const Ranges ranges = cut(c, line);
  const Space at = c.schedule.rank == c.spec.root ? Space::input : Space::output;
  if (c.grid.rails > 1) {
    c.in_row(kLinear, scatter, {.input = ranges.by_rail(Space::input), .output = ranges.range(at)});
  }
  c.on_line(line, {.input = ranges.by_part(at), .output = ranges.by_part(Space::output)});
  hand_out(c, ranges);
}

/// A reduction and a broadcast of nothing.
void compose_barrier(Composer& c) {
  c.start(1);
  c.in_team(reduce, {.empty = true});
  c.on_line(c.line_part(), {.empty = true});
  c.in_team(broadcast, {.empty = true});
}

}  // namespace

void compose_sums(Composer& composer) {
  switch (composer.spec.collective) {
    case all_reduce:
      return compose_all_reduce(composer);
    case reduce:
      return compose_reduce(composer);
    case broadcast:
      return compose_broadcast(composer);
    default:
      return compose_barrier(composer);
  }
}

}  // namespace coll
