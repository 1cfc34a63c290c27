// SPDX-License-Identifier: Apache-2.0
// Hierarchical operations on a block per rank; each rail has the blocks of its ranks.
#include <algorithm>
#include <numeric>

#include "collectives/hierarchical/hierarchical.hpp"
#include "collectives/patterns.hpp"

namespace coll {
namespace {

using enum Collective;

/// A piece of a space, from chunk `base` on.
struct Region {
  Space space = Space::none;
  std::uint32_t base = 0;
};

/// The blocks of all ranks in two orders: by rank, as the caller has them, and by rail, where those
/// of a rail are together, team by team.
struct Blocks {
  explicit Blocks(const HostGrid& grid) : bounds(grid.rail_bounds(grid.rail)) {
    for (Rank rail = 0; rail < grid.rails; ++rail) {
      const std::vector<Rank> ranks = grid.rail_ranks(rail);
      by_rail.insert(by_rail.end(), ranks.begin(), ranks.end());
      rails.push_back(index_of(static_cast<Rank>(by_rail.size())));
    }
    same_order = std::is_sorted(by_rail.begin(), by_rail.end());
  }

  std::vector<Rank> by_rail;
  std::vector<std::uint32_t> rails{0};  ///< rail i's begin at by_rail[rails[i]]
  std::vector<std::uint32_t> bounds;    ///< of the own rail: host h's begin at bounds[h]
  bool same_order = false;

  [[nodiscard]] std::uint32_t all() const { return rails.back(); }
  [[nodiscard]] std::uint32_t on_rail() const { return bounds.back(); }
  [[nodiscard]] Rank most_on_a_rail() const {
    std::uint32_t most = 0;
    for (std::size_t i = 1; i < rails.size(); ++i) most = std::max(most, rails[i] - rails[i - 1]);
    return static_cast<Rank>(most);
  }
  /// Block `number` of each rail, where the caller has it.
  [[nodiscard]] Where each(std::uint32_t number, std::uint32_t base = 0) const {
    return [this, number, base](std::uint32_t rail, std::uint32_t) {
      const std::uint32_t at = rails[rail] + number;
      return at < rails[rail + 1] ? Chunks{base + index_of(by_rail[at]), 1} : Chunks{};
    };
  }
  /// Block `number` of rail `rail`, where the caller has it.
  [[nodiscard]] Where own(std::uint32_t number, Rank rail) const {
    const Chunks chunks = each(number)(index_of(rail), 1);
    return [chunks](std::uint32_t, std::uint32_t) { return chunks; };
  }
  /// Block `number` of rail `rail`, in a list of that rail's.
  [[nodiscard]] Where one(std::uint32_t number, Rank rail, std::uint32_t base) const {
    const auto at = static_cast<std::size_t>(rail);
    const bool present = number < rails[at + 1] - rails[at];
    return [=](std::uint32_t, std::uint32_t) {
      return present ? Chunks{base + number, 1} : Chunks{};
    };
  }
};

/// One of the operations, and what its phases share.
class BlockComposer {
 public:
  explicit BlockComposer(Composer& composer)
      : c_(composer), grid_(composer.grid), blocks_(composer.grid) {
    c_.start(1);
    team_ = index_of(grid_.team_size(grid_.host, grid_.rail));
    packed_ = c_.how.packed || grid_.rails == 1;
  }

  void build() {
    switch (c_.spec.collective) {
      case all_gather:
        return gather_to(all_gather, c_.how.row_all_gather);
      case gather:
        return gather_to(gather, &kLinear);
      case reduce_scatter:
        return scatter_from(reduce_scatter, c_.how.row_reduce_scatter);
      default:
        return scatter_from(scatter, &kLinear);
    }
  }

