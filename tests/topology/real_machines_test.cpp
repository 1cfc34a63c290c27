// SPDX-License-Identifier: Apache-2.0
// What is found in hwloc's and NCCL's files of real machines.
#include "real_machine.hpp"

namespace {

using namespace real_machines;  // NOLINT(google-build-using-namespace)

class HwlocMachine : public Machine {};
class NcclMachine : public Machine {};

TEST_P(HwlocMachine, HasWhatTheFactsSay) {
  expect_count("packages", topology.count(NodeKind::package));
  expect_count("numa_nodes", topology.count(NodeKind::numa));
  expect_count("cores", topology.count(NodeKind::core));
  expect_count("pus", topology.count(NodeKind::pu));
  expect_count("pus_allowed", topology.usable_pus());
  expect_count("groups", topology.count(NodeKind::group));
  expect_count("dies", topology.count(NodeKind::die));
  expect_count("l2_caches", caches(2));
  expect_count("l3_caches", caches(3));
  expect_count("gpu_count", topology.count(NodeKind::gpu));
  expect_count("nic_count", topology.count(NodeKind::nic));
  expect_count("pci_devices", topology.count(NodeKind::gpu) + topology.count(NodeKind::nic) +
                                  topology.count(NodeKind::pci_device));
  for (const auto& [fact, key] : {std::pair{"architecture", "Architecture"},
                                  {"osname", "OSName"},
                                  {"osrelease", "OSRelease"},
                                  {"dmiproductname", "DMIProductName"},
                                  {"platformmodel", "PlatformModel"},
                                  {"hwlocversion", "hwlocVersion"}})
    if (facts.contains(fact)) {
      EXPECT_EQ(facts[fact], topology[0].info_of(key));
    }
  if (facts.contains("cpu_model")) {
    const auto packages = topology.all(NodeKind::package);
    const bool any = std::any_of(packages.begin(), packages.end(), [&](NodeId id) {
      return topology[id].info_of("CPUModel") == facts["cpu_model"].get<std::string>();
    });
    EXPECT_TRUE(any || topology[0].info_of("CPUModel") == facts["cpu_model"].get<std::string>());
  }
  for (const Json& bus : facts.value("display_only_vga", Json::array()))
    for (const coll::Node& node : topology.nodes)
      if (node.pci.bus == bus) {
        EXPECT_EQ(node.kind, NodeKind::pci_device) << bus;
      }
}

TEST_P(HwlocMachine, HasItsMemoriesAndTheirLatencies) {
  for (const Json& fact : facts["numa"]) {
    const auto& nodes = topology.nodes;
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const coll::Node& each) {
      return each.kind == NodeKind::numa && each.index == fact["os"];
    });
    ASSERT_NE(node, nodes.end()) << fact;
    EXPECT_EQ(node->cpus.count(), fact["cpus"].get<int>()) << fact;
    EXPECT_EQ(node->bytes, fact["memory"].get<std::int64_t>()) << fact;
    if (fact.contains("subtype")) {
      EXPECT_EQ(node->subtype, fact["subtype"]);
    }
  }
  if (!facts.contains("numa_latency")) return;
  ASSERT_EQ(topology.latencies.size(), 1U);
  EXPECT_EQ(Json(topology.latencies[0].nodes), facts["numa_latency"]["nodes"]);
  std::size_t at = 0;
  for (const Json& row : facts["numa_latency"]["matrix"])
    for (const Json& value : row)
      EXPECT_NEAR(topology.latencies[0].values.at(at++), value.get<double>(), 0.01);
}

TEST_P(HwlocMachine, HasItsKindsOfCore) {
  if (!facts.contains("cpu_kinds")) return;
  ASSERT_EQ(topology.cpu_kinds.size(), facts["cpu_kinds"].size());
  for (std::size_t at = 0; at < topology.cpu_kinds.size(); ++at) {
    const Json& fact = facts["cpu_kinds"][at];
    EXPECT_EQ(topology.cpu_kinds[at].cpus.count(), fact["pus"].get<int>());
    if (fact.contains("CoreType")) {
      EXPECT_THAT(topology.cpu_kinds[at].name,
                  testing::HasSubstr(fact["CoreType"].get<std::string>()));
    }
  }
}

