// SPDX-License-Identifier: Apache-2.0
// Ranks in groups, whatever order they come in.
#include "topology/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "test_seed.hpp"

namespace coll {
namespace {

/// Two hosts of two NUMA nodes with two NICs, host keys that are no small numbers.
std::vector<Place> two_hosts() {
  std::vector<Place> places;
  for (const std::int64_t host : {900, 7}) {
    for (std::int32_t rank = 0; rank < 4; ++rank) places.push_back({host, rank / 2, 0, rank % 2});
  }
  return places;
}

TEST(Layout, NumbersGroupsByTheirFirstRank) {
  const Layout layout = make_layout(two_hosts());
  EXPECT_EQ(layout.ranks(), 8);
  EXPECT_EQ(layout.hosts(), 2);
  EXPECT_EQ(layout.host, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(layout.numa, (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(layout.island, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(layout.rail, (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(Layout, KnowsTheFirstRankOfEachHost) {
  const Layout layout = make_layout(
      std::vector<Place>{{.host = 7}, {.host = 3}, {.host = 7}, {.host = 1}, {.host = 3}});
  std::vector<bool> first;
  for (Rank rank = 0; rank < 5; ++rank) first.push_back(layout.is_first_of_its_host(rank));
  EXPECT_EQ(first, (std::vector<bool>{true, true, false, true, false}));
}

TEST(Layout, PutsMembersOfOneRailAtOnePlace) {
  const Layout layout = make_layout(two_hosts());
  EXPECT_EQ(layout.members, (std::vector<std::vector<Rank>>{{0, 2, 1, 3}, {4, 6, 5, 7}}));
  EXPECT_EQ(layout.rings, (std::vector<std::vector<Rank>>{{0, 2, 1, 3, 4, 6, 5, 7}}));
}

TEST(Layout, OfOneHostIsInTheOrderOfRanks) {
  const Layout layout = Layout::flat(3);
  EXPECT_EQ(layout.members, (std::vector<std::vector<Rank>>{{0, 1, 2}}));
  EXPECT_EQ(layout.rings, layout.members);
  EXPECT_EQ(layout, make_layout(std::vector<Place>{{5}, {5}, {5}}));
}

TEST(Layout, JoinsThePathsOfHostsToRings) {
  // The ranks of both hosts in turn; host 0 has ranks 0, 2, 4, host 1 has 1, 3.
  const std::vector<Place> places{{5}, {7}, {5}, {7}, {5}};
  const HostPath there{{0, 1, 2}, 0, 1}, back{{2, 1, 0}, 1, 0};
  const HostPath one{{0, 1}, 0, 0}, other{{1, 0}, 1, 1};
  using Paths = std::vector<std::vector<HostPath>>;
  const Layout layout = make_layout(places, Paths{{there, back}, {one, other}});
  // What leaves host 0 by rail 1 enters host 1 by it.
  EXPECT_EQ(layout.rings, (std::vector<std::vector<Rank>>{{0, 2, 4, 3, 1}, {4, 2, 0, 1, 3}}));
  EXPECT_EQ(layout.line, (std::vector<Rank>{0, 2, 4, 1, 3})) << "host by host";
  EXPECT_EQ(layout.members, make_layout(places).members);

  const Layout single = make_layout(places, Paths{{back, there}, {other}});
  EXPECT_EQ(single.rings, (std::vector<std::vector<Rank>>{{4, 2, 0, 3, 1}}));
  EXPECT_EQ(single.line, single.rings[0]);
  EXPECT_EQ(make_layout(places, Paths{{there}, {}}), make_layout(places)) << "a host without paths";
}

TEST(Layout, IsToldOnlyWhereItSaysMoreThanHosts) {
  EXPECT_EQ(to_text(Layout::flat(3), 1), "");
  EXPECT_EQ(to_text(make_layout(std::vector<Place>{{1}, {2}, {2}}), 1), "");
  const Layout layout = make_layout(std::vector<Place>{{1, 0, 4, 0}, {1, 0, 4, 1}, {1, 0, 5, 0}});
  EXPECT_EQ(to_text(layout, 2),
            "place of rank 2: host 0, NUMA node 0, island 1, rail 0\norders: 0 2 1\n");
}

/// Whatever order the ranks come in: the same ranks are together, and groups count from 0 by first
/// rank.
TEST(Layout, GroupsAlikeHoweverRanksAreOrdered) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<Place> places;
    for (std::uint64_t left = 1 + random() % 24; left > 0; --left) {
      const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(random() % n); };
      places.push_back({below(4) * 1000 - 500, below(3) - 1, below(3) - 1, below(3) - 1});
    }
    const Layout layout = make_layout(places);
    const auto expect = [&](const std::vector<std::int32_t>& group, auto same) {
      std::int32_t next = 0;
      for (std::size_t a = 0; a < places.size(); ++a) {
        ASSERT_LE(group[a], next) << "a group's number skips one";
        next = std::max(next, group[a] + 1);
        for (std::size_t b = 0; b < a; ++b) {
          EXPECT_EQ(group[a] == group[b], same(places[a], places[b]));
        }
      }
    };
    expect(layout.host, [](const Place& a, const Place& b) { return a.host == b.host; });
    expect(layout.numa,
           [](const Place& a, const Place& b) { return a.host == b.host && a.numa == b.numa; });
    expect(layout.island,
           [](const Place& a, const Place& b) { return a.host == b.host && a.island == b.island; });
    expect(layout.rail, [](const Place& a, const Place& b) { return a.rail == b.rail; });

    std::vector<Rank> all(places.size()), ring = layout.rings.at(0);
    std::iota(all.begin(), all.end(), 0);
    for (const std::vector<Rank>& members : layout.members) {
      EXPECT_NE(std::search(ring.begin(), ring.end(), members.begin(), members.end()), ring.end());
    }
    std::sort(ring.begin(), ring.end());
    EXPECT_EQ(ring, all);
  }
}

}  // namespace
}  // namespace coll