 private:
  [[nodiscard]] bool is_root() const { return c_.schedule.rank == c_.spec.root; }
  [[nodiscard]] std::uint32_t own_rail() const {
    return blocks_.rails[static_cast<std::size_t>(grid_.rail)];
  }
  /// The blocks of the own rail, which begin at `at`, by hosts.
  [[nodiscard]] EmbeddedSpace of_line(Region at) const {
    return {at.space, blocks(blocks_.bounds, at.base)};
  }
  /// The same, from the own host's blocks on.
  [[nodiscard]] EmbeddedSpace from_own(Region at) const {
    return {at.space, blocks(blocks_.bounds, at.base, index_of(grid_.host))};
  }
  [[nodiscard]] EmbeddedSpace all_rails(Region at) const {
    return {at.space, blocks(blocks_.rails, at.base)};
  }
  [[nodiscard]] EmbeddedSpace from_rail(Region at) const {
    return {at.space, blocks(blocks_.rails, at.base + own_rail(), index_of(grid_.rail))};
  }

  /// all_gather, gather: blocks come together on their rails and then from rail to rail.
  void gather_to(Collective collective, const Algorithm* in_row) {
    const bool to_all = collective == all_gather;
    const bool takes = to_all || is_root();
    const bool at_home = packed_ && grid_.rails == 1 && blocks_.same_order && takes;
    if (to_all && !packed_ && blocks_.on_rail() == index_of(grid_.hosts)) {
      return gather_one_by_one(in_row);
    }
    Region home{Space::output, 0};
    if (!at_home && grid_.owns()) {
      home = {Space::scratch, c_.room(packed_ ? blocks_.all() : blocks_.on_rail())};
    }
    const Region line{home.space, home.base + (packed_ ? own_rail() : 0)};
    const Region team{line.space, line.base + blocks_.bounds[static_cast<std::size_t>(grid_.host)]};
    c_.in_team(gather, {.input = {Space::input, stretched(0, 1)},
                        .output = {team.space, stretched(team.base, 1)},
                        .scratch = {Space::scratch, stretched(0, 1)}});
    c_.on_line(c_.line_part(), {.input = from_own(team_ > 1 ? team : Region{Space::input, 0}),
                                .output = of_line(line),
                                .scratch = from_own({Space::scratch, to_all ? 0 : spare()})});
    if (to_all || grid_.host == grid_.root_host) {
      if (!packed_) {
        c_.in_row(*in_row, collective, blocks_.most_on_a_rail(), [&](std::uint32_t number) {
          return Embedding{.input = {line.space, blocks_.one(number, grid_.rail, line.base)},
                           .output = {Space::output, blocks_.each(number)}};
        });
      } else {
        if (grid_.rails > 1) {
          c_.in_row(*in_row, collective, {.input = from_rail(home), .output = all_rails(home)});
        }
        if (takes && grid_.owns() && !at_home) {
          copy_all(home, {Space::output, 0}, true);
        }
      }
    }
    if (!to_all) return;
    const EmbeddedSpace everything{Space::output, stretched(0, blocks_.all())};
    c_.in_team(broadcast, {.input = everything, .output = everything});
  }

  /// all_gather where every team of the rail is one rank, and all messages are one block: these go
  /// straight to their places.
  void gather_one_by_one(const Algorithm* in_row) {
    const auto place = [this](std::uint32_t number) {
      return index_of(blocks_.by_rail[own_rail() + number]);
    };
    c_.in_team(gather, {});
    c_.on_line(c_.line_part(),
               {.input = {Space::input, stretched(0, 1)},
                .output = {Space::output, [place](std::uint32_t host, std::uint32_t count) {
                             return Chunks{place(host), count};
                           }}});
    c_.in_row(*in_row, all_gather, blocks_.most_on_a_rail(), [&](std::uint32_t number) {
      return Embedding{.input = {Space::output, blocks_.own(number, grid_.rail)},
                       .output = {Space::output, blocks_.each(number)}};
    });
    const EmbeddedSpace everything{Space::output, stretched(0, blocks_.all())};
    c_.in_team(broadcast, {.input = everything, .output = everything});
  }

