// SPDX-License-Identifier: Apache-2.0
// Rings and trees over hosts and their NICs.
#include "topology/rings/host_ring.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "machine_of.hpp"
#include "real_machine.hpp"
#include "test_seed.hpp"
#include "topology/pair_table.hpp"
#include "topology/rail_nics.hpp"
#include "topology/rings/direct_pattern.hpp"

namespace coll {
namespace {

using test::machine_of;

double sum(const std::vector<NicRing>& rings) {
  return std::accumulate(rings.begin(), rings.end(), 0.0, [](double so_far, const NicRing& ring) {
    return so_far + ring.gbytes_per_s;
  });
}

/// The GPUs' numbers.
std::vector<int> numbers(const Topology& topology, const std::vector<NodeId>& gpus) {
  std::vector<int> found;
  for (const NodeId gpu : gpus) found.push_back(topology[gpu].index);
  return found;
}

Distance to_nic(const Topology& topology, NodeId nic, NodeId gpu) {
  return pci_path_between(topology, nic, gpu).distance;
}

void expect_all_once(std::vector<int> order, std::size_t members) {
  std::sort(order.begin(), order.end());
  std::vector<int> all(members);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}

/// What every set of rings over hosts must be.
void expect_rings(const Topology& topology, const std::vector<NodeId>& group,
                  const std::vector<NicRing>& rings) {
  std::set<NodeId> nics;
  for (const NicRing& ring : rings) {
    expect_all_once(ring.order, group.size());
    std::size_t place = 0;
    for (const HostRing& part : ring.hosts) {
      if (part.nic != kNoNode) {
        EXPECT_TRUE(nics.insert(part.nic).second) << "two rings over one NIC";
        EXPECT_EQ(topology.above(part.nic, NodeKind::host),
                  topology.above(part.gpus[0], NodeKind::host));
      }
      for (const NodeId gpu : part.gpus) {
        EXPECT_EQ(topology.above(gpu, NodeKind::host),
                  topology.above(part.gpus[0], NodeKind::host));
        EXPECT_EQ(group[static_cast<std::size_t>(ring.order[place++])], gpu);
      }
    }
    EXPECT_EQ(place, group.size());
  }
}

TEST(NicRings, StartAtTheGpuBesideTheirNic) {
  const Topology topology = machine_of(
      "host:3 package:2 gpu:8 nvlink:switchx18 nic:8@400G pciswitch:4 pcie:5x16 switch:8");
  const auto gpus = topology.all(NodeKind::gpu);
  const auto rings = nic_rings(topology, gpus);
  ASSERT_EQ(rings.size(), 8U);
  expect_rings(topology, gpus, rings);
  for (int rail = 0; rail < 8; ++rail)
    for (const HostRing& part : rings[static_cast<std::size_t>(rail)].hosts) {
      EXPECT_EQ(topology[part.nic].name, "NIC" + std::to_string(rail));
      EXPECT_EQ(topology[part.gpus[0]].index, rail);
    }
  EXPECT_EQ(sum(rings), 8 * 50);
}

TEST(NicRings, AreAsWideAsTheNicsAndMeasurementsComeClose) {
  // references.json: two hosts of 8 GPUs behind switches, bound by their NICs.
  struct Published {
    const char* line;
    double bound, busbw;
  };
  for (const auto& [line, bound, busbw] :
       {Published{"host:2 package:2 numa:4 gpu:8 nvlink:switchx12 nic:4@200G pcie:4x16", 100, 91},
        Published{"host:2 package:2 gpu:8 nvlink:switchx18 nic:4@400G pcie:5x16", 200, 193}}) {
    const Topology topology = machine_of(line);
    const auto gpus = topology.all(NodeKind::gpu);
    const auto rings = nic_rings(topology, gpus);
    EXPECT_EQ(rings.size(), 4U);
    expect_rings(topology, gpus, rings);
    EXPECT_EQ(sum(rings), bound);
    EXPECT_GT(busbw, 0.9 * sum(rings));
  }
}

TEST(NicRings, OfPublishedMachines) {
  // 8 GPUs, 2 NICs, one on each socket: the rings begin at 0 and at 7 (references.json, nccl#1313).
  Topology topology = machine_of("host:2 package:2 gpu:8 nvlink:switchx8 nic:2@200G pcie:5x16");
  auto rings = nic_rings(topology, topology.all(NodeKind::gpu));
  ASSERT_EQ(rings.size(), 2U);
  EXPECT_LT(topology[rings[0].hosts[0].gpus[0]].index, 4);
  EXPECT_GE(topology[rings[1].hosts[0].gpus[0]].index, 4);
  // 4 GPUs and 4 NICs on two sockets, no links: the published rings cross between sockets twice,
  // the way back to the NIC counted (nccl#601). These do too, and leave beside the NIC.
  topology = machine_of("host:2 package:2 gpu:4 nic:4@10G pcie:3x16");
  rings = nic_rings(topology, topology.all(NodeKind::gpu));
  ASSERT_EQ(rings.size(), 4U);
  for (std::size_t at = 0; at < 4; ++at) {
    const auto order = numbers(topology, rings[at].hosts[1].gpus);
    int crossings = 0;
    for (std::size_t i = 0; i < 4; ++i) crossings += order[i] / 2 != order[(i + 1) % 4] / 2 ? 1 : 0;
    EXPECT_EQ(crossings, 2);
    EXPECT_EQ(order[0] / 2, static_cast<int>(at) / 2) << "enters on the NIC's socket";
    EXPECT_EQ(rings[at].gbytes_per_s, 1.25);
  }
}

TEST(HostRings, AreTheBestOfAll) {
  std::mt19937_64 random(test::test_seed());
  for (const char* line :
       {"package:2 gpu:6 nvlink:ring nic:2", "package:3 gpu:6 nvlink:pairs nic:3 pciswitch:1",
        "package:2 numa:2 gpu:7 nic:2 pciswitch:2", "package:2 gpu:5 nvlink:ring nic:4"}) {
    const Topology topology = machine_of(line);
    auto gpus = topology.all(NodeKind::gpu);
    for (std::size_t left = gpus.size(); left > 1; --left)
      std::swap(gpus[left - 1], gpus[random() % left]);
    const HostRing found = host_rings(topology, gpus)[0];  // the first finds all links free
    using Counts = std::map<Distance, int, std::greater<>>;
    const auto hops_of = [&](const std::vector<NodeId>& order) {
      Counts counts;
      for (Distance each : {Distance::sys, Distance::node, Distance::phb, Distance::pxb,
                            Distance::pix, Distance::link})
        counts[each] = 0;
      ++counts[to_nic(topology, found.nic, order.front())];
      ++counts[to_nic(topology, found.nic, order.back())];
      for (std::size_t i = 0; i + 1 < order.size(); ++i)
        ++counts[path_between(topology, order[i], order[i + 1]).distance];
      return std::vector<std::pair<Distance, int>>(counts.begin(), counts.end());
    };
    std::vector<NodeId> each = gpus;
    Distance nearest = Distance::unknown;
    for (const NodeId gpu : gpus) nearest = std::min(nearest, to_nic(topology, found.nic, gpu));
    EXPECT_EQ(to_nic(topology, found.nic, found.gpus.front()), nearest);
    // Of those that enter and leave at the same GPUs.
    std::sort(each.begin(), each.end());
    auto best = hops_of(found.gpus);
    do
      if (each.front() == found.gpus.front() && each.back() == found.gpus.back())
        best = std::min(best, hops_of(each));
    while (std::next_permutation(each.begin(), each.end()));
    EXPECT_EQ(hops_of(found.gpus), best) << line;
  }
}

TEST(HostRings, TakeLinksThatNoOtherHas) {
  // A ring of single links both ways: two rings over two NICs can run without sharing any.
  const Topology topology = machine_of("gpu:4 nvlink:all nic:4");
  const auto gpus = topology.all(NodeKind::gpu);
  std::map<std::pair<NodeId, NodeId>, int> used;
  for (const HostRing& ring : host_rings(topology, gpus))
    for (std::size_t i = 0; i + 1 < ring.gpus.size(); ++i)
      EXPECT_EQ((used[std::pair(ring.gpus[i], ring.gpus[i + 1])]++), 0);
}

TEST(NicRings, OfAnyGroupOnAnyHosts) {
  std::mt19937_64 random(test::test_seed());
  const Topology topology = machine_of(R"({"cluster": 1, "hosts": [
      {"count": 5, "topology": "package:2 gpu:8 nvlink:switchx18 nic:8@400G pciswitch:4"},
      {"count": 3, "topology": "package:2 gpu:6 nvlink:ring nic:3@400G"}],
    "network": {"leaf": "rail"}})");
  for (int round = 0; round < 30; ++round) {
    auto group = topology.all(NodeKind::gpu);
    for (std::size_t left = group.size(); left > 1; --left)
      std::swap(group[left - 1], group[random() % left]);
    group.resize(1 + random() % group.size());
    const auto rings = nic_rings(topology, group);
    ASSERT_FALSE(rings.empty());
    expect_rings(topology, group, rings);
    // Hosts of equal build have what each would have alone.
    for (const HostRing& part : rings[0].hosts) {
      std::vector<NodeId> members;
      for (const NodeId gpu : group)
        if (topology.above(gpu, NodeKind::host) == topology.above(part.gpus[0], NodeKind::host))
          members.push_back(gpu);
      const std::vector<HostRing> own = host_rings(topology, members);
      EXPECT_NE(std::find(own.begin(), own.end(), part), own.end());
    }
    for (const auto& order : ring_orders(topology, group)) expect_all_once(order, group.size());
  }
  // One GPU of each host: over the NICs beside them.
  const auto gpus = topology.all(NodeKind::gpu);
  const std::vector<NodeId> third{gpus[3], gpus[11]};
  const auto rings = nic_rings(topology, third);
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(topology[rings[0].hosts[0].nic].name, "NIC3");
  EXPECT_TRUE(nic_rings(topology, {}).empty());
}

