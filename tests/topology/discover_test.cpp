// SPDX-License-Identifier: Apache-2.0
// Discovery when sources are missing, limit each other, or contradict each other; NVML is a table
// of our own functions.
#include "topology/read/discover.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.hpp"
#include "topology/read/read_topology.hpp"
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

/// What is found of `table`, beside an NVSwitch and a GPU with its UUID that hwloc sees.
Topology found_by(const NvmlTable& table) {
  DiscoverySources given = sources();
  given.hwloc = [] {
    return Result<HwlocExport>(HwlocExport{
        R"(<topology version="2.0"><object type="Machine" cpuset="0xf">
 <object type="Bridge" bridge_type="0-1">
 <object type="PCIDev" pci_busid="0000:07:00.0" pci_type="0680 [10de:22a3] [0:0] 00"/>
 <object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0302 [10de:2330] [0:0] 00">
 <info name="NVIDIAUUID" value="GPU-1"/></object></object></object></topology>)",
        true});
  };
  given.nvml = [&] { return Result<NvmlTable>(table); };
  Topology topology = discover(given);
  EXPECT_TRUE(check(topology).ok());
  EXPECT_EQ(topology.count(NodeKind::pci_device), 1);
  return topology;
}

/// How many links the first GPU has to parts of a kind.
int links_of_first_gpu(const Topology& topology, NodeKind kind) {
  int count = 0;
  for (const Link& link : topology.links_from(topology.all(NodeKind::gpu)[0]))
    if (topology[link.to].kind == kind) count += link.count;
  return count;
}

bool warned_of(const Topology& topology, std::string_view words) {
  return std::ranges::any_of(topology.warnings, [&](const std::string& warning) {
    return warning.find(words) != std::string::npos;
  });
}

TEST(DiscoverLinks, AFieldSaysWhichAreActiveOrAsleep) {
  NvmlTable table = two_gpus();
  table.get_link_state = nullptr;
  table.get_fields = [](void*, int, NvmlField* field) {
    field->error = field->scope == 1 ? 3 : 0;  // what is no answer has a value too
    field->value.natural = field->scope == 3 ? 0 : field->scope == 2 ? 2 : 1;
    return field->scope < 4 ? 0 : 2;
  };
  const Topology topology = found_by(table);
  EXPECT_EQ(links_of_first_gpu(topology, NodeKind::gpu), 1);
  EXPECT_EQ(links_of_first_gpu(topology, NodeKind::link_switch), 1);
}

TEST(DiscoverLinks, WithoutAKindTheyGoToWhateverIsThere) {
  NvmlTable table = two_gpus();
  table.get_link_peer_type = nullptr;
  EXPECT_EQ(links_of_first_gpu(found_by(table), NodeKind::gpu), 3);
  EXPECT_EQ(links_of_first_gpu(found_by(table), NodeKind::link_switch), 0);
  table.get_link_peer = [](void*, unsigned, NvmlPci* pci) {
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:07:00.0");
    return 0;
  };
  const Topology topology = found_by(table);
  EXPECT_EQ(links_of_first_gpu(topology, NodeKind::link_switch), 3);
  EXPECT_EQ(links_of_first_gpu(topology, NodeKind::pci_device), 0);
  table.get_link_peer = nullptr;
  EXPECT_TRUE(found_by(table).links.empty()) << "nothing is known of the other end";
}

TEST(DiscoverLinks, ToHiddenGpusAreIgnored) {
  NvmlTable table = two_gpus();
  table.get_link_peer_type = [](void*, unsigned, unsigned* type) { return *type = 0, 0; };
  table.get_link_peer = [](void*, unsigned, NvmlPci* pci) {
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:09:00.0");
    return 0;
  };
  const Topology topology = found_by(table);
  EXPECT_TRUE(topology.links.empty());
  EXPECT_TRUE(warned_of(topology, "hidden"));
}

