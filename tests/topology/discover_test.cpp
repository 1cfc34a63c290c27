// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: discovery when sources are missing,
// limit each other, or contradict each other; NVML is a table of our own functions.
#include "topology/discover.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "topology/topology_path.hpp"

namespace {

using namespace coll;  // NOLINT(google-build-using-namespace)

constexpr const char* kHwloc =
    R"(<topology version="2.0"><object type="Machine" cpuset="0xf"><object type="Package" os_index="0"
 cpuset="0xf" nodeset="0x1"><object type="NUMANode" os_index="0" cpuset="0xf" nodeset="0x1"/>
 <object type="Bridge" bridge_type="0-1"><object type="PCIDev" pci_busid="0000:02:00.0"
 pci_type="0302 [10de:2330] [0:0] 00"/></object></object></object></topology>)";

DiscoverySources sources() {
  DiscoverySources given;
  given.hwloc = [] { return Result<HwlocExport>(HwlocExport{kHwloc, true}); };
  given.nvml = [] { return Result<NvmlTable>(failed(Code::unsupported, "no NVML here")); };
  given.root = "/nonexistent";
  given.affinity = CpuSet::range(0, 3);
  return given;
}

/// Two GPUs, the second of which hwloc does not see; 2 links between them and 1 to a switch.
NvmlTable two_gpus() {
  NvmlTable table;
  table.init = [] { return 0; };
  table.shutdown = [] { return 0; };
  table.get_count = [](unsigned* count) { return *count = 2, 0; };
  table.get_handle = [](unsigned index, void** device) {
    *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(index + 2));
    return 0;
  };
  table.get_pci = [](void* device, NvmlPci* pci) {
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0",
                  static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)));
    return 0;
  };
  table.get_pcie_generation = [](void*, unsigned* generation) { return *generation = 5, 0; };
  table.get_pcie_width = [](void*, unsigned* lanes) { return *lanes = 16, 0; };
  table.get_link_state = [](void*, unsigned link, unsigned* active) {
    *active = link < 3 ? 1 : 0;
    return link < 4 ? 0 : 2;
  };
  table.get_link_version = [](void*, unsigned, unsigned* version) { return *version = 6, 0; };
  table.get_link_peer = [](void* device, unsigned, NvmlPci* pci) {
    const bool first = reinterpret_cast<std::uintptr_t>(device) == 2;
    std::snprintf(pci->bus_id, sizeof pci->bus_id, first ? "00000000:03:00.0" : "00000000:02:00.0");
    return 0;
  };
  table.get_link_peer_type = [](void*, unsigned link, unsigned* type) {
    return *type = link < 2 ? 0 : 2, 0;
  };
  return table;
}

TEST(Discover, WithoutHwlocThePusAreKnownAndTheReason) {
  DiscoverySources given = sources();
  given.hwloc = [] { return Result<HwlocExport>(failed(Code::unsupported, "no hwloc here")); };
  const Topology topology = discover(given);
  EXPECT_TRUE(check(topology).ok());
  EXPECT_EQ(topology.count(NodeKind::pu), 4);
  ASSERT_FALSE(topology.warnings.empty());
  EXPECT_NE(topology.warnings[0].find("no hwloc here"), std::string::npos);
}

TEST(Discover, RespectsTheAffinity) {
  DiscoverySources given = sources();
  given.affinity = CpuSet::range(2, 9);
  EXPECT_EQ(discover(given)[0].cpus.list(), "2-3");
  given.affinity = CpuSet::range(8, 9);  // what hwloc does not know at all
  const Topology topology = discover(given);
  EXPECT_EQ(topology[0].cpus.list(), "8-9");
  EXPECT_FALSE(topology.warnings.empty());
}

TEST(Discover, NvmlAddsLinksAndGpusAndItsAbsenceIsSaid) {
  const Topology without = discover(sources());
  EXPECT_EQ(without.count(NodeKind::gpu), 1);
  EXPECT_EQ(without.warnings.size(), 1U);
  DiscoverySources given = sources();
  given.nvml = [] { return Result<NvmlTable>(two_gpus()); };
  const Topology topology = discover(given);
  EXPECT_TRUE(check(topology).ok());
  const auto gpus = topology.all(NodeKind::gpu);
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(topology[gpus[1]].pci.bus, "0000:03:00.0");
  EXPECT_NEAR(topology[gpus[0]].pci.gbytes_per_s, 63.0, 0.1);
  const Path path = path_between(topology, gpus[0], gpus[1]);
  EXPECT_EQ(path.links, 2);
  EXPECT_DOUBLE_EQ(path.gbytes_per_s, 50);
  EXPECT_EQ(topology.count(NodeKind::link_switch), 1);
}

}  // namespace
