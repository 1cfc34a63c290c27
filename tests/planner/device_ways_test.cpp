// SPDX-License-Identifier: Apache-2.0
// The ways between the GPUs of a host, beside those of the same machine when it is described.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "device_hosts.hpp"
#include "planner/networks/machine_network.hpp"

namespace coll {
namespace {

using Names = std::vector<std::string>;

/// What ranks publish of a host is what the same machine has when it is described.
void expect_described(const Topology& topology) {
  const std::vector<NodeId> gpus =
      topology.parts(topology.all(NodeKind::host).front(), NodeKind::gpu);
  const auto ranks = static_cast<Rank>(gpus.size());
  Placement placement;
  placement.layout = Layout::flat(ranks);
  placement.node = gpus;
  placement.nic.assign(gpus.size(), kNoNode);
  const Network described = machine_network(topology, placement, usual_costs());
  const DeviceWays ways = device_ways(topology, gpus, usual_costs().link);
  ASSERT_TRUE(ways.sensible() && ways.fits(gpus.size()));
  ASSERT_EQ(ways.gpu.size(), gpus.size());
  for (Rank source = 0; source < ranks; ++source) {
    for (Rank target = 0; target < ranks; ++target) {
      if (source == target) continue;
      const DeviceWay& way =
          ways.way(static_cast<std::size_t>(source), static_cast<std::size_t>(target));
      const Route route = described.route(source, target);
      ASSERT_EQ(way.size(), route.links.size());
      for (std::size_t i = 0; i < way.size(); ++i) {
        const Network::Link& link = described.links[route.links[i]];
        EXPECT_EQ(ways.links[way[i]].name, link.name);
        EXPECT_NEAR(ways.links[way[i]].gbytes_per_s * link.us_per_byte, 1e-3, 1e-9);
      }
      EXPECT_NEAR(ways.gbytes_per_s(way) / narrowest(described, route), 1, 1e-6);
    }
  }
}

TEST(DeviceWays, AreThoseOfTheDescribedMachine) {
  for (const char* text :
       {kSwitched, kOnPci, kBridged, kMeshed, "gpu:6 nvlink:allx3@25GB pcie:4x16",
        "host:2 package:2 gpu:4 nvlink:switchx4@25GB nic:4@100G pcie:4x16"}) {
    SCOPED_TRACE(text);
    expect_described(host_topology(text));
  }
}

TEST(DeviceWays, AreThoseOfRealMachines) {
  const std::filesystem::path folder =
      std::filesystem::path(COLL_SOURCE_ROOT) / "../shared/topologies";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  int machines = 0;
  for (const char* kind : {"hwloc", "nccl", "smi"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder / kind)) {
      const Result<Topology> read = read_topology_file(file.path().string());
      if (!read.ok() || read->count(NodeKind::host) == 0 || read->count(NodeKind::gpu) < 2)
        continue;
      SCOPED_TRACE(file.path());
      expect_described(*read);
      ++machines;
    }
  }
  EXPECT_GT(machines, 20);
}

TEST(DeviceWays, CountEachGpuAndEachLinkOnce) {
  const DeviceWays ways = ways_of(host_topology(kSwitched), {3, 0, 3, 5});
  EXPECT_EQ(ways.gpu, (std::vector<std::int32_t>{0, 1, 0, 2}));
  EXPECT_EQ(ways.gpus, (Names{"GPU3", "GPU0", "GPU5"}));
  std::set<std::string> names;
  for (const DeviceLink& link : ways.links)
    EXPECT_TRUE(names.insert(link.name).second) << link.name;
  EXPECT_NEAR(ways.gbytes_per_s(ways.way(0, 1)), 18 * 25 * usual_costs().link.nvlink_yield, 1e-3);
  EXPECT_NEAR(ways.gbytes_per_s(ways.up[0]), 63 * usual_costs().link.pcie_yield, 0.1);
  EXPECT_NEAR(ways.gbytes_per_s(ways.down[2]), 63 * usual_costs().link.pcie_yield, 0.1);
}

TEST(DeviceWays, SayNothingOfRanksWithoutAGpu) {
  const Topology topology = host_topology(kOnPci);
  const std::vector<NodeId> gpus = topology.all(NodeKind::gpu);
  const LinkCost& link = usual_costs().link;
  EXPECT_EQ(device_ways(topology, std::vector{kNoNode, kNoNode}, link), DeviceWays{});
  const DeviceWays one = device_ways(topology, std::vector{kNoNode, gpus[1]}, link);
  EXPECT_EQ(one.gpu, (std::vector<std::int32_t>{-1, 0}));
  EXPECT_TRUE(one.sensible());
}

TEST(DeviceWays, PartsThatDoNotFitAreNotSensible) {
  const DeviceWays good = ways_of(host_topology(kBridged), {0, 1, 2, 2});
  ASSERT_TRUE(good.sensible() && good.fits(4));
  EXPECT_FALSE(good.fits(3));
  EXPECT_TRUE(DeviceWays{}.sensible() && DeviceWays{}.fits(7));
  std::vector<DeviceWays> bad(10, good);
  bad[0].gpu[1] = 3;
  bad[1].gpu[1] = -2;
  bad[2].gpus.pop_back();
  bad[3].links[0].gbytes_per_s = 0;
  bad[4].links[0].gbytes_per_s = std::numeric_limits<float>::infinity();
  bad[5].between.pop_back();
  bad[6].between[1].push_back(static_cast<std::uint16_t>(good.links.size()));
  bad[7].between[1].clear();
  bad[8].between[0] = {0};
  bad[9].up[0].clear();
  for (std::size_t i = 0; i < bad.size(); ++i) EXPECT_FALSE(bad[i].sensible()) << i;
}

}  // namespace
}  // namespace coll