TEST(NicRings, WithoutNicsThereIsOne) {
  const Topology topology = machine_of("gpu:4 nvlink:ring");
  const auto gpus = topology.all(NodeKind::gpu);
  ASSERT_EQ(nic_rings(topology, gpus).size(), 1U);
  EXPECT_EQ(nic_rings(topology, gpus)[0].hosts[0].nic, kNoNode);
  EXPECT_EQ(ring_orders(topology, gpus).size(), 2U) << "one each way";
}

TEST(DirectPattern, TellsMeshAndFabricFromTheRest) {
  const auto pattern = [](const char* line) {
    const Topology topology = machine_of(line);
    return direct_pattern(topology, topology.all(NodeKind::gpu));
  };
  EXPECT_EQ(pattern("gpu:8 xgmi:all@64GB"), (Direct{DirectPattern::mesh, 1, 64}));
  EXPECT_EQ(pattern("gpu:8 nvlink:switchx18@25GB"), (Direct{DirectPattern::fabric, 18, 450}));
  EXPECT_EQ(pattern("gpu:2 nvlink:pairsx4"), (Direct{DirectPattern::mesh, 4, 100}));
  for (const char* line : {"gpu:4 nvlink:ring", "gpu:4 nvlink:pairs", "gpu:4", "gpu:1 nvlink:all",
                           "host:2 gpu:4 nvlink:all nic:1"})
    EXPECT_EQ(pattern(line).pattern, DirectPattern::none) << line;
}

