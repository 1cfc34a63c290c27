// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: sources that lie, in a few lines each:
// what is assumed, and that it is said; and texts that are cut or changed, which must never do
// harm.
#include <gtest/gtest.h>

#include <random>

#include "test_seed.hpp"
#include "topology/discover.hpp"
#include "topology/read_topology.hpp"
#include "topology/topology_path.hpp"

namespace {

using namespace coll;  // NOLINT(google-build-using-namespace)

Topology read(std::string_view text) {
  auto result = read_topology(text, "test");
  EXPECT_TRUE(result.ok()) << result.status().text();
  return result.ok() ? *std::move(result) : Topology{};
}

bool warned_of(const Topology& topology, std::string_view words) {
  for (const std::string& warning : topology.warnings)
    if (warning.find(words) != warning.npos) return true;
  return false;
}

std::string nccl(const std::string& links0, const std::string& links1) {
  return R"(
<system version="1"><cpu numaid="0" affinity="0000ffff" arch="x86_64">
 <pci busid="0000:01:00.0" class="0x060400" link_speed="5.0 GT/s PCIe" link_width="16">
  <pci busid="0000:02:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
   <gpu dev="0" sm="90">)" +
         links0 + R"(</gpu></pci>
  <pci busid="0000:03:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
   <gpu dev="1" sm="90">)" +
         links1 + R"(</gpu></pci>
  <pci busid="0000:04:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
   <nic><net name="cxi0" dev="0" speed="200000000" port="1"/></nic></pci>
 </pci></cpu></system>)";
}

std::string hwloc(const std::string& devices, const std::string& rest = {}) {
  return R"(<?xml version="1.0"?><topology version="2.0"><object type="Machine" cpuset="0xf">
 <object type="Package" os_index="0" cpuset="0xf" nodeset="0x5">
 <object type="NUMANode" os_index="0" cpuset="0xf" nodeset="0x1" local_memory="1024"/>
 <object type="NUMANode" os_index="2" cpuset="0x0" nodeset="0x4" local_memory="512"/>
 <object type="Bridge" bridge_type="0-1" gp_index="1">)" +
         devices + "</object></object></object>" + rest + "</topology>";
}

TEST(Nccl, LinkOfAGpuToItselfIsNone) {
  const Topology topology = read(nccl(R"(<nvlink target="0000:02:00.0" count="12"/>)", ""));
  EXPECT_TRUE(topology.links.empty());
  EXPECT_TRUE(warned_of(topology, "GPU0 claims 12 links to itself"));
}

TEST(Nccl, OneEndsWordIsEnoughAndTheSmallerOfTwoHolds) {
  const Topology one = read(nccl(R"(<nvlink target="0000:03:00.0" count="4"/>)", ""));
  const auto gpus = one.all(NodeKind::gpu);
  EXPECT_EQ(link_path_between(one, gpus[1], gpus[0]).links, 4);
  EXPECT_TRUE(warned_of(one, "only"));
  const Topology two = read(nccl(R"(<nvlink target="0000:03:00.0" count="4"/>)",
                                 R"(<nvlink target="0000:02:00.0" count="2"/>)"));
  EXPECT_EQ(link_path_between(two, gpus[0], gpus[1]).links, 2);
  EXPECT_TRUE(warned_of(two, "disagree"));
}

TEST(Nccl, LinkToNobodyIsIgnoredAndToASwitchIsToTheFabric) {
  const Topology lost = read(nccl(R"(<nvlink target="0000:99:00.0" count="4"/>)", ""));
  EXPECT_TRUE(lost.links.empty());
  EXPECT_TRUE(warned_of(lost, "not there"));
  const std::string up = R"(<nvlink target="0000:99:00.0" count="9" tclass="0x068000"/>)";
  const Topology fabric = read(nccl(up + up, up + up));
  EXPECT_EQ(fabric.count(NodeKind::link_switch), 1);
  const auto gpus = fabric.all(NodeKind::gpu);
  const Path path = path_between(fabric, gpus[0], gpus[1]);
  EXPECT_EQ(path.distance, Distance::link);
  EXPECT_EQ(path.links, 18);
  EXPECT_DOUBLE_EQ(path.gbytes_per_s, 18 * 25);
}

