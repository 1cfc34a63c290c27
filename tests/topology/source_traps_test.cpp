// SPDX-License-Identifier: Apache-2.0
// Sources that lie, in a few lines each: what is assumed, and that it is said; and texts that are
// cut or changed, which must never do harm.
#include <gtest/gtest.h>

#include <random>

#include "machine_of.hpp"
#include "test_seed.hpp"
#include "topology/read/discover.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/topology_path.hpp"

namespace {

using namespace coll;  // NOLINT(google-build-using-namespace)

using coll::test::machine_of;

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
  const Topology topology = machine_of(nccl(R"(<nvlink target="0000:02:00.0" count="12"/>)", ""));
  EXPECT_TRUE(topology.links.empty());
  EXPECT_TRUE(warned_of(topology, "GPU0 claims 12 links to itself"));
}

TEST(Nccl, OneEndsWordIsEnoughAndTheSmallerOfTwoHolds) {
  const Topology one = machine_of(nccl(R"(<nvlink target="0000:03:00.0" count="4"/>)", ""));
  const auto gpus = one.all(NodeKind::gpu);
  EXPECT_EQ(link_path_between(one, gpus[1], gpus[0]).links, 4);
  EXPECT_TRUE(warned_of(one, "only"));
  const Topology two = machine_of(nccl(R"(<nvlink target="0000:03:00.0" count="4"/>)",
                                       R"(<nvlink target="0000:02:00.0" count="2"/>)"));
  EXPECT_EQ(link_path_between(two, gpus[0], gpus[1]).links, 2);
  EXPECT_TRUE(warned_of(two, "disagree"));
}

TEST(Nccl, LinkToNobodyIsIgnoredAndToASwitchIsToTheFabric) {
  const Topology lost = machine_of(nccl(R"(<nvlink target="0000:99:00.0" count="4"/>)", ""));
  EXPECT_TRUE(lost.links.empty());
  EXPECT_TRUE(warned_of(lost, "not there"));
  const std::string up = R"(<nvlink target="0000:99:00.0" count="9" tclass="0x068000"/>)";
  const Topology fabric = machine_of(nccl(up + up, up + up));
  EXPECT_EQ(fabric.count(NodeKind::link_switch), 1);
  const auto gpus = fabric.all(NodeKind::gpu);
  const Path path = path_between(fabric, gpus[0], gpus[1]);
  EXPECT_EQ(path.distance, Distance::link);
  EXPECT_EQ(path.links, 18);
  EXPECT_DOUBLE_EQ(path.gbytes_per_s, 18 * 25);
}

TEST(Nccl, IdleUplinksAndWrongUnitsAreCorrected) {
  const Topology topology = machine_of(nccl("", ""));
  EXPECT_TRUE(warned_of(topology, "5.00 GT/s"));
  const auto gpus = topology.all(NodeKind::gpu), nics = topology.all(NodeKind::nic);
  EXPECT_GT(path_between(topology, gpus[0], nics[0]).gbytes_per_s, 60);
  EXPECT_DOUBLE_EQ(topology[nics[0]].ports[0].gbits_per_s, 200);
  EXPECT_TRUE(warned_of(topology, "kb/s"));
}

TEST(Hwloc, DisplaysAreNoGpusAndMemoryWithoutPusIsMemory) {
  const Topology topology = machine_of(hwloc(
      R"(<object type="PCIDev" pci_busid="0000:01:03.0" pci_type="0300 [1a03:2000] [0:0] 00"/>
         <object type="PCIDev" pci_busid="12345678:02:00.0" pci_type="0302 [10de:1db1] [0:0] 00"
          pci_link_speed="15.75"/>)"));
  EXPECT_EQ(topology.count(NodeKind::gpu), 1);
  EXPECT_EQ(topology[topology.all(NodeKind::gpu)[0]].pci.bus, "12345678:02:00.0");
  EXPECT_EQ(topology.count(NodeKind::numa), 2);
  EXPECT_EQ(topology[topology.all(NodeKind::numa)[1]].index, 2);
  EXPECT_EQ(topology[topology.all(NodeKind::numa)[1]].cpus.count(), 0);
}

/// Two GPUs of this name and number.
std::string two_gpus(const std::string& name, const std::string& device) {
  std::string text;
  for (const char* bus : {"0000:01:00.0", "0000:02:00.0"})
    text += R"(<object type="PCIDev" pci_busid=")" + std::string(bus) + R"(" pci_type="0302 [)" +
            device + R"(] [0:0] a1"><info name="PCIDevice" value=")" + name + R"("/></object>)";
  return text;
}

