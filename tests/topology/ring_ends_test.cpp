// SPDX-License-Identifier: Apache-2.0
// Where rings over several NICs enter and leave a host, and what they move together.
#include "topology/rings/ring_ends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "machine_of.hpp"
#include "topology/rings/host_ring.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

using test::machine_of;

Distance to_nic(const Topology& topology, NodeId nic, NodeId gpu) {
  return pci_path_between(topology, nic, gpu).distance;
}

TEST(RingEnds, AreGpusOfTheirOwn) {
  for (const char* line :
       {"package:2 gpu:8 nvlink:switchx18 nic:8@400G pciswitch:4 pcie:5x16",
        "package:2 gpu:8 nvlink:switchx18 nic:8@400G pciswitch:2 pcie:5x16",
        "package:2 numa:2 gpu:8 nvlink:switchx12 nic:4@200G pcie:4x16",
        "package:2 gpu:8 xgmi:all@64GB nic:8@400G pciswitch:4 pcie:5x16",
        "gpu:8 xgmi:all@64GB nic:8@400G", "package:2 gpu:8 nvlink:ring nic:8@100G pciswitch:2",
        "package:2 gpu:4 nvlink:pairs nic:4@100G", "gpu:5 nvlink:all nic:5", "gpu:2 nic:2",
        "package:2 gpu:20 nvlink:ring nic:10"}) {
    SCOPED_TRACE(line);
    const Topology topology = machine_of(line);
    std::set<NodeId> first, last;
    for (const HostRing& ring : host_rings(topology, topology.all(NodeKind::gpu))) {
      EXPECT_TRUE(first.insert(ring.gpus.front()).second) << "two enter by one GPU";
      EXPECT_TRUE(last.insert(ring.gpus.back()).second) << "two leave by one GPU";
      EXPECT_LE(to_nic(topology, ring.nic, ring.gpus.front()), Distance::node);
      EXPECT_LE(to_nic(topology, ring.nic, ring.gpus.back()), Distance::node);
    }
  }
}

TEST(RingEnds, OfMoreNicsThanGpusShareThemEqually) {
  const Topology topology = machine_of("package:2 gpu:4 nvlink:switchx18 nic:16@100G pciswitch:2");
  std::map<NodeId, int> first, last;
  for (const HostRing& ring : host_rings(topology, topology.all(NodeKind::gpu))) {
    ++first[ring.gpus.front()];
    ++last[ring.gpus.back()];
    EXPECT_EQ(to_nic(topology, ring.nic, ring.gpus.front()), Distance::pix);
  }
  for (const auto& ends : {first, last}) {
    ASSERT_EQ(ends.size(), 4U);
    for (const auto& [gpu, rings] : ends) EXPECT_EQ(rings, 4);
  }
  const Topology single = machine_of("gpu:1 nic:3");
  EXPECT_EQ(host_rings(single, single.all(NodeKind::gpu)).size(), 3U);
}

TEST(RingEnds, RatherShareAGpuThanCrossThePackages) {
  // All NICs on the second package.
  const Topology topology = machine_of(
      "dev\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\n"
      "GPU0\tX\tNV18\tNV18\tNV18\tSYS\tSYS\tSYS\n"
      "GPU1\tNV18\tX\tNV18\tNV18\tSYS\tSYS\tSYS\n"
      "GPU2\tNV18\tNV18\tX\tNV18\tNODE\tNODE\tNODE\n"
      "GPU3\tNV18\tNV18\tNV18\tX\tNODE\tNODE\tNODE\n"
      "NIC0\tSYS\tSYS\tNODE\tNODE\tX\tNODE\tNODE\n"
      "NIC1\tSYS\tSYS\tNODE\tNODE\tNODE\tX\tNODE\n"
      "NIC2\tSYS\tSYS\tNODE\tNODE\tNODE\tNODE\tX\n");
  const auto rings = host_rings(topology, topology.all(NodeKind::gpu));
  ASSERT_EQ(rings.size(), 3U);
  for (const HostRing& ring : rings) {
    EXPECT_GE(topology[ring.gpus.front()].index, 2);
    EXPECT_GE(topology[ring.gpus.back()].index, 2);
  }
}