TEST(DiscoverPeers, OnlyARefusalOfBothGpusCounts) {
  NvmlTable table = two_gpus();
  table.get_peer_status = [](void*, void*, unsigned, unsigned* status) { return *status = 6, 0; };
  EXPECT_FALSE(warned_of(found_by(table), "reach")) << "unknown";
  table.get_peer_status = [](void*, void*, unsigned, unsigned* status) { return *status = 5, 0; };
  EXPECT_TRUE(warned_of(found_by(table), "GPU0-GPU1"));
  table.get_pci = [](void* device, NvmlPci* pci) {
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:02:00.0");
    return reinterpret_cast<std::uintptr_t>(device) == 2 ? 0 : 15;
  };
  EXPECT_FALSE(warned_of(found_by(table), "reach")) << "one has fallen off the bus";
}

TEST(DiscoverUuids, AreKeptOnce) {
  NvmlTable table = two_gpus();
  table.get_uuid = [](void*, char* uuid, unsigned length) {
    return std::snprintf(uuid, length, "GPU-1") > 0 ? 0 : 1;
  };
  const Topology topology = found_by(table);
  const Node& gpu = topology[topology.all(NodeKind::gpu)[0]];
  EXPECT_EQ(std::ranges::count(gpu.info, std::string("NVIDIAUUID"),
                               &std::pair<std::string, std::string>::first),
            1);
}

/// A copy of the parts of /proc and /sys that matter.
class DiscoverFiles : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
  }
  /// /sys/class/KIND/NAME of the PCI function at `bus`.
  void add_device(const std::string& kind, const std::string& name, const std::string& bus) const {
    const std::string device = root_ + "/sys/devices/pci0000:00/" + bus;
    std::filesystem::create_directories(device);
    std::filesystem::create_directories(root_ + "/sys/class/" + kind + "/" + name);
    std::filesystem::create_directory_symlink(
        device, root_ + "/sys/class/" + kind + "/" + name + "/device");
  }
  [[nodiscard]] Topology found() const {
    DiscoverySources given = sources();
    given.root = root_;
    Topology topology = discover(given);
    EXPECT_TRUE(check(topology).ok());
    return topology;
  }
  const coll::test::TemporaryFolder folder_;
  const std::string& root_ = folder_.path();
};

