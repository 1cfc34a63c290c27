// SPDX-License-Identifier: Apache-2.0
// The hash sees what plans depend on, and nothing else.
#include "topology/topology_hash.hpp"

#include <gtest/gtest.h>

#include "topology/read/read_topology.hpp"

namespace coll {
namespace {

constexpr const char* kLine = "package:2 numa:2 core:2 gpu:4 nvlink:all nic:2@400G pciswitch:1";

Topology machine(const std::string& line) {
  auto topology = read_synthetic(line, "test");
  EXPECT_TRUE(topology.ok()) << topology.status().text();
  return topology.ok() ? *std::move(topology) : Topology{};
}

TEST(TopologyHash, IsTheSameEverywhere) {
  EXPECT_EQ(topology_hash(Topology{}), topology_hash(Topology{}));
  // Tables on disks carry it: when this number changes, so does kFormat.
  EXPECT_EQ(topology_hash(machine(kLine)), 891561416985937125ULL);
  const auto back = read_topology_json(to_json(machine(kLine)), "back");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(topology_hash(*back), topology_hash(machine(kLine)));
}

TEST(TopologyHash, SeesWhatPlansDependOn) {
  const std::uint64_t hash = topology_hash(machine(kLine));
  for (const char* other :
       {"package:2 numa:2 core:2 gpu:4 nvlink:all nic:2@200G pciswitch:1",
        "package:2 numa:2 core:2 gpu:4 nvlink:ring nic:2@400G pciswitch:1",
        "package:2 numa:2 core:2 gpu:4 nvlink:all nic:2@400G",
        "package:2 numa:2 core:4 gpu:4 nvlink:all nic:2@400G pciswitch:1",
        "package:2 numa:2 core:2 gpu:4 nvlink:allx2 nic:2@400G pciswitch:1",
        "package:2 numa:2 core:2 gpu:4 nvlink:all nic:2@400G pciswitch:1 pcie:5x16",
        "package:4 numa:1 core:2 gpu:4 nvlink:all nic:2@400G pciswitch:1"})
    EXPECT_NE(topology_hash(machine(other)), hash) << other;
  Topology changed = machine(kLine);
  changed.nodes[static_cast<std::size_t>(changed.all(NodeKind::gpu)[0])].model = "another";
  EXPECT_NE(topology_hash(changed), hash);
  changed = machine(kLine);
  changed.tell_all(std::vector<ToldDistance>{{5, 6, Distance::sys}});
  EXPECT_NE(topology_hash(changed), hash);
}

TEST(TopologyHash, IsBlindToTheRest) {
  Topology changed = machine(kLine);
  const std::uint64_t hash = topology_hash(changed);
  changed.source = "elsewhere";
  changed.warn("something");
  changed.nodes[0].cpus = CpuSet::range(0, 0);
  for (Node& node : changed.nodes) {
    node.name += "!";
    node.pci.bus = "0000:01:00.0";
    if (node.kind == NodeKind::numa) node.bytes += 4096;
  }
  Node disk;
  disk.kind = NodeKind::pci_device;
  disk.parent = changed.all(NodeKind::host_bridge)[1];
  disk.pci.gbytes_per_s = 4;
  changed.add(disk);
  EXPECT_EQ(topology_hash(changed), hash);
}

TEST(HostHashes, AreEqualForHostsOfEqualBuild) {
  const auto hashes = host_hashes(machine("host:3 gpu:4 nvlink:pairs nic:2"));
  ASSERT_EQ(hashes.size(), 3U);
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
  EXPECT_EQ(hashes[0], host_hashes(machine("gpu:4 nvlink:pairs nic:2"))[0]);
  EXPECT_NE(hashes[0], host_hashes(machine("gpu:4 nvlink:all nic:2"))[0]);
  Topology changed = machine("host:3 gpu:4 nvlink:pairs nic:2");
  const auto gpus = changed.all(NodeKind::gpu);
  changed.tell_all(std::vector<ToldDistance>{{gpus[4], gpus[5], Distance::phb}});
  EXPECT_EQ(host_hashes(changed)[0], hashes[0]);
  EXPECT_NE(host_hashes(changed)[1], hashes[1]);
}

}  // namespace
}  // namespace coll