TEST(Nccl, IdleUplinksAndWrongUnitsAreCorrected) {
  const Topology topology = read(nccl("", ""));
  EXPECT_TRUE(warned_of(topology, "5.00 GT/s"));
  const auto gpus = topology.all(NodeKind::gpu), nics = topology.all(NodeKind::nic);
  EXPECT_GT(path_between(topology, gpus[0], nics[0]).gbytes_per_s, 60);
  EXPECT_DOUBLE_EQ(topology[nics[0]].ports[0].gbits_per_s, 200);
  EXPECT_TRUE(warned_of(topology, "kb/s"));
}

TEST(Hwloc, DisplaysAreNoGpusAndMemoryWithoutPusIsMemory) {
  const Topology topology = read(hwloc(
      R"(<object type="PCIDev" pci_busid="0000:01:03.0" pci_type="0300 [1a03:2000] [0:0] 00"/>
         <object type="PCIDev" pci_busid="12345678:02:00.0" pci_type="0302 [10de:1db1] [0:0] 00"
          pci_link_speed="15.75"/>)"));
  EXPECT_EQ(topology.count(NodeKind::gpu), 1);
  EXPECT_EQ(topology[topology.all(NodeKind::gpu)[0]].pci.bus, "12345678:02:00.0");
  EXPECT_EQ(topology.count(NodeKind::numa), 2);
  EXPECT_EQ(topology[topology.all(NodeKind::numa)[1]].index, 2);
  EXPECT_EQ(topology[topology.all(NodeKind::numa)[1]].cpus.count(), 0);
}

std::string xgmi(const char* serial1, const char* values, const char* hive) {
  const auto gpu = [&](int n, const char* serial) {
    const std::string number = std::to_string(n);
    return R"(<object type="PCIDev" pci_busid="0000:0)" + number +
           R"(:00.0" pci_type="0380 [1002:7408] [0:0] 00"><object type="OSDev" gp_index="1)" +
           number + R"(" name="rsmi)" + number +
           R"(" osdev_type="1"><info name="AMDSerial" value=")" + serial +
           R"("/><info name="XGMIHiveID" value=")" + hive + R"("/></object></object>)";
  };
  return hwloc(gpu(0, "a") + gpu(1, serial1) + gpu(2, "c"),
               std::string(R"(<distances2 type="OSDev" nbobjs="3" kind="9" name="XGMIBandwidth">
 <indexes>10 11 12</indexes><u64values>)") +
                   values + "</u64values></distances2>");
}

TEST(Hwloc, TheSameLinksInsideAPackageAndOutsideAreADefault) {
  const char* const uniform = "0 100000 100000 100000 0 100000 100000 100000 0";
  const Topology lie = read(xgmi("a", uniform, "5f"));
  EXPECT_TRUE(lie.links.empty());
  EXPECT_TRUE(warned_of(lie, "GPU links"));
  EXPECT_EQ(read(xgmi("b", uniform, "5f")).links.size(), 6U) << "a full mesh of packages can be";
  EXPECT_EQ(read(xgmi("a", "0 200000 50000 200000 0 50000 50000 50000 0", "5f")).links.size(), 6U);
}

TEST(Hwloc, HiveZeroIsNone) {
  EXPECT_EQ(read(xgmi("b", "0 0 0 0 0 0 0 0 0", "0")).nodes.back().island, "");
  EXPECT_EQ(read(xgmi("b", "0 0 0 0 0 0 0 0 0", "dc41")).nodes.back().island, "dc41");
}

TEST(Matrix, AsPastedFromATerminal) {
  const Topology topology = read(
      "$ nvidia-smi topo -m\n"
      "\t\x1b[4mGPU0\tGPU1\tNIC0NIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
      "GPU0\t X \tNV18\tPIX\tSYS\t0,2,4\tN/A\t\tN/A\n"
      "GPU1\tNV18\t X \tNODENODE\t0-3\t0,3-9\t\tN/A\n"
      "NIC0\tPIX\tNODE\t X \tSYS\n"
      "NIC1\tSYS\tNODE\tSYS\t X \n\nLegend:\n  X = Self\nNIC Legend:\n  NIC0: mlx5_0\n");
  const auto gpus = topology.all(NodeKind::gpu), nics = topology.all(NodeKind::nic);
  ASSERT_EQ(gpus.size(), 2U);
  ASSERT_EQ(nics.size(), 2U);
  EXPECT_EQ(link_path_between(topology, gpus[0], gpus[1]).links, 18);
  EXPECT_EQ(path_between(topology, gpus[0], nics[0]).distance, Distance::pix);
  EXPECT_EQ(path_between(topology, gpus[1], nics[1]).distance, Distance::node);
  EXPECT_EQ(path_between(topology, gpus[0], nics[1]).distance, Distance::sys);
  EXPECT_TRUE(topology[gpus[0]].numa.empty()) << "N/A is not node 0";
  EXPECT_TRUE(warned_of(topology, "N/A"));
  EXPECT_EQ(topology[gpus[0]].cpus.list(), "0,2,4");
  EXPECT_EQ(topology[gpus[1]].numa.size(), 8U);
  EXPECT_EQ(topology[nics[0]].ports[0].name, "mlx5_0");
}