TEST_P(HwlocMachine, HasItsDevicesWhereTheyAre) {
  const auto gpus = by_bus(facts.value("gpus", Json::array()), NodeKind::gpu);
  const auto nics = by_bus(facts.value("nics", Json::array()), NodeKind::nic);
  const auto expect_device = [&](const Json& fact, NodeId id) {
    const coll::Node& node = topology[id];
    EXPECT_EQ(Json(node.numa), fact["numa"]) << fact;
    EXPECT_EQ(Json(node.aliases), fact["osdev"]) << fact;
    EXPECT_NEAR(node.pci.gbytes_per_s, fact["link_GBps"].get<double>(), 0.01) << fact;
    if (fact.contains("model")) {
      EXPECT_EQ(node.model, fact["model"]) << fact;
    }
  };
  for (std::size_t at = 0; at < gpus.size(); ++at) expect_device(facts["gpus"][at], gpus[at]);
  for (std::size_t at = 0; at < nics.size(); ++at) expect_device(facts["nics"][at], nics[at]);
  std::vector<std::string> rdma;
  for (const Json& name : facts.value("rdma_devices", Json::array()))
    EXPECT_TRUE(std::any_of(topology.nodes.begin(), topology.nodes.end(), [&](const auto& node) {
      return std::any_of(node.ports.begin(), node.ports.end(),
                         [&](const coll::Port& port) { return port.name == name; });
    })) << name;
  if (facts.contains("nics") || facts["nic_count"] == 0)
    expect_classes("gpu_nic_class", gpus, nics, true);
  expect_classes("gpu_pair_class", gpus, gpus, true);
}

TEST_P(HwlocMachine, HasTheLinksThatCanBeBelieved) {
  const auto gpus = topology.all(NodeKind::gpu);
  if (facts.contains("nvlink_to_switch_MBps_per_gpu")) {
    std::vector<int> speeds;
    for (const coll::Link& link : topology.links)
      if (topology[link.from].kind == NodeKind::gpu)
        speeds.push_back(static_cast<int>(link.count * link.gbytes_per_s * 1000));
    EXPECT_EQ(distinct(speeds), facts["nvlink_to_switch_MBps_per_gpu"]);
    const auto fabric = topology.all(NodeKind::link_switch);
    ASSERT_EQ(fabric.size(), 1U);
    EXPECT_EQ(topology[fabric[0]].info_of("switches"),
              std::to_string(facts["nvlink_switch_ports_seen"].get<int>()));
  }
  if (facts.contains("xgmi_matrix_is_wrong")) {
    EXPECT_TRUE(topology.links.empty());
    EXPECT_TRUE(warned_of("GPU links"));
  }
  if (facts.contains("xgmi_hives")) {
    for (const Json& hive : facts["xgmi_hives"])
      for (const Json& member : hive)
        EXPECT_EQ(topology[gpus[member.get<std::size_t>()]].island,
                  topology[gpus[hive[0].get<std::size_t>()]].island);
    EXPECT_FALSE(topology[gpus[0]].island.empty());
  } else {
    for (const NodeId gpu : gpus) EXPECT_TRUE(topology[gpu].island.empty()) << "no hive there";
  }
}

TEST_P(NcclMachine, HasWhatTheFactsSay) {
  expect_count("gpu_count", topology.count(NodeKind::gpu));
  expect_count("pci_switch_nodes", topology.count(NodeKind::pci_switch));
  std::set<int> domains;
  int nics = 0, ports = 0;
  for (const coll::Node& node : topology.nodes) {
    if (node.kind == NodeKind::numa) domains.insert(node.index);
    nics += node.kind == NodeKind::nic && !node.pci.bus.empty() ? 1 : 0;
    ports += static_cast<int>(node.ports.size());
  }
  EXPECT_EQ(Json(domains), facts["numa_domains"]);
  expect_count("nic_pci_count", nics);
  expect_count("net_count", ports);
  EXPECT_EQ(topology[0].info_of("arch"),
            facts["cpu_arch"].empty() ? "" : facts["cpu_arch"][0].get<std::string>());
  for (const Json& each : facts.value("unclassified_leaf_pci", Json::array())) {
    const auto found = std::find_if(topology.nodes.begin(), topology.nodes.end(),
                                    [&](const auto& node) { return node.pci.bus == each["bus"]; });
    ASSERT_NE(found, topology.nodes.end());
    EXPECT_EQ(found->kind, NodeKind::pci_device);
    EXPECT_EQ(Json(found->numa), Json::array({each["numa"]}));
  }
}

