// SPDX-License-Identifier: Apache-2.0
// Algorithms that follow the orders of a layout are right for any orders, and follow them.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "proved.hpp"
#include "schedule/proof/block_lengths.hpp"
#include "test_seed.hpp"

namespace coll {
namespace {

using Random = std::mt19937_64;

/// Ranks in any order on hosts of any sizes, with random paths of rings through each host.
Layout random_layout(Random& random, Rank hosts, Rank most_on_host, std::size_t rings) {
  std::vector<Place> places;
  std::vector<std::size_t> sizes;
  for (Rank host = 0; host < hosts; ++host) {
    const auto size = 1 + random() % static_cast<std::uint64_t>(most_on_host);
    places.insert(places.end(), size, Place{.host = host});
  }
  std::shuffle(places.begin(), places.end(), random);
  const Layout plain = make_layout(places);
  std::vector<std::vector<HostPath>> paths;
  for (const std::vector<Rank>& members : plain.members) {
    std::vector<HostPath>& of_host = paths.emplace_back(rings);
    for (std::size_t ring = 0; ring < rings; ++ring) {
      of_host[ring].order.resize(members.size());
      std::iota(of_host[ring].order.begin(), of_host[ring].order.end(), 0);
      std::shuffle(of_host[ring].order.begin(), of_host[ring].order.end(), random);
      of_host[ring].in = static_cast<std::int32_t>(ring);
      of_host[ring].out = static_cast<std::int32_t>(random() % rings);
    }
  }
  return make_layout(places, paths);
}

std::string text_of(const Layout& layout) {
  std::string text = "hosts";
  for (const std::int32_t host : layout.host) text += ' ' + std::to_string(host);
  for (const std::vector<Rank>& ring : layout.rings) {
    text += ", ring";
    for (const Rank rank : ring) text += ' ' + std::to_string(rank);
  }
  return text;
}

TEST(Orders, AreProvedWhateverTheyAre) {
  Random random(test::test_seed());
  int unequal_proofs = 0;
  for (int round = 0; round < 60; ++round) {
    const Layout layout = random_layout(random, static_cast<Rank>(1 + random() % 7),
                                        static_cast<Rank>(1 + random() % 4), 1 + random() % 3);
    const Rank ranks = layout.ranks();
    if (ranks < 2) continue;
    SCOPED_TRACE(text_of(layout));
    for (const char* name : {"ring", "chain", "double_binary_tree", "balanced_trees"}) {
      for (int i = 0; i < kCollectives; ++i) {
        const Collective collective = collective_at(i);
        for (Rank root = 0; root < (has_root(collective) ? ranks : 1); ++root) {
          const CollectiveSpec spec{collective, ranks, root};
          if (!find_algorithm(name)->supports(spec, layout)) continue;
          SCOPED_TRACE(describe(*find_algorithm(name), spec));
          prove(*find_algorithm(name), spec, layout);
          CollectiveSpec unequal = spec;
          unequal.unequal = true;
          if (find_algorithm(name)->serves(unequal, layout)) {
            const Status known =
                verify_block_lengths(build_all(*find_algorithm(name), unequal, layout));
            EXPECT_TRUE(known.ok()) << known.text();
            ++unequal_proofs;
          }
          if (HasFailure()) return;  // one message is enough
        }
      }
    }
  }
  EXPECT_GT(unequal_proofs, 60) << "of all_gatherv and reduce_scatterv along rings";
}

TEST(BalancedTrees, AreProvedForFourThousandRanks) {
  std::vector<Place> places;
  for (Rank rank = 0; rank < 4096; ++rank) places.push_back({.host = rank / 8});
  std::vector<HostPath> paths;
  for (std::int32_t ring = 0; ring < 4; ++ring) {
    HostPath& path = paths.emplace_back(HostPath{{}, ring, ring});
    for (std::int32_t place = 0; place < 8; ++place) path.order.push_back((2 * ring + place) % 8);
  }
  const Layout layout = make_layout(places, std::vector<std::vector<HostPath>>(512, paths));
  for (const Collective collective :
       {Collective::all_reduce, Collective::broadcast, Collective::reduce}) {
    const CollectiveSpec spec{collective, 4096, has_root(collective) ? 1365 : 0};
    SCOPED_TRACE(describe(*find_algorithm("balanced_trees"), spec));
    prove(*find_algorithm("balanced_trees"), spec, layout);
  }
}

/// Several rings through ranks in any order.
TEST(Ring, FollowsTheRingsOfTheLayout) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 40; ++round) {
    const auto ranks = static_cast<Rank>(2 + random() % 12);
    Layout layout = Layout::flat(ranks);
    layout.rings.resize(1 + random() % 3, layout.rings[0]);
    for (std::vector<Rank>& ring : layout.rings) std::shuffle(ring.begin(), ring.end(), random);
    for (int i = 0; i < kCollectives; ++i) {
      const CollectiveSpec spec{collective_at(i), ranks, 0};
      if (!find_algorithm("ring")->supports(spec, layout)) continue;
      SCOPED_TRACE(describe(*find_algorithm("ring"), spec));
      prove(*find_algorithm("ring"), spec, layout);
      for (const Schedule& schedule : build_all(*find_algorithm("ring"), spec, layout)) {
        for (std::size_t lane = 0; lane < layout.rings.size(); ++lane) {
          const std::vector<Rank>& ring = layout.rings[lane];
          auto next = std::next(std::find(ring.begin(), ring.end(), schedule.rank));
          if (next == ring.end()) next = ring.begin();
          for (const Step& step : schedule.lanes[lane]) {
            if (!step.sends()) continue;
            EXPECT_EQ(step.target, *next);
          }
        }
      }
    }
  }
}

