// SPDX-License-Identifier: Apache-2.0
// collectives/: one file per pattern, each a pure function to a Schedule. This file: hierarchical
// all-to-all. Rank j of a host sends all that it has for another host to one rank there, number j
// modulo that host's ranks, which hands it out.
#include <algorithm>

#include "collectives/hierarchical.hpp"

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
    between_hosts();
    for (Rank host = 0; host < grid_.hosts; ++host) hand_out(host);
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
    arrived_[static_cast<std::size_t>(host)] = next_;
    for (Rank src = place_; src < size_of(there); src += size_of(own_)) {
      c_.lane().receive(there[static_cast<std::size_t>(src)], scratch(next_),
                        index_of(size_of(own_)));
      next_ += index_of(size_of(own_));
    }
  }

  void between_hosts() {
    std::size_t largest = 0;
    for (Rank host = 0; host < grid_.hosts; ++host) {
      largest = std::max(largest, grid_.members(host).size());
    }
    next_ = index_of(static_cast<Rank>(largest));
    arrived_.resize(static_cast<std::size_t>(grid_.hosts));
    for (Rank i = 1; i < grid_.hosts; ++i) {
      send_to(wrapped(grid_.host + i, grid_.hosts));
      receive_from(wrapped(grid_.host - i, grid_.hosts));
    }
    c_.rounds += grid_.hosts - 1;
  }

  /// What came from `host`, for every rank of the own one; as often as that has ranks more.
  void hand_out(Rank host) {
    const std::vector<Rank>& there = grid_.members(host);
    const Rank turns = host == grid_.host ? 1 : (size_of(there) - 1) / size_of(own_) + 1;
    for (Rank turn = 0; turn < turns; ++turn) {
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
      Window from{Space::scratch, [=](std::uint32_t member, std::uint32_t) {
                    return present ? Chunks{base + member, 1} : Chunks{};
                  }};
      if (host == grid_.host) {
        from = {Space::input,
                [&](std::uint32_t member, std::uint32_t) { return block(own_[member]); }};
      }
      c_.in_host(
          *c_.how.line[static_cast<int>(all_to_all)], all_to_all,
          {.input = from, .output = {Space::output, [&](std::uint32_t member, std::uint32_t) {
                                       return block(source(member));
                                     }}});
    }
  }

  Composer& c_;
  const HostGrid& grid_;
  const std::vector<Rank>& own_;
  Rank place_;
  std::vector<std::uint32_t> arrived_;  ///< in scratch, by host
  std::uint32_t next_ = 0;
};

}  // namespace

void compose_exchange(Composer& composer) {
  Exchange(composer).build();
}

}  // namespace coll