TEST(Matrix, WhereHalvesDifferTheFartherHolds) {
  const Topology topology = read("dev\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tSYS\tX\n");
  const auto gpus = topology.all(NodeKind::gpu);
  EXPECT_EQ(path_between(topology, gpus[0], gpus[1]).distance, Distance::sys);
  EXPECT_TRUE(warned_of(topology, "two things"));
}

TEST(Synthetic, IsWhatItSays) {
  const Topology topology =
      read("host:8 package:2 numa:4 core:8 gpu:4 nvlink:all nic:2@400G switch:2");
  EXPECT_EQ(topology.count(NodeKind::host), 8);
  EXPECT_EQ(topology.count(NodeKind::pu), 8 * 64);
  EXPECT_EQ(topology.count(NodeKind::gpu), 32);
  EXPECT_EQ(topology.count(NodeKind::network_switch), 2);
  EXPECT_DOUBLE_EQ(topology[topology.all(NodeKind::nic)[0]].ports[0].gbits_per_s, 400);
  const auto gpus = topology.all(NodeKind::gpu);
  EXPECT_EQ(path_between(topology, gpus[0], gpus[3]).distance, Distance::link);
  EXPECT_EQ(path_between(topology, gpus[0], gpus[4]).distance, Distance::net);
  for (const char* bad : {"host:0", "gpu:x", "hosts:2 gpu:1", "host:1000000 core:1000",
                          "nvlink:star", "nic:2@fast", "pcie:9x16"}) {
    const auto result = read_topology(bad, "test");
    EXPECT_FALSE(result.ok()) << bad;
  }
}

TEST(Faults, SayFileAndLine) {
  const auto xml =
      read_topology("<system>\n<cpu numaid=\"0\">\n<pci busid=\"?\"/></cpu></system>", "f");
  EXPECT_NE(xml.status().text().find("f:3:"), std::string::npos) << xml.status().text();
  const auto json = read_topology("{\n\"topology_version\": 1,\n", "f");
  EXPECT_NE(json.status().text().find("f:3"), std::string::npos) << json.status().text();
  const auto matrix = read_topology("dev\tGPU0\nGPU0\tFAR\n", "f");
  EXPECT_NE(matrix.status().text().find("f:2:"), std::string::npos) << matrix.status().text();
  EXPECT_FALSE(read_topology("", "f").ok());
  EXPECT_FALSE(read_topology_file("/nowhere/at/all").ok());
}

// Whatever is done to a text, the answer is a sound value or a failure.
TEST(Faults, CutAndChangedTextsDoNoHarm) {
  std::mt19937_64 random(test::test_seed());
  const std::string up = R"(<nvlink target="0000:99:00.0" count="9" tclass="0x068000"/>)";
  const std::vector<std::string> texts{
      nccl(up, R"(<nvlink target="0000:02:00.0" count="2"/>)"),
      xgmi("a", "0 200000 50000 200000 0 50000 50000 50000 0", "5f"),
      "dev\tGPU0\tGPU1\tNIC0\tcpu_affinity\nGPU0\tX\tNV2\tPIX\t0-"
      "3\nGPU1\tNV2\tX\tSYS\t4\nNIC0\tPIX\t?\tX\n",
      "host:2 package:2 core:2 gpu:4 nvlink:ringx2@25GB nic:2@1.6T pcie:5x16 switch:2",
      to_json(read("host:2 gpu:2 nvlink:all nic:1"))};
  const auto expect_sound = [](const std::string& text) {
    const auto result = read_topology(text, "changed");
    if (!result.ok()) return;
    EXPECT_TRUE(check(*result).ok());
    EXPECT_FALSE(to_text(*result).empty() && result->size() > 0);
  };
  for (const std::string& text : texts) {
    for (int round = 0; round < 300; ++round) {
      expect_sound(text.substr(0, random() % text.size()));
      std::string changed = text;
      for (int times = 0; times < 3; ++times)
        changed[random() % changed.size()] = static_cast<char>(random() % 128);
      expect_sound(changed);
    }
  }
}

}  // namespace