TEST_F(DiscoverFiles, NicsHaveTheirPortsAndSpeeds) {
  add_device("infiniband", "mlx5_0", "0000:04:00.0");
  put("/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  put("/sys/class/infiniband/mlx5_0/ports/2/rate", "100 Gb/sec (4X EDR)");
  add_device("net", "ib0", "0000:04:00.0");  // the same function
  put("/sys/class/net/ib0/speed", "400000");
  add_device("net", "eth0", "0000:05:00.0");
  put("/sys/class/net/eth0/speed", "25000");
  add_device("net", "eth1", "0000:06:00.0");
  put("/sys/class/net/eth1/speed", "-1");        // no cable
  put("/sys/class/net/docker0/speed", "10000");  // no device behind it
  const Topology topology = found();
  const auto nics = topology.all(NodeKind::nic);
  ASSERT_EQ(nics.size(), 3U);
  const auto at = [&](const std::string& bus) {
    return topology[*std::ranges::find_if(
        nics, [&](NodeId nic) { return topology[nic].pci.bus == bus; })];
  };
  const Node infiniband = at("0000:04:00.0"), ethernet = at("0000:05:00.0");
  ASSERT_EQ(infiniband.ports.size(), 2U);
  EXPECT_EQ(infiniband.ports[0].gbits_per_s + infiniband.ports[1].gbits_per_s, 500);
  EXPECT_EQ(std::ranges::count(infiniband.aliases, "ib0"), 1);
  ASSERT_EQ(ethernet.ports.size(), 1U);
  EXPECT_EQ(ethernet.ports[0].gbits_per_s, 25);
  EXPECT_EQ(at("0000:06:00.0").ports[0].gbits_per_s, 0);
  // hwloc sees none of them, and that is said.
  for (const char* bus : {"0000:04:00.0", "0000:05:00.0", "0000:06:00.0"}) {
    EXPECT_TRUE(std::ranges::any_of(topology.warnings, [&](const std::string& warning) {
      return warning.find(bus) != std::string::npos;
    })) << bus;
  }
}

TEST_F(DiscoverFiles, RdmaPortsSayWhatTheyAreAndHowTheyAre) {
  const auto put_port = [&](const std::string& device, const char* link_layer, const char* state,
                            const char* interface) {
    const std::string port = "/sys/class/infiniband/" + device + "/ports/1";
    put(port + "/link_layer", link_layer);
    put(port + "/state", state);
    put(port + "/rate", "100 Gb/sec (4X EDR)");
    put(port + "/gids/0", "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
    if (*interface != '\0') put(port + "/gid_attrs/ndevs/0", interface);
  };
  add_device("infiniband", "mlx5_0", "0000:04:00.0");
  put_port("mlx5_0", "InfiniBand", "4: ACTIVE", "");
  put("/sys/devices/pci0000:00/0000:04:00.0/numa_node", "1");
  add_device("infiniband", "mlx5_1", "0000:05:00.0");
  put_port("mlx5_1", "Ethernet", "1: DOWN", "eth1");
  add_device("net", "eth2", "0000:06:00.0");
  put("/sys/class/net/eth2/speed", "100000");
  put_port("rxe0", "Ethernet", "4: ACTIVE", "eth2");   // over a card
  put_port("rxe1", "Ethernet", "4: ACTIVE", "veth0");  // over nothing that is seen
  const Topology topology = found();
  ASSERT_EQ(topology.count(NodeKind::nic), 4);
  const auto nic = [&](const std::string& name) {
    for (const NodeId id : topology.all(NodeKind::nic))
      if (topology[id].name == name) return topology[id];
    ADD_FAILURE() << "no NIC " << name;
    return Node();
  };
  const auto ports = [](const char* name, const char* link, const char* state) {
    return std::vector{Port{name, 1, -1, 100, link, state}};
  };
  EXPECT_EQ(nic("mlx5_0").ports, ports("mlx5_0", "InfiniBand", "ACTIVE"));
  EXPECT_EQ(nic("mlx5_0").numa, std::vector{1});
  EXPECT_EQ(nic("mlx5_1").ports, ports("mlx5_1", "RoCE", "DOWN"));
  EXPECT_EQ(nic("eth2").ports, ports("rxe0", "RoCE", "ACTIVE")) << "no second NIC, no second speed";
  EXPECT_EQ(nic("rxe1").ports, ports("rxe1", "RoCE", "ACTIVE"));
  EXPECT_THAT(nic("rxe1").aliases, testing::ElementsAre("veth0"));
  EXPECT_THAT(to_text(topology),
              testing::AllOf(testing::HasSubstr("port mlx5_0 100 Gbit/s InfiniBand\n"),
                             testing::HasSubstr("port mlx5_1 100 Gbit/s RoCE (DOWN)\n")));
  const auto again = read_topology_json(to_json(topology), "json");
  ASSERT_TRUE(again.ok()) << again.status().text();
  EXPECT_EQ(*again, topology);
}

TEST_F(DiscoverFiles, TheLeastQuotaOfProcessorTimeCounts) {
  const auto quota = [&] {
    const Topology topology = found();
    for (const auto& [name, value] : topology.nodes.front().info)
      if (name == "CpuQuota") return value;
    return std::string();
  };
  EXPECT_EQ(quota(), "");
  put("/proc/self/cgroup", "1:cpu:/old\n0::/jobs/ours");
  put("/sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(quota(), "");
  put("/sys/fs/cgroup/cpu.max", "350000 100000");
  EXPECT_EQ(quota(), std::to_string(3.5));
  put("/sys/fs/cgroup/jobs/ours/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), std::to_string(1.5));
  put("/sys/fs/cgroup/jobs/ours/cpu.max", "nonsense");
  EXPECT_EQ(quota(), std::to_string(3.5));
}

}  // namespace
