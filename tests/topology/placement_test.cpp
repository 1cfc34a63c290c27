// SPDX-License-Identifier: Apache-2.0
// Ranks on machines.
#include "topology/rings/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "topology/read/read_topology.hpp"

namespace coll {
namespace {

using Numbers = std::vector<std::int32_t>;

Topology machine(const std::string& line) {
  Result<Topology> read = read_synthetic(line, "test");
  EXPECT_TRUE(read.ok()) << read.status().text();
  return *std::move(read);
}

Placement placed(const Topology& topology, Rank ranks) {
  Result<Placement> placement = place_ranks(topology, ranks);
  EXPECT_TRUE(placement.ok()) << placement.status().text();
  return *std::move(placement);
}

TEST(Placement, FillsHostsWithGpusInOrder) {
  const Topology topology = machine("host:2 package:2 numa:1 core:4 gpu:4 nvlink:all nic:4@400G");
  const Placement placement = placed(topology, 6);
  EXPECT_EQ(placement.layout.host, (Numbers{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(placement.layout.island, (Numbers{0, 0, 0, 0, 1, 1}));
  const std::vector<NodeId> gpus = topology.all(NodeKind::gpu);
  EXPECT_TRUE(std::equal(placement.node.begin(), placement.node.end(), gpus.begin()));
}

/// As many NICs as GPUs: each GPU gets one of its own, the same on both hosts.
TEST(Placement, GivesEachGpuItsRail) {
  const Placement placement =
      placed(machine("host:2 package:2 numa:1 core:4 gpu:4 nvlink:all nic:4@400G"), 8);
  EXPECT_EQ(std::set<NodeId>(placement.nic.begin(), placement.nic.end()).size(), 8U);
  EXPECT_EQ(placement.layout.rail, (Numbers{0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST(Placement, SharesNicsEqually) {
  const Placement placement = placed(machine("package:1 core:8 gpu:8 nic:2@100G"), 8);
  std::map<NodeId, int> users;
  for (const NodeId nic : placement.nic) ++users[nic];
  ASSERT_EQ(users.size(), 2U);
  EXPECT_EQ(users.begin()->second, 4);
}

TEST(Placement, SpreadsRanksOverPackagesAndCores) {
  const Topology topology = machine("package:2 numa:1 core:4");
  const Placement two = placed(topology, 2);
  EXPECT_EQ(two.layout.numa, (Numbers{0, 1}));
  EXPECT_EQ(two.nic, (std::vector<NodeId>{kNoNode, kNoNode}));
  const Placement eight = placed(topology, 8);
  EXPECT_EQ(eight.node, topology.all(NodeKind::core));
  EXPECT_EQ(eight.layout.numa, (Numbers{0, 0, 0, 0, 1, 1, 1, 1}));
}

/// More ranks than parts share them as equally as can be, neighbours on one part.
TEST(Placement, SharesPartsEqually) {
  for (const char* line : {"host:2 package:1 core:3", "host:2 package:1 core:8 gpu:3"}) {
    const Placement placement = placed(machine(line), 16);
    std::map<NodeId, int> ranks;
    for (const NodeId node : placement.node) ++ranks[node];
    EXPECT_EQ(ranks.size(), 6U) << line;
    for (const auto& [node, count] : ranks) EXPECT_TRUE(count == 2 || count == 3) << line;
    EXPECT_TRUE(std::is_sorted(placement.node.begin(), placement.node.end())) << line;
    EXPECT_EQ(std::count(placement.layout.host.begin(), placement.layout.host.end(), 0), 8) << line;
  }
}

TEST(Placement, RefusesWhatCannotBe) {
  EXPECT_FALSE(place_ranks(machine("core:2"), 0).ok());
  Topology empty;
  empty.source = "thin air";
  const Result<Placement> nowhere = place_ranks(empty, 2);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.status().text().find("thin air"), std::string::npos);
}

}  // namespace
}  // namespace coll