  /// reduce_scatter, scatter: blocks go to their rails, are summed, and then to their hosts.
  void scatter_from(Collective collective, const Algorithm* in_row) {
    const bool sums = collective == reduce_scatter;
    Region from{Space::input, 0};
    if (sums) {
      if (team_ > 1 && grid_.owns()) from = {Space::scratch, c_.room(blocks_.all())};
      c_.in_team(reduce, {.input = {Space::input, stretched(0, blocks_.all())},
                          .output = {from.space, stretched(from.base, blocks_.all())},
                          .scratch = {Space::scratch, stretched(0, blocks_.all())}});
    }
    Region line = from;  // the own rail's blocks
    const bool gives = sums || is_root();
    const bool at_home = packed_ && grid_.rails == 1 && blocks_.same_order && gives;
    if (grid_.owns() && !at_home) {
      line = {Space::scratch, c_.room(blocks_.on_rail())};
      if (sums || grid_.host == grid_.root_host) part_by_rail(collective, in_row, from, line);
    }
    const Region team = team_ > 1 && grid_.owns() ? Region{Space::scratch, c_.room(team_)}
                                                  : Region{Space::output, 0};
    c_.on_line(c_.line_part(), {.input = of_line(line),
                                .output = from_own(team),
                                .scratch = line_scratch(sums),
                                .finishes = true});
    c_.in_team(scatter, {.input = {team.space, stretched(team.base, 1)},
                         .output = {Space::output, stretched(0, 1)},
                         .scratch = {Space::scratch, stretched(0, 1)}});
  }

  void part_by_rail(Collective collective, const Algorithm* in_row, Region from, Region line) {
    if (!packed_) {
      return c_.in_row(*in_row, collective, blocks_.most_on_a_rail(), [&](std::uint32_t number) {
        return Embedding{.input = {from.space, blocks_.each(number, from.base)},
                         .output = {line.space, blocks_.one(number, grid_.rail, line.base)}};
      });
    }
    const bool gives = collective == reduce_scatter || is_root();
    const Region home = grid_.rails == 1 ? line : Region{Space::scratch, c_.room(blocks_.all())};
    if (gives) {
      copy_all(home, from, false);
    }
    if (grid_.rails > 1) {
      c_.in_row(*in_row, collective,
                {.input = all_rails(home), .output = {line.space, one_rail(line.base)}});
    }
  }

  /// Copies between the order of rails and the order of ranks: in one piece what is so in both.
  void copy_all(Region by_rail, Region by_rank, bool to_ranks) {
    const auto copy = [&](std::uint32_t at, std::uint32_t count) {
      const Operand packed{by_rail.space, by_rail.base + at};
      const Operand block{by_rank.space, by_rank.base + index_of(blocks_.by_rail[at])};
      c_.lane().copy(to_ranks ? packed : block, to_ranks ? block : packed, count);
    };
    if (blocks_.same_order) return copy(0, blocks_.all());
    for (std::size_t rail = 1; rail < blocks_.rails.size(); ++rail) {
      c_.repeat(static_cast<Rank>(blocks_.rails[rail - 1]), static_cast<Rank>(blocks_.rails[rail]),
                [&](Rank at) { copy(index_of(at), 1); });
    }
  }

  [[nodiscard]] Where one_rail(std::uint32_t base) const {
    return blocks(blocks_.rails, base, index_of(grid_.rail));
  }
  /// The scratch of the line's algorithm: sums by hosts; a tree's, from the own host on.
  [[nodiscard]] EmbeddedSpace line_scratch(bool sums) {
    const Region at{Space::scratch, spare()};
    return sums ? of_line(at) : from_own(at);
  }
  std::uint32_t spare() { return grid_.owns() ? c_.room(blocks_.on_rail()) : 0; }

  Composer& c_;
  const HostGrid& grid_;
  Blocks blocks_;
  std::uint32_t team_ = 1;
  bool packed_ = false;
};

}  // namespace

void compose_blocks(Composer& composer) {
  BlockComposer(composer).build();
}

}  // namespace coll
