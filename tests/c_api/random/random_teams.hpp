// SPDX-License-Identifier: Apache-2.0
// Drawn communicators: splits, subsets and copies of one another, the same on all ranks by the same
// random numbers.
#pragma once
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "c_api/api_calls.hpp"

namespace collectives::testing {

/// A communicator as all ranks know it, and this rank's handle of it.
struct Team {
  std::vector<int> members;  ///< world ranks, by rank
  coll_comm_t comm = nullptr;

  /// -1: no member
  [[nodiscard]] int rank_of(int world_rank) const {
    const auto found = std::ranges::find(members, world_rank);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
};

class RandomTeams {
 public:
  RandomTeams(coll_comm_t world, int rank, int size, std::mt19937_64& random)
      : rank_(rank), random_(&random), teams_(1) {
    teams_[0].members.resize(static_cast<std::size_t>(size));
    std::iota(teams_[0].members.begin(), teams_[0].members.end(), 0);
    teams_[0].comm = world;
    while (teams_.size() < kLeast) add();
  }
  RandomTeams(const RandomTeams&) = delete;
  RandomTeams& operator=(const RandomTeams&) = delete;
  ~RandomTeams() {
    while (teams_.size() > 1) remove(teams_.size() - 1);
  }

  [[nodiscard]] const Team& draw() const { return teams_[draw(teams_.size())]; }
  /// Others in place of some. No operation may run.
  void renew() {
    while (teams_.size() >= kLeast) remove(1 + draw(teams_.size() - 1));
    while (teams_.size() < kLeast) add();
  }

 private:
  static constexpr std::size_t kLeast = 5;

  [[nodiscard]] std::size_t draw(std::size_t below) const { return (*random_)() % below; }

  /// Those made from it live on.
  void remove(std::size_t which) {
    if (teams_[which].comm != nullptr) {
      EXPECT_TRUE(ok(coll_comm_destroy(teams_[which].comm)));
    }
    teams_.erase(teams_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void add() {
    const Team parent = draw();
    switch (draw(3)) {
      case 0:
        return split(parent);
      case 1:
        return subset(parent);
      default:
        Team copy{parent.members, nullptr};
        if (parent.comm != nullptr) {
          EXPECT_TRUE(ok(coll_comm_duplicate(parent.comm, nullptr, &copy.comm)));
        }
        push(copy);
    }
  }

  /// A few colors, or none; any keys, some of them equal.
  void split(const Team& parent) {
    struct Wish {
      int color, key;
    };
    std::vector<Wish> wishes;
    std::map<int, std::vector<std::pair<int, int>>> parts;  // key and old rank, by color
    for (int rank = 0; rank < parent.size(); ++rank) {
      const int color = static_cast<int>(draw(4)) - 1;
      const int key = static_cast<int>(draw(4)) - 2;
      wishes.push_back({color < 0 ? COLL_SPLIT_NONE : color, key});
      if (color >= 0) parts[color].emplace_back(key, rank);
    }
    coll_comm_t mine = nullptr;
    const int own = parent.rank_of(rank_);
    if (own >= 0) {
      const Wish wish = wishes[static_cast<std::size_t>(own)];
      EXPECT_TRUE(ok(coll_comm_split(parent.comm, wish.color, wish.key, nullptr, &mine)));
      EXPECT_EQ(mine == nullptr, wish.color == COLL_SPLIT_NONE);
    }
    for (auto& [color, ranks] : parts) {
      std::ranges::sort(ranks);
      Team team;
      for (const auto& [key, rank] : ranks) {
        team.members.push_back(parent.members[static_cast<std::size_t>(rank)]);
      }
      if (team.rank_of(rank_) >= 0) team.comm = mine;
      push(team);
    }
  }

  /// Some ranks, in any order.
  void subset(const Team& parent) {
    std::vector<int> ranks(parent.members.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    std::ranges::shuffle(ranks, *random_);
    ranks.resize(1 + draw(ranks.size()));
    Team team;
    for (const int rank : ranks) {
      team.members.push_back(parent.members[static_cast<std::size_t>(rank)]);
    }
    if (team.rank_of(rank_) >= 0) {
      EXPECT_TRUE(ok(coll_comm_subset(parent.comm, ranks.data(), static_cast<int>(ranks.size()),
                                      nullptr, &team.comm)));
    }
    push(team);
  }

  /// Its ranks are as drawn.
  void push(const Team& team) {
    if (team.comm != nullptr) {
      int rank = -1, size = 0;
      EXPECT_TRUE(ok(coll_comm_rank(team.comm, &rank)));
      EXPECT_TRUE(ok(coll_comm_size(team.comm, &size)));
      EXPECT_EQ(rank, team.rank_of(rank_));
      EXPECT_EQ(size, team.size());
    }
    teams_.push_back(team);
  }

  int rank_;
  std::mt19937_64* random_;  ///< alike on all ranks
  std::vector<Team> teams_;  ///< the first is the world
};

}  // namespace collectives::testing