/// On the way down, each rank of a chain sends to the next one of the layout's line, which is
/// the only ring.
TEST(Chain, FollowsTheLineFromTheRootOn) {
  Random random(test::test_seed());
  for (int round = 0; round < 20; ++round) {
    const Layout layout = random_layout(random, 3, 3, 1);
    const Rank ranks = layout.ranks(), root = static_cast<Rank>(random() % layout.host.size());
    std::vector<Rank> ring = layout.rings[0];
    std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), root), ring.end());
    const auto schedules =
        build_all(*find_algorithm("chain"), {Collective::broadcast, ranks, root}, layout);
    for (std::size_t place = 0; place + 1 < ring.size(); ++place) {
      const Lane& lane = schedules[static_cast<std::size_t>(ring[place])].lanes[0];
      EXPECT_EQ(lane[0].target, ring[place + 1]) << text_of(layout) << " root " << root;
    }
  }
}

/// Who a rank sends to, lane by lane, in a broadcast: its children in each tree.
std::vector<std::vector<std::vector<Rank>>> children_of(const Layout& layout, Rank root) {
  std::vector<std::vector<std::vector<Rank>>> lanes;
  for (const Schedule& schedule :
       build_all(*find_algorithm("balanced_trees"), {Collective::broadcast, layout.ranks(), root},
                 layout)) {
    lanes.resize(schedule.lanes.size());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      auto& children = lanes[lane].emplace_back();
      for (const Step& step : schedule.lanes[lane]) {
        if (step.sends()) children.push_back(step.target);
      }
    }
  }
  return lanes;
}

/// Only the ranks next to a ring's NICs talk to other hosts; each host has at most two hosts below
/// it in a tree, and none in the other tree of the same ring. So all NICs send alike.
TEST(BalancedTrees, AreBinaryAcrossHostsAndShareTheWork) {
  Random random(test::test_seed());
  for (Rank hosts = 2; hosts <= 20; ++hosts) {
    const Layout layout = random_layout(random, hosts, 4, 2);
    if (layout.hosts() == layout.ranks()) continue;
    SCOPED_TRACE(text_of(layout));
    const Rank root = layout.rings[0].front();
    const auto lanes = children_of(layout, root);
    ASSERT_EQ(lanes.size(), hosts == 2 ? 2U : 4U);
    const std::size_t of_a_ring = lanes.size() / 2;
    for (std::size_t ring = 0; ring < 2; ++ring) {
      std::set<Rank> heads;
      Rank before = -1;
      for (const Rank rank : layout.rings[ring]) {
        const Rank host = layout.host[static_cast<std::size_t>(rank)];
        if (host != before) heads.insert(rank);
        before = host;
      }
      std::map<Rank, std::size_t> trees_with_children;
      for (std::size_t tree = ring * of_a_ring; tree < (ring + 1) * of_a_ring; ++tree) {
        for (std::size_t rank = 0; rank < lanes[tree].size(); ++rank) {
          const Rank host = layout.host[rank];
          std::size_t elsewhere = 0;
          for (const Rank child : lanes[tree][rank]) {
            if (layout.host[static_cast<std::size_t>(child)] == host) continue;
            EXPECT_TRUE(heads.contains(static_cast<Rank>(rank))) << rank << " sends to " << child;
            EXPECT_TRUE(heads.contains(child)) << rank << " sends to " << child;
            ++elsewhere;
          }
          EXPECT_LE(elsewhere, 2U);
          if (elsewhere > 0) ++trees_with_children[host];
        }
      }
      for (const auto& [host, trees] : trees_with_children) {
        EXPECT_LE(trees, host == layout.host[static_cast<std::size_t>(root)] ? 2U : 1U) << host;
      }
    }
  }
}

TEST(BalancedTrees, OfOneHostAreChainsAlongItsRings) {
  const std::vector<HostPath> paths{{{0, 1, 2, 3}}, {{0, 2, 1, 3}}};
  const Layout layout =
      make_layout(std::vector<Place>(4), std::vector<std::vector<HostPath>>{paths});
  using Children = std::vector<std::vector<Rank>>;
  EXPECT_EQ(children_of(layout, 2),
            (std::vector<Children>{{{1}, {}, {3}, {0}}, {{}, {3}, {1}, {0}}}));
  EXPECT_FALSE(
      find_algorithm("balanced_trees")->supports({Collective::broadcast, 4, 0}, Layout::flat(4)));
}

}  // namespace
}  // namespace coll
