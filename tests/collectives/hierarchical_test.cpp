// SPDX-License-Identifier: Apache-2.0
// Hierarchical algorithms are right on any hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "built.hpp"
#include "collectives/hierarchical/rank_groups.hpp"
#include "schedule/proof/verify.hpp"
#include "test_seed.hpp"

namespace coll {
namespace {

std::vector<const Algorithm*> hierarchical() {
  std::vector<const Algorithm*> list;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name.starts_with("hierarchical")) list.push_back(&algorithm);
  }
  return list;
}

/// Hosts with these numbers of ranks, one after the other.
Layout layout_of(const std::vector<Rank>& hosts) {
  std::vector<Place> places;
  for (const Rank ranks : hosts) {
    const auto host = static_cast<std::int64_t>(places.size());
    for (Rank i = 0; i < ranks; ++i) places.push_back({.host = host});
  }
  return make_layout(places);
}

/// One host, with islands of these numbers of ranks: one after the other if `apart`, otherwise
/// ranks of all islands in turns.
Layout islands_of(const std::vector<Rank>& islands, bool apart) {
  std::vector<Place> places;
  std::vector<Rank> left = islands;
  const Rank ranks = std::accumulate(islands.begin(), islands.end(), 0);
  for (std::size_t island = 0; static_cast<Rank>(places.size()) < ranks;) {
    if (left[island] > 0) {
      --left[island];
      places.push_back({.island = static_cast<std::int32_t>(island)});
    }
    if (!apart || left[island] == 0) island = (island + 1) % islands.size();
  }
  return make_layout(places);
}

std::string text_of(const Layout& layout) {
  std::string text = "hosts of ranks";
  for (const std::int32_t host : layout.host) text += ' ' + std::to_string(host);
  text += ", islands";
  for (const std::int32_t island : layout.island) text += ' ' + std::to_string(island);
  return text;
}

std::set<Rank> peers_of(const Schedule& schedule) {
  std::set<Rank> peers;
  for (const Step& step : schedule.lanes[0]) {
    if (step.receives()) peers.insert(step.source);
    if (step.sends()) peers.insert(step.target);
  }
  return peers;
}

/// The schedules are right, and cost at most what the algorithm says; exactly that, but for the
/// rounds, which are those of all phases.
void prove(const Algorithm& algorithm, const CollectiveSpec& spec, const Layout& layout) {
  SCOPED_TRACE(describe(algorithm, spec) + ", " + text_of(layout));
  const std::vector<Schedule> schedules = build_all(algorithm, spec, layout);
  for (const Schedule& schedule : schedules) EXPECT_EQ(schedule.algorithm, algorithm.name);
  const auto result = verify(schedules);
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_TRUE(result->same_order_everywhere);

  const Cost cost = algorithm.cost(spec, layout);
  std::uint64_t size = 1;
  std::size_t peers = 0;
  for (const Schedule& schedule : schedules) {
    size = std::max({size, std::uint64_t{schedule.chunks.chunks(Space::input)},
                     std::uint64_t{schedule.chunks.chunks(Space::output)}});
    peers = std::max(peers, peers_of(schedule).size());
  }
  const auto chunks = static_cast<double>(size);
  EXPECT_EQ(cost.chunks, size);
  EXPECT_GE(cost.rounds, result->rounds);
  EXPECT_EQ(cost.steps, result->steps_most);
  EXPECT_EQ(cost.scratch_chunks, result->scratch_most);
  EXPECT_EQ(cost.message_chunks, std::max(1U, result->message_most));
  EXPECT_NEAR(cost.sent * chunks, double(result->chunks_sent_most), 1e-6);
  EXPECT_NEAR(cost.received * chunks, double(result->chunks_received_most), 1e-6);
  EXPECT_NEAR(cost.reduced * chunks, double(result->chunks_reduced_most), 1e-6);
  EXPECT_EQ(cost.peers, peers);
}