// ---- real machines, where they are

class RealHost : public real_machines::Machine {};

TEST_P(RealHost, HasRingsOverItsNics) {
  const auto gpus = topology.all(NodeKind::gpu);
  const auto rings = nic_rings(topology, gpus);
  ASSERT_FALSE(rings.empty());
  expect_rings(topology, gpus, rings);
  EXPECT_EQ(rings.size(), std::max<std::size_t>(1, rail_nics(topology, 0).size()));
}

TEST_P(RealHost, StandsInAClusterAsItIs) {
  if (rail_nics(topology, 0).empty()) GTEST_SKIP() << "no NIC";
  const std::string file =
      (real_machines::kFolder / real_machines::expectations()[GetParam()]["files"][0]).string();
  const Topology cluster = machine_of(R"({"cluster": 1, "hosts": [{"count": 3, "topology": ")" +
                                      file + R"("}], "network": {"leaf": "rail", "gbits": 200}})");
  const auto gpus = cluster.all(NodeKind::gpu), alone = topology.all(NodeKind::gpu);
  ASSERT_EQ(gpus.size(), 3 * alone.size());
  for (std::size_t a = 0; a < alone.size(); ++a)
    for (std::size_t b = 0; b < alone.size(); ++b) {
      const std::size_t last = 2 * alone.size();
      EXPECT_EQ(path_between(cluster, gpus[last + a], gpus[last + b]),
                path_between(topology, alone[a], alone[b]));
    }
  const auto rings = nic_rings(cluster, gpus);
  expect_rings(cluster, gpus, rings);
  EXPECT_EQ(rings.size(), rail_nics(topology, 0).size());
  for (const NicRing& ring : rings) {
    EXPECT_GT(ring.gbytes_per_s, 0);
    EXPECT_LE(ring.gbytes_per_s, 25);
  }
}

std::vector<std::string> with_gpus() {
  std::vector<std::string> found;
  for (const auto& [name, each] : real_machines::expectations().items())
    if (each["kind"] != "sysfs" &&
        (each["facts"].value("gpu_count", 0) > 0 || each["kind"] == "smi"))
      found.push_back(name);
  return found;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealHost);
INSTANTIATE_TEST_SUITE_P(All, RealHost, testing::ValuesIn(with_gpus()), real_machines::test_name);

TEST(RealPattern, IsWhatTheMachineIsKnownFor) {
  if (real_machines::expectations().empty()) GTEST_SKIP() << "no real machines";
  const auto pattern = [](const char* file) {
    const auto read = read_topology_file((real_machines::kFolder / file).string());
    EXPECT_TRUE(read.ok()) << read.status().text();
    return direct_pattern(*read, read->all(NodeKind::gpu));
  };
  EXPECT_EQ(pattern("nccl/rccl-8p_940.xml").pattern, DirectPattern::mesh);
  EXPECT_EQ(pattern("smi/dell-c4140-v100-x4.tsv"), (Direct{DirectPattern::mesh, 2, 0}));
  EXPECT_EQ(pattern("smi/hgx-a100-8nic.tsv"), (Direct{DirectPattern::fabric, 12, 0}));
  EXPECT_EQ(pattern("hwloc/nvidia-dgx2h.xml"), (Direct{DirectPattern::fabric, 6, 150}));
  EXPECT_EQ(pattern("smi/v100-x8-cubemesh-1nic.tsv").pattern, DirectPattern::none);
}

}  // namespace
}  // namespace coll