TEST(Hwloc, AnUnknownPciSpeedIsNotSlow) {
  const Topology topology = machine_of(hwloc(
      R"(<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0300 [10de:2204] [0:0] a1"
          pci_link_speed="0.000000"/>
         <object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0300 [1002:73bf] [0:0] c1"/>
         <object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0300 [1002:515e] [0:0] 02"
          pci_link_speed="0.000000"/>
         <object type="PCIDev" pci_busid="0000:04:00.0" pci_type="0300 [10de:0a65] [0:0] a2"
          pci_link_speed="0.250000"/>)"));
  std::vector<std::string> gpus;
  for (const NodeId gpu : topology.all(NodeKind::gpu)) gpus.push_back(topology[gpu].pci.bus);
  EXPECT_EQ(gpus, (std::vector<std::string>{"0000:01:00.0", "0000:02:00.0"}))
      << "a server's ES1000 is a display, and so is what is known to be slow";
}

/// A port of the root, the two of a switch, and a GPU, with what hwloc says of their links.
std::string behind_ports(const char* root, const char* up, const char* down, const char* gpu) {
  const auto port = [](const char* bus, const char* speed) {
    return std::string(R"(<object type="Bridge" bridge_type="1-1" pci_busid=")") + bus +
           R"(" pci_type="0604 [8086:2030] [0:0] 04" pci_link_speed=")" + speed + "\">";
  };
  return hwloc(
      port("0000:17:00.0", root) + port("0000:18:00.0", up) + port("0000:19:00.0", down) +
      R"(<object type="PCIDev" pci_busid="0000:1a:00.0" pci_type="0302 [10de:1eb8] [0:0] a1"
          pci_link_speed=")" +
      gpu + R"("/></object></object></object>)");
}

TEST(Hwloc, PortsThatSleepAboveAGpuAreAsFastAsIt) {
  const auto speeds = [](const Topology& topology) {
    std::vector<double> found;
    for (const Node& node : topology.nodes)
      if (node.kind == NodeKind::pci_port) found.push_back(node.pci.gbytes_per_s);
    return found;
  };
  using Speeds = std::vector<double>;
  const Topology idle = machine_of(behind_ports("2.000000", "2.000000", "2.000000", "15.753846"));
  EXPECT_EQ(speeds(idle), Speeds(3, 15.753846));
  EXPECT_TRUE(warned_of(idle, "0000:17:00.0 says 2.00 GB/s"));
  EXPECT_EQ(speeds(machine_of(behind_ports("4.000000", "4.000000", "15.753846", "15.753846"))),
            Speeds(3, 15.753846));
  // Few lanes at full speed are few lanes, and a generation less is one.
  for (const char* lanes : {"1.969231", "3.938462", "7.876923", "8.000000"}) {
    const Topology narrow = machine_of(behind_ports(lanes, lanes, lanes, "15.753846"));
    EXPECT_EQ(speeds(narrow), Speeds(3, std::stod(lanes)));
    EXPECT_FALSE(warned_of(narrow, "says"));
  }
}

/// Two GPUs and what they have links to: hwloc lists all of them in one matrix.
std::string linked_to(const std::string& object, const std::string& index) {
  const auto gpu = [](int n) {
    const std::string number = std::to_string(n);
    return R"(<object type="PCIDev" gp_index="2)" + number + R"(" pci_busid="0004:0)" + number +
           R"(:00.0" pci_type="0302 [10de:15f9] [0:0] a1"><object type="OSDev" gp_index="3)" +
           number + R"(" name="nvml)" + number + R"(" osdev_type="1"/></object>)";
  };
  return hwloc(gpu(0) + gpu(1) + object, R"(<distances2 nbobjs="3" kind="10" name="NVLinkBandwidth">
 <indexes>OSDev:30 OSDev:31 )" + index +
                                             R"(</indexes>
 <u64values>0 40000 40000 40000 0 40000 40000 40000 0</u64values></distances2>)");
}