void prove_all(const Layout& layout, const std::vector<Rank>& roots) {
  const Rank ranks = layout.ranks();
  for (const Algorithm* algorithm : hierarchical()) {
    for (int i = 0; i < kCollectives; ++i) {
      const Collective collective = collective_at(i);
      for (const Rank root : has_root(collective) ? roots : std::vector<Rank>{0}) {
        const CollectiveSpec spec{collective, ranks, root};
        if (!algorithm->supports(spec, layout)) continue;
        prove(*algorithm, spec, layout);
        if (testing::Test::HasFailure()) return;  // one message is enough
      }
    }
  }
}

std::vector<Rank> all_roots(Rank ranks) {
  std::vector<Rank> roots;
  for (Rank root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

/// One host has nothing to cross, and hosts of one rank have nothing inside.
TEST(Hierarchical, WantsSeveralHostsAndOneOfSeveralRanks) {
  for (const Algorithm* algorithm : hierarchical()) {
    const CollectiveSpec spec{Collective::all_reduce, 4, 0};
    EXPECT_FALSE(algorithm->supports(spec, Layout::flat(4)));
    EXPECT_FALSE(algorithm->supports(spec, layout_of({1, 1, 1, 1})));
    EXPECT_TRUE(algorithm->supports(spec, layout_of({1, 1, 2})));
  }
}

/// On one host islands are what hosts are among several; where each rank is one, NUMA nodes are.
TEST(Hierarchical, TakesTheIslandsOfOneHost) {
  const auto groups = [](const std::vector<Place>& places) {
    const Layout layout = make_layout(places);
    const bool supported =
        hierarchical().front()->supports({Collective::all_reduce, layout.ranks(), 0}, layout);
    const auto islands = islands_as_hosts(layout);
    EXPECT_EQ(supported, layout.hosts() > 1 || islands.has_value());
    return islands ? islands->members : std::vector<std::vector<Rank>>{};
  };
  using Groups = std::vector<std::vector<Rank>>;
  const auto island = [](std::int32_t number, std::int32_t numa = -1) {
    return Place{.numa = numa, .island = number};
  };
  EXPECT_EQ(groups({island(7), island(3), island(7), island(3)}), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups({island(0, 0), island(0, 1), island(1, 0)}), (Groups{{0, 1}, {2}}));
  EXPECT_EQ(groups({island(0, 5), island(1, 5), island(2, 2)}), (Groups{{0, 1}, {2}}))
      << "GPUs without links";
  EXPECT_EQ(groups({island(0, 0), island(0, 0), island(0, 1)}), Groups{}) << "one island";
  EXPECT_EQ(groups({island(-1, 0), island(-1, 0), island(-1, 1)}), Groups{}) << "processors";
  EXPECT_EQ(groups({island(0), island(1), island(2)}), Groups{}) << "no NUMA nodes";
  EXPECT_EQ(groups({island(0, 0), island(1, 1), island(2, 2)}), Groups{}) << "one rank in each";
  EXPECT_EQ(groups({island(0)}), Groups{});
  EXPECT_EQ(groups({{.host = 1, .island = 0}, {.host = 1, .island = 1}, {.host = 2}}), Groups{})
      << "several hosts are the groups";
}

TEST(Hierarchical, IsProvedOnIslands) {
  for (const std::vector<Rank>& islands : std::vector<std::vector<Rank>>{{2, 2},
                                                                         {3, 3},
                                                                         {4, 4},
                                                                         {2, 2, 2},
                                                                         {2, 2, 2, 2},
                                                                         {5, 5, 5},
                                                                         {1, 2},
                                                                         {2, 1},
                                                                         {1, 3, 2},
                                                                         {3, 5},
                                                                         {2, 7, 3},
                                                                         {4, 1, 1, 4},
                                                                         {2, 1, 1, 1, 1}}) {
    for (const bool apart : {true, false}) {
      const Layout layout = islands_of(islands, apart);
      const auto supported = [&](const Algorithm* of) {
        return of->supports({Collective::all_reduce, layout.ranks(), 0}, layout);
      };
      EXPECT_TRUE(std::ranges::all_of(hierarchical(), supported)) << text_of(layout);
      prove_all(layout, all_roots(layout.ranks()));
    }
  }
}

TEST(Hierarchical, IsProvedOnAnyIslands) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 60; ++round) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(random() % n); };
    const Rank ranks = 1 + below(40);
    const auto islands = static_cast<std::uint64_t>(1 + below(static_cast<std::uint64_t>(ranks)));
    std::vector<Place> places;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const bool linked = islands < static_cast<std::uint64_t>(ranks);
      places.push_back(
          {.numa = below(4), .island = linked ? below(islands) : rank, .rail = below(3)});
    }
    prove_all(make_layout(places), {below(static_cast<std::uint64_t>(ranks))});
    if (HasFailure()) return;
  }
}