TEST(RingEnds, LeaveByTheNicNearTheLastGpu) {
  for (const char* line : {"host:2 package:2 gpu:2 nvlink:switchx18 nic:2@400G pcie:5x16",
                           "host:4 package:4 gpu:4 nvlink:all nic:4@200G pcie:4x16",
                           "host:2 package:2 gpu:2 nvlink:switchx18 nic:4@200G pcie:5x16"}) {
    SCOPED_TRACE(line);
    const Topology topology = machine_of(line);
    const auto rings = nic_rings(topology, topology.all(NodeKind::gpu));
    std::set<NodeId> in, out;
    for (const NicRing& ring : rings)
      for (std::size_t at = 0; at < ring.hosts.size(); ++at) {
        const HostRing& part = ring.hosts[at];
        EXPECT_TRUE(in.insert(part.nic).second) << "two enter by one NIC";
        EXPECT_TRUE(out.insert(part.out).second) << "two leave by one NIC";
        EXPECT_LE(to_nic(topology, part.nic, part.gpus.front()), Distance::node);
        EXPECT_LE(to_nic(topology, part.out, part.gpus.back()), Distance::node);
        if (at > 0) {
          EXPECT_EQ(topology[ring.hosts[at - 1].out].name, topology[part.nic].name)
              << "off its rail";
        }
      }
    EXPECT_EQ(out.size(), topology.count(NodeKind::nic));
  }
}

TEST(RingEnds, KeepTheirNicWhereNoneIsNearer) {
  const int near = static_cast<int>(Distance::node), far = static_cast<int>(Distance::sys);
  // One NIC beside one of two GPUs; two NICs there, none beside the other.
  EXPECT_EQ(ring_ends({{near, far}}, 2), (std::vector<RingEnds>{{0, 1, 0}}));
  EXPECT_EQ(ring_ends({{near, far}, {near, far}}, 2),
            (std::vector<RingEnds>{{0, 1, 0}, {0, 1, 1}}));
  // Two rings leave by the GPU with one NIC, and one by the GPU with two.
  const auto ends = ring_ends({{near, far}, {near, far}, {far, near}}, 2);
  EXPECT_EQ(ends[0].out, 2);
  EXPECT_EQ(ends[1].out, 2);
  EXPECT_EQ(ends[2], (RingEnds{1, 0, 0}));
}

TEST(RingEnds, OfAMeshShareNoLink) {
  for (const char* line :
       {"gpu:8 xgmi:all@64GB nic:8@400G pcie:5x16", "gpu:6 nvlink:all nic:6",
        "package:2 gpu:16 nvlink:all nic:16 pciswitch:4", "gpu:2 nvlink:all nic:2"}) {
    const Topology topology = machine_of(line);
    std::map<std::pair<NodeId, NodeId>, int> used;
    for (const HostRing& ring : host_rings(topology, topology.all(NodeKind::gpu)))
      for (std::size_t i = 0; i + 1 < ring.gpus.size(); ++i)
        EXPECT_EQ((used[std::pair(ring.gpus[i], ring.gpus[i + 1])]++), 0) << line;
  }
}

TEST(NicRings, TogetherMoveWhatTheirPartsAllow) {
  const auto together = [](const char* line) {
    const Topology topology = machine_of(line);
    return rings_gbytes_per_s(topology, nic_rings(topology, topology.all(NodeKind::gpu)));
  };
  // Eight NICs; all rings over the two PCI links of each GPU; over a ring of links; without rates.
  EXPECT_EQ(together("host:2 package:2 gpu:8 nvlink:switchx18 nic:8@400G pciswitch:4 pcie:5x16"),
            8 * 50);
  EXPECT_NEAR(together("host:2 gpu:8 nic:8@400G pcie:4x16"), 31.5, 0.1);
  EXPECT_EQ(together("host:2 gpu:4 nvlink:ring@25GB nic:2@400G pcie:5x16"), 2 * 25);
  EXPECT_EQ(together("host:2 gpu:1 nic:2@100G pcie:5x16"), 2 * 12.5);
  EXPECT_EQ(together("gpu:4 nvlink:switchx12"), 12 * 25);
  // Over what lies between packages, both rings in both directions.
  EXPECT_EQ(together("host:2 package:2 gpu:4 nic:2@400G pcie:5x16"), kBetweenPackages);
}

TEST(RingEnds, OfNobodyAndOfStrangers) {
  EXPECT_TRUE(ring_ends({}, 3).empty());
  // Nothing is near: they share what there is, and never enter where they leave.
  const std::vector<int> unknown(2, static_cast<int>(Distance::unknown));
  std::map<int, int> first;
  for (const RingEnds& ends : ring_ends(std::vector(5, unknown), 2)) {
    EXPECT_NE(ends.first, ends.last);
    ++first[ends.first];
  }
  EXPECT_EQ(first[0] + first[1], 5);
  EXPECT_GE(std::min(first[0], first[1]), 2);
}

}  // namespace
}  // namespace coll