TEST(Hwloc, LinksThatEndAtAPackageEndAtAProcessor) {
  std::string text = linked_to("", "Package:7");
  text.replace(text.find(R"(type="Package")"), 14, R"(type="Package" gp_index="7")");
  const Topology topology = machine_of(text);
  EXPECT_EQ(topology.count(NodeKind::link_switch), 0) << "there is no NVSwitch";
  const auto gpus = topology.all(NodeKind::gpu);
  EXPECT_EQ(link_path_between(topology, gpus[0], gpus[1]).links, 2);
  EXPECT_EQ(link_path_between(topology, gpus[0], topology.all(NodeKind::package)[0]).links, 2);
  EXPECT_TRUE(topology.warnings.empty()) << topology.warnings[0];
  // A function of unknown kind is no processor.
  const Topology fabric = machine_of(
      linked_to(R"(<object type="PCIDev" gp_index="8" pci_busid="0005:01:00.0"/>)", "PCIDev:8"));
  EXPECT_EQ(fabric.count(NodeKind::link_switch), 1);
}

TEST(Hwloc, MemoryBelowTheMachineHasNoProcessors) {
  const Topology topology = machine_of(R"(<topology><object type="Machine" cpuset="0xff">
 <object type="NUMANode" os_index="0" cpuset="0x0f" nodeset="0x1" local_memory="1024"/>
 <object type="Group" cpuset="0xf0"><object type="NUMANode" os_index="8" cpuset="0xf0"/>
  <object type="NUMANode" os_index="1" cpuset="0x0" local_memory="16"/></object>
 <object type="NUMANode" os_index="252" cpuset="0x0" local_memory="512"/>
 <object type="NUMANode" os_index="255" local_memory="512"/></object></topology>)");
  std::vector<int> cpus;
  for (const NodeId id : topology.all(NodeKind::numa)) cpus.push_back(topology[id].cpus.count());
  EXPECT_EQ(cpus, (std::vector<int>{4, 4, 4, 0, 0})) << "of a group: beside its processors";
}

TEST(GpuModels, ThatAlwaysHaveLinksAreMissedWithoutThem) {
  const auto names = [](const std::string& name, const std::string& device) {
    std::string text = hwloc(two_gpus(name, device));
    return warned_of(machine_of(text), "always joined by links");
  };
  EXPECT_TRUE(names("Tesla V100-SXM2-16GB", "10de:0001"));
  EXPECT_TRUE(names("NVIDIA H100 80GB HBM3", "10de:0001"));
  EXPECT_TRUE(names("NVIDIA B200", "10de:0001"));
  EXPECT_TRUE(names("", "10de:20b0")) << "A100 by its number";
  EXPECT_TRUE(names("", "1002:74a1")) << "MI300X by its number";
  EXPECT_TRUE(names("AMD Instinct MI250X", "1002:0001"));
  for (const char* card : {"NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA H100 NVL",
                           "NVIDIA H200 NVL", "Tesla T4", "NVIDIA GeForce RTX 3090", ""})
    EXPECT_FALSE(names(card, "10de:0001")) << card;
  EXPECT_FALSE(warned_of(machine_of(linked_to("", "OSDev:99")), "always")) << "these have links";
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
  const Topology lie = machine_of(xgmi("a", uniform, "5f"));
  EXPECT_TRUE(lie.links.empty());
  EXPECT_TRUE(warned_of(lie, "GPU links"));
  EXPECT_EQ(machine_of(xgmi("b", uniform, "5f")).links.size(), 6U)
      << "a full mesh of packages can be";
  EXPECT_EQ(machine_of(xgmi("a", "0 200000 50000 200000 0 50000 50000 50000 0", "5f")).links.size(),
            6U);
}