TEST(Hierarchical, IsProvedOnEqualHosts) {
  for (Rank hosts = 2; hosts <= 5; ++hosts) {
    for (Rank ranks = 2; ranks <= 5; ++ranks) {
      const Layout layout = layout_of(std::vector<Rank>(static_cast<std::size_t>(hosts), ranks));
      prove_all(layout, all_roots(layout.ranks()));
    }
  }
}

TEST(Hierarchical, IsProvedOnManyEqualHosts) {
  for (const auto& [hosts, ranks] :
       std::vector<std::pair<std::size_t, Rank>>{{3, 17}, {7, 8}, {16, 4}, {33, 2}}) {
    const Layout layout = layout_of(std::vector<Rank>(hosts, ranks));
    prove_all(layout, {0, 1, layout.ranks() / 2, layout.ranks() - 1});
  }
}

/// Of 8,192 hosts of 8 ranks a schedule keeps a few steps for each rank of a host and for each
/// doubling of their number.
TEST(Hierarchical, TakesLittleMemoryOnManyHosts) {
  constexpr Rank kHosts = 8192, kRanks = 8;
  const Layout layout = layout_of(std::vector<Rank>(kHosts, kRanks));
  const Rank ranks = layout.ranks();
  for (const Algorithm* algorithm : hierarchical()) {
    for (int i = 0; i < kCollectives; ++i) {
      const Collective collective = collective_at(i);
      for (const Rank root : {0, ranks / 3, ranks - 1}) {
        const CollectiveSpec spec{collective, ranks, root};
        if (!algorithm->supports(spec, layout) || (root > 0 && !has_root(collective))) continue;
        for (const Rank rank : {0, 1, ranks / 3, ranks / 2 + 3, ranks - 1}) {
          const Schedule schedule = algorithm->build(spec, layout, rank);
          EXPECT_LE(schedule.lanes[0].stored(), 16U * 13 + 16U * kRanks)
              << describe(*algorithm, spec) << ", rank " << rank;
        }
      }
    }
  }
}

TEST(Hierarchical, IsProvedOnUnequalHosts) {
  for (const std::vector<Rank>& hosts :
       std::vector<std::vector<Rank>>{{1, 2}, {2, 1}, {1, 3, 2}, {3, 5}, {2, 7, 3}, {4, 1, 1, 4}}) {
    const Layout layout = layout_of(hosts);
    prove_all(layout, all_roots(layout.ranks()));
  }
}

TEST(Hierarchical, IsProvedOnAnyHosts) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 60; ++round) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(random() % n); };
    const Rank ranks = 1 + below(40);
    const Rank hosts = 1 + below(static_cast<std::uint64_t>(ranks));
    std::vector<Place> places;
    for (Rank rank = 0; rank < ranks; ++rank) {
      places.push_back({.host = below(static_cast<std::uint64_t>(hosts)), .rail = below(3)});
    }
    prove_all(make_layout(places), {below(static_cast<std::uint64_t>(ranks))});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace coll