TEST_P(NcclMachine, HasItsDevicesWhereTheyAre) {
  const auto gpus = by_bus(facts["gpus"], NodeKind::gpu);
  ASSERT_EQ(gpus.size(), facts["gpus"].size());
  for (std::size_t at = 0; at < gpus.size(); ++at) {
    const Json& fact = facts["gpus"][at];
    EXPECT_EQ(Json(topology[gpus[at]].numa), Json::array({fact["numa"]}));
    if (fact.contains("dev")) {
      EXPECT_EQ(Json(topology[gpus[at]].index), fact["dev"]);
    }
  }
  expect_classes("gpu_pair_class", gpus, gpus, true);
  expect_classes("pci_class_without_links", gpus, gpus, false);
  // Ports in the file's order, or NICs where it lists no ports.
  std::vector<NodeId> columns;
  if (facts["nets"].empty()) {
    columns = by_bus(facts.value("nics", Json::array()), NodeKind::nic);
  } else {
    std::vector<std::pair<NodeId, coll::Port>> ports;
    for (NodeId id = 0; id < topology.size(); ++id)
      for (const coll::Port& port : topology[id].ports) ports.emplace_back(id, port);
    for (const Json& fact : facts["nets"]) {
      const auto port = std::find_if(ports.begin(), ports.end(), [&](const auto& each) {
        const coll::Node& node = topology[each.first];
        return each.second.name == fact["name"] && each.second.index == fact["dev"] &&
               (fact["bus"].is_null() ? node.pci.bus.empty() : node.pci.bus == fact["bus"]);
      });
      ASSERT_NE(port, ports.end()) << fact;
      double wanted = fact["Gbps"];
      if (wanted > coll::kFastestPort) {
        wanted /= 1000;
        EXPECT_TRUE(warned_of("kb/s"));
      }
      EXPECT_DOUBLE_EQ(port->second.gbits_per_s, wanted) << fact;
      columns.push_back(port->first);
      ports.erase(port);
    }
  }
  expect_classes("gpu_nic_class", gpus, columns, true);
}

TEST_P(NcclMachine, HasTheLinksThatCanBeBelieved) {
  const auto gpus = by_bus(facts["gpus"], NodeKind::gpu);
  std::set<std::vector<int>> wanted, found;
  for (const Json& pair : facts.value("links_per_pair", Json::array()))
    wanted.insert(pair.get<std::vector<int>>());
  std::vector<int> own, to_switch;
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    own.push_back(links_of(gpus[a], false));
    to_switch.push_back(links_of(gpus[a], true));
    for (std::size_t b = a + 1; b < gpus.size(); ++b)
      if (const auto path = link_path_between(topology, gpus[a], gpus[b]);
          path.distance == Distance::link && to_switch.back() == 0)
        found.insert({static_cast<int>(a), static_cast<int>(b), path.links});
  }
  EXPECT_EQ(wanted, found);
  if (facts.contains("links_per_gpu")) {
    EXPECT_EQ(distinct(own), facts["links_per_gpu"]);
  }
  if (facts.contains("nvswitch_links_per_gpu")) {
    EXPECT_EQ(distinct(to_switch), facts["nvswitch_links_per_gpu"]);
  }
  for (const coll::Link& link : topology.links) EXPECT_GT(link.gbytes_per_s, 0);
  expect_islands("link_islands", gpus);
  for (const Json& fact : facts.value("malformed_links", Json::array()))
    EXPECT_TRUE(warned_of("GPU" + std::to_string(fact["gpu"].get<int>()) + " claims " +
                          std::to_string(fact["count"].get<int>()) + " links to itself"));
}

TEST(RealMachines, AreThere) {
  if (expectations().empty()) GTEST_SKIP() << "no descriptions of real machines in " << kFolder;
  EXPECT_EQ(
      names("hwloc").size() + names("nccl").size() + names("smi").size() + names("sysfs").size(),
      expectations().size());
}

// Machines whose file was edited to say less of one NUMA node's links than the same hardware says.
TEST(RealMachines, ThatAreTheSameHaveTheSamePaths) {
  const fs::path one = kFolder / "nccl/oci-bm-gpu-h100.xml",
                 two = kFolder / "nccl/oci-bm-gpu-h100-k8s.xml";
  if (!fs::exists(one) || !fs::exists(two))
    GTEST_SKIP() << "no descriptions of real machines in " << kFolder;
  const auto a = coll::read_topology_file(one.string()), b = coll::read_topology_file(two.string());
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->size(), b->size());
  for (NodeId first = 0; first < a->size(); ++first) {
    if ((*a)[first].kind != NodeKind::gpu && (*a)[first].kind != NodeKind::nic) continue;
    for (NodeId second = 0; second < a->size(); ++second)
      if ((*a)[second].kind == NodeKind::gpu || (*a)[second].kind == NodeKind::nic) {
        EXPECT_EQ(path_between(*a, first, second), path_between(*b, first, second));
      }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HwlocMachine);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NcclMachine);
INSTANTIATE_TEST_SUITE_P(All, HwlocMachine, testing::ValuesIn(names("hwloc")), test_name);
INSTANTIATE_TEST_SUITE_P(All, NcclMachine, testing::ValuesIn(names("nccl")), test_name);

}  // namespace