TEST(Hwloc, HiveZeroIsNone) {
  EXPECT_EQ(machine_of(xgmi("b", "0 0 0 0 0 0 0 0 0", "0")).nodes.back().island, "");
  EXPECT_EQ(machine_of(xgmi("b", "0 0 0 0 0 0 0 0 0", "dc41")).nodes.back().island, "dc41");
}

TEST(Matrix, AsPastedFromATerminal) {
  const Topology topology = machine_of(
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

TEST(Matrix, TakesNamesFromTheListBesideIt) {
  const Topology topology = machine_of(
      "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)\n"
      "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n");
  EXPECT_EQ(topology[topology.all(NodeKind::gpu)[1]].model, "NVIDIA A100-SXM4-40GB");
  EXPECT_TRUE(warned_of(topology, "always joined by links"));
}

TEST(Matrix, WhereHalvesDifferTheFartherHolds) {
  const Topology topology = machine_of("dev\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tSYS\tX\n");
  const auto gpus = topology.all(NodeKind::gpu);
  EXPECT_EQ(path_between(topology, gpus[0], gpus[1]).distance, Distance::sys);
  EXPECT_TRUE(warned_of(topology, "two things"));
}

TEST(Synthetic, IsWhatItSays) {
  const Topology topology =
      machine_of("host:8 package:2 numa:4 core:8 gpu:4 nvlink:all nic:2@400G switch:2");
  EXPECT_EQ(topology.count(NodeKind::host), 8);
  EXPECT_EQ(topology.count(NodeKind::pu), 8 * 64);
  EXPECT_EQ(topology.count(NodeKind::gpu), 32);
  EXPECT_EQ(topology.count(NodeKind::network_switch), 2);
  EXPECT_DOUBLE_EQ(topology[topology.all(NodeKind::nic)[0]].ports[0].gbits_per_s, 400);
  const auto gpus = topology.all(NodeKind::gpu);
  EXPECT_EQ(path_between(topology, gpus[0], gpus[3]).distance, Distance::link);
  EXPECT_EQ(path_between(topology, gpus[0], gpus[4]).distance, Distance::net);
  for (const char* bad : {"host:0", "gpu:x", "hosts:2 gpu:1", "host:1000000 core:1000",
                          "nvlink:star", "nic:2@fast", "pcie:9x16", "gpu:3000 nvlink:all",
                          "host:200000 gpu:4 nvlink:all", "host:400000 gpu:2 nvlink:switch"}) {
    const auto result = read_topology(bad, "test");
    EXPECT_FALSE(result.ok()) << bad;
  }
}

TEST(Synthetic, ManyLinksAreReadAtOnce) {
  // Each shape has the links that it says.
  for (const auto& [line, links] : {std::pair{"gpu:2000 nvlink:all", 2000 * 1999},
                                    {"gpu:2000 nvlink:ring", 2 * 2000},
                                    {"gpu:7 nvlink:pairs", 2 * 3},
                                    {"gpu:2 nvlink:ring", 2},
                                    {"gpu:1 nvlink:ring", 0},
                                    {"gpu:6 nvlink:switch", 2 * 6}}) {
    const Topology topology = machine_of(line);
    EXPECT_EQ(topology.links.size(), static_cast<std::size_t>(links)) << line;
  }
}

TEST(Matrix, OfManyGpusIsReadAtOnce) {
  std::string text;
  constexpr int kGpus = 600;
  for (int gpu = 0; gpu < kGpus; ++gpu) text += "\tGPU" + std::to_string(gpu);
  for (int row = 0; row < kGpus; ++row) {
    text += "\nGPU" + std::to_string(row);
    for (int column = 0; column < kGpus; ++column)
      text += row == column ? "\tX" : (row + column) % 3 == 0 ? "\tSYS" : "\tPIX";
  }
  const Topology topology = machine_of(text + "\n");
  EXPECT_EQ(topology.count(NodeKind::gpu), kGpus);
  EXPECT_FALSE(topology.told.empty());
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
      to_json(machine_of("host:2 gpu:2 nvlink:all nic:1"))};
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
