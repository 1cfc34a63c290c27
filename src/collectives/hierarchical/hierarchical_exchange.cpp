// SPDX-License-Identifier: Apache-2.0
// Hierarchical all-to-all. Rank j of a host sends all that it has for another host to one rank
// there, number j modulo that host's ranks, which hands it out.
#include <algorithm>

#include "collectives/hierarchical/hierarchical.hpp"
#include "collectives/patterns.hpp"

namespace coll {
namespace {

using enum Collective;

Rank size_of(const std::vector<Rank>& members) {
  return static_cast<Rank>(members.size());
}

class Exchange {
 public:
  explicit Exchange(Composer& composer)
      : c_(composer),
        grid_(composer.grid),
        own_(grid_.members(grid_.host)),
        place_(grid_.place()) {}

  void build() {
    c_.start(1);
    find_room();
    c_.repeat(1, grid_.hosts, [&](Rank i) {
      send_to(wrapped(grid_.host + i, grid_.hosts));
      receive_from(wrapped(grid_.host - i, grid_.hosts));
    });
    c_.count(kPairwise, {all_to_all, grid_.hosts, 0});
    const Algorithm& algorithm = *c_.how.line[static_cast<int>(all_to_all)];
    const Schedule part = c_.host_part(algorithm, all_to_all);
    c_.repeat(0, grid_.host, [&](Rank host) { hand_out(part, host); });
    hand_out(part, grid_.host);
    c_.repeat(grid_.host + 1, grid_.hosts, [&](Rank host) { hand_out(part, host); });
    double phases = 0;
    for (Rank host = 0; host < grid_.hosts; ++host) phases += turns(host);
    c_.count(algorithm, {all_to_all, size_of(own_), 0}, phases);
  }

 private:
  /// The blocks for one host as one message; copied together if they are apart.
  void send_to(Rank host) {
    const std::vector<Rank>& there = grid_.members(host);
    Operand from = input(index_of(there[0]));
    for (std::size_t i = 1; i < there.size(); ++i) {
      if (there[i] != there[i - 1] + 1) from = scratch(0);
    }
    if (from.space == Space::scratch) {
      for (std::size_t i = 0; i < there.size(); ++i) {
        c_.lane().copy(input(index_of(there[i])), scratch(index_of(static_cast<Rank>(i))));
      }
    }
    const Rank peer = there[static_cast<std::size_t>(place_ % size_of(there))];
    c_.lane().send(from, peer, index_of(size_of(there)));
  }

  void receive_from(Rank host) {
    const std::vector<Rank>& there = grid_.members(host);
    std::uint32_t at = arrived_[static_cast<std::size_t>(host)];
    for (Rank src = place_; src < size_of(there); src += size_of(own_)) {
      c_.lane().receive(there[static_cast<std::size_t>(src)], scratch(at), index_of(size_of(own_)));
      at += index_of(size_of(own_));
    }
  }

  /// Scratch begins with room for what is copied together.
  void find_room() {
    Rank largest = 0;
    for (Rank host = 0; host < grid_.hosts; ++host) {
      largest = std::max(largest, size_of(grid_.members(host)));
    }
    std::uint32_t next = grid_.even ? 0 : index_of(largest);
    arrived_.resize(static_cast<std::size_t>(grid_.hosts));
    for (Rank i = 1; i < grid_.hosts; ++i) {
      const Rank host = wrapped(grid_.host - i, grid_.hosts);
      arrived_[static_cast<std::size_t>(host)] = next;
      const Rank there = size_of(grid_.members(host));
      for (Rank src = place_; src < there; src += size_of(own_)) next += index_of(size_of(own_));
    }
  }

  /// How often what came from a host is handed out: once for each rank there that sends to one.
  [[nodiscard]] Rank turns(Rank host) const {
    const Rank there = size_of(grid_.members(host));
    return host == grid_.host ? 1 : (there - 1) / size_of(own_) + 1;
  }

  /// Hands out what came from `host` to every rank of the own host. If `host` has more ranks than
  /// the own host has, this takes several turns.
  void hand_out(const Schedule& part, Rank host) {
    const std::vector<Rank>& there = grid_.members(host);
    for (Rank turn = 0; turn < turns(host); ++turn) {
      const auto source = [&](std::uint32_t member) {  // whose blocks a member has
        const Rank src = static_cast<Rank>(member) + turn * size_of(own_);
        return src < size_of(there) ? there[static_cast<std::size_t>(src)] : kNoRank;
      };
      const bool present = source(index_of(place_)) != kNoRank;
      const std::uint32_t base =
          arrived_[static_cast<std::size_t>(host)] + index_of(turn * size_of(own_));
      const auto block = [](Rank rank) {
        return rank == kNoRank ? Chunks{} : Chunks{index_of(rank), 1};
      };
      EmbeddedSpace from{Space::scratch, [=](std::uint32_t member, std::uint32_t) {
                           return present ? Chunks{base + member, 1} : Chunks{};
                         }};
      if (host == grid_.host) {
        from = {Space::input,
                [&](std::uint32_t member, std::uint32_t) { return block(own_[member]); }};
      }
      c_.in_host(
          part, {.input = from, .output = {Space::output, [&](std::uint32_t member, std::uint32_t) {
                                             return block(source(member));
                                           }}});
    }
  }

  Composer& c_;
  const HostGrid& grid_;
  const std::vector<Rank>& own_;
  Rank place_;
  std::vector<std::uint32_t> arrived_;  ///< in scratch, by host
};

}  // namespace

void compose_exchange(Composer& composer) {
  Exchange(composer).build();
}

}  // namespace coll
