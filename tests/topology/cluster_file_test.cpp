// SPDX-License-Identifier: Apache-2.0
// Cluster files: many hosts behind a network.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "temporary_folder.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/topology_hash.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Topology cluster(const std::string& text) {
  auto read = read_topology(text, "test.json");
  EXPECT_TRUE(read.ok()) << read.status().text();
  if (!read.ok()) return {};
  EXPECT_TRUE(check(*read).ok());
  const auto back = read_topology(to_json(*read), "back");
  EXPECT_TRUE(back.ok()) << back.status().text();
  EXPECT_TRUE(back.ok() && *back == *read) << "reads back different";
  return *std::move(read);
}

/// Rails by pods of 4, one spine level in each pod, one above all.
constexpr const char* kRails = R"({"cluster": 1,
  "hosts": [{"count": 12, "topology": "package:2 gpu:4 nvlink:switchx4 nic:2@400G pcie:5x16", "per_rack": 2}],
  "network": {"leaf": "rail", "pod": 4, "above": [
    {"per": "pod", "switches": 2, "links": 3, "gbits": 800}, {"switches": 5, "links": 1, "gbits": 200}]}})";

std::vector<NodeId> switches(const Topology& topology, int level) {
  std::vector<NodeId> found = topology.all(NodeKind::network_switch);
  std::erase_if(found, [&](NodeId id) { return topology[id].level != level; });
  return found;
}

int links_to(const Topology& topology, NodeId from, NodeKind kind, int level = 0) {
  int sum = 0;
  for (const Link& link : topology.links_from(from))
    if (topology[link.to].kind == kind && topology[link.to].level == level) sum += link.count;
  return sum;
}

TEST(ClusterFile, PlacesHostsInRacks) {
  const Topology topology = cluster(kRails);
  EXPECT_EQ(topology.count(NodeKind::host), 12);
  const auto racks = topology.all(NodeKind::rack);
  ASSERT_EQ(racks.size(), 6U);
  const auto hosts = topology.all(NodeKind::host);
  for (std::size_t at = 0; at < hosts.size(); ++at) {
    EXPECT_EQ(topology[hosts[at]].index, static_cast<int>(at));
    EXPECT_EQ(topology[hosts[at]].parent, racks[at / 2]);
    EXPECT_EQ(topology.parts(hosts[at], NodeKind::gpu).size(), 4U);
  }
  const auto gpus = topology.all(NodeKind::gpu);
  EXPECT_EQ(gpus.size(), 48U);
  EXPECT_EQ(topology.above(gpus[5], NodeKind::host), hosts[1]);
  EXPECT_EQ(link_islands(topology).size(), 12U);
}

TEST(ClusterFile, PlugsRailsIntoLeavesAndLeavesIntoSpines) {
  const Topology topology = cluster(kRails);
  const auto leaves = switches(topology, 1), spines = switches(topology, 2),
             cores = switches(topology, 3);
  ASSERT_EQ(leaves.size(), 6U);  // 3 pods of 2 rails
  ASSERT_EQ(spines.size(), 6U);  // 3 pods of 2
  ASSERT_EQ(cores.size(), 5U);
  for (const NodeId leaf : leaves) {
    EXPECT_EQ(links_to(topology, leaf, NodeKind::nic), 4);
    EXPECT_EQ(links_to(topology, leaf, NodeKind::network_switch, 2), 2 * 3);
  }
  for (const NodeId spine : spines) {
    EXPECT_EQ(links_to(topology, spine, NodeKind::network_switch, 1), 2 * 3);
    EXPECT_EQ(links_to(topology, spine, NodeKind::network_switch, 3), 5);
  }
  for (const NodeId core : cores)
    EXPECT_EQ(links_to(topology, core, NodeKind::network_switch, 2), 6);
  EXPECT_EQ(topology[leaves[3]].name, "pod 1 rail 1");
  EXPECT_EQ(topology[spines[3]].name, "pod 1 spine 1");
  EXPECT_EQ(topology[cores[4]].name, "core 4");
  // The same rail of one pod meets in a leaf.
  const auto hosts = topology.all(NodeKind::host);
  const auto leaf_of = [&](std::size_t host, std::size_t nic) {
    return topology.links_from(topology.parts(hosts[host], NodeKind::nic)[nic])[0].to;
  };
  EXPECT_EQ(leaf_of(0, 1), leaf_of(3, 1));
  EXPECT_NE(leaf_of(0, 1), leaf_of(0, 0));
  EXPECT_NE(leaf_of(0, 1), leaf_of(4, 1));
}

TEST(ClusterFile, SaysWhatFitsBetweenHosts) {
  const Topology topology = cluster(kRails);
  const auto gpus = topology.all(NodeKind::gpu);
  // Within a leaf the NIC is narrowest; across pods the core's links of 200 Gbit/s are.
  EXPECT_EQ(path_between(topology, gpus[0], gpus[4]), (Path{Distance::net, 0, 50}));
  EXPECT_EQ(path_between(topology, gpus[0], gpus[7]), (Path{Distance::net, 0, 50}));
  EXPECT_EQ(path_between(topology, gpus[0], gpus[47]), (Path{Distance::net, 0, 25}));
  EXPECT_EQ(path_between(topology, gpus[0], gpus[3]), (Path{Distance::link, 4, 100}));
  const auto nics = topology.all(NodeKind::nic);
  EXPECT_EQ(network_between(topology, nics[0], nics[3]), 50);
  EXPECT_EQ(network_between(topology, nics[0], nics[23]), 25);
}

TEST(ClusterFile, HasALeafPerRackOrPod) {
  const Topology racks = cluster(R"({"cluster": 1, "hosts": [
      {"count": 3, "topology": "gpu:2 nic:2@100G", "per_rack": 2},
      {"count": 2, "topology": "gpu:1 nic:1@200G", "per_rack": 2}],
    "network": {"leaf": "rack", "gbits": 150, "above": [{"switches": 2}]}})");
  const auto leaves = switches(racks, 1);
  ASSERT_EQ(leaves.size(), 3U);
  EXPECT_EQ(racks.count(NodeKind::rack), 3);
  for (const NodeId leaf : leaves) EXPECT_EQ(racks[racks[leaf].parent].kind, NodeKind::rack);
  EXPECT_EQ(links_to(racks, leaves[0], NodeKind::nic), 4);
  EXPECT_EQ(links_to(racks, leaves[1], NodeKind::nic), 2);
  EXPECT_EQ(links_to(racks, leaves[2], NodeKind::nic), 2);
  EXPECT_EQ(links_to(racks, leaves[2], NodeKind::network_switch, 2), 2);
  const auto gpus = racks.all(NodeKind::gpu);
  EXPECT_EQ(path_between(racks, gpus.front(), gpus.back()).gbytes_per_s, 12.5);
  EXPECT_EQ(path_between(racks, gpus[6], gpus[7]).gbytes_per_s, 150 / 8.0) << "the wire's";
  // Nothing said of the network: one switch.
  const Topology plain = cluster(R"({"cluster": 1, "hosts": [{"count": 3, "topology": "nic:1"}]})");
  ASSERT_EQ(switches(plain, 1).size(), 1U);
  EXPECT_EQ(links_to(plain, switches(plain, 1)[0], NodeKind::nic), 3);
}

TEST(ClusterFile, TakesHostsFromFilesBesideIt) {
  const test::TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
  std::ofstream(folder / "host.txt") << "numa:2 gpu:2 nvlink:all nic:3@100G core:4 pu:2";
  std::ofstream(folder / "cluster.json")
      << R"({"cluster": 1, "hosts": [{"count": 2, "topology": "host.txt", "nics": ["NIC2", "NIC0"]}],
             "network": {"leaf": "rail"}})";
  const auto read = read_topology_file((folder / "cluster.json").string());
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->count(NodeKind::gpu), 4);
  EXPECT_EQ(read->count(NodeKind::core), 0) << "left out where there are GPUs";
  EXPECT_EQ(read->usable_pus(), 2 * 16);
  const auto leaves = switches(*read, 1);
  ASSERT_EQ(leaves.size(), 2U);
  for (const Link& link : read->links_from(leaves[0]))
    EXPECT_EQ(label(*read, link.to), "NIC2") << "the first rail";
}

TEST(ClusterFile, OfTheDocumentsIsOne) {
  const auto read = read_topology_file(std::string(COLL_SOURCE_ROOT) + "/docs/cluster.json");
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->count(NodeKind::gpu), 512);
  EXPECT_EQ(read->count(NodeKind::network_switch), 12);
}

TEST(ClusterFile, KeepsCoresWhereThereAreNoGpus) {
  const Topology topology =
      cluster(R"({"cluster": 1, "hosts": [{"count": 2, "topology": "core:4 pu:2 nic:1"}]})");
  EXPECT_EQ(topology.count(NodeKind::core), 8);
  EXPECT_EQ(topology.count(NodeKind::pu), 0);
}

TEST(ClusterFile, PrintsEqualHostsOnce) {
  const std::string text = to_text(cluster(kRails));
  EXPECT_THAT(text,
              AllOf(HasSubstr("6 x rack\n  2 x host"), HasSubstr("6 x network_switch, level 1"),
                    HasSubstr("5 x network_switch, level 3")));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40);
}

TEST(Line, HasRacksOfHosts) {
  const Topology topology = cluster("rack:3 host:4 gpu:2 nic:2@100G switch:2");
  const auto hosts = topology.all(NodeKind::host), racks = topology.all(NodeKind::rack);
  ASSERT_EQ(hosts.size(), 12U);
  ASSERT_EQ(racks.size(), 3U);
  EXPECT_EQ(topology[hosts[7]].parent, racks[1]);
  EXPECT_EQ(topology[hosts[7]].index, 7);
  for (const NodeId leaf : switches(topology, 1))
    EXPECT_EQ(links_to(topology, leaf, NodeKind::nic), 12);
  EXPECT_EQ(cluster("rack:2 nic:1").count(NodeKind::network_switch), 1);
}

TEST(ClusterFile, HashesByBuild) {
  const std::string text = kRails;
  std::string other = text;
  other.replace(other.find("\"links\": 3"), 10, "\"links\": 4");
  EXPECT_EQ(topology_hash(cluster(text)), topology_hash(cluster(text)));
  EXPECT_NE(topology_hash(cluster(text)), topology_hash(cluster(other)));
}

TEST(ClusterFile, DoesNotReadItself) {
  const test::TemporaryFolder temporary;
  const std::filesystem::path file = temporary.path() + "/self";
  std::ofstream(file) << R"({"cluster": 1, "hosts": [{"topology": ")" << file.filename().string()
                      << R"("}]})";
  const auto read = read_topology_file(file.string());
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().text(), HasSubstr("is a cluster file"));
}

struct Bad {
  const char* text;
  const char* says;
};

class BadClusterFile : public testing::TestWithParam<Bad> {};

TEST_P(BadClusterFile, SaysWhatAndWhere) {
  const auto read = read_topology(GetParam().text, "test.json");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().text(), AllOf(HasSubstr("test.json"), HasSubstr(GetParam().says)));
  EXPECT_FALSE(read.status().failure()->hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadClusterFile,
    testing::Values(
        Bad{R"({"cluster": 1,)", "test.json:1: JSON"},
        Bad{R"({"cluster": 2, "hosts": []})", "of version 2"}, Bad{R"({"cluster": 1})", "no hosts"},
        Bad{R"({"cluster": 1, "hosts": [3]})", "hosts[0] is 3, not an object"},
        Bad{R"({"cluster": 1, "hosts": [{"count": 2}]})", "hosts[0] has no topology"},
        Bad{R"({"cluster": 1, "hosts": [{"count": -2, "topology": "nic:1"}]})", "count is -2"},
        Bad{R"({"cluster": 1, "hosts": [{"count": 1e9, "topology": "nic:1"}]})", "count is 1"},
        Bad{R"({"cluster": 1, "hosts": [{"cuont": 2, "topology": "nic:1"}]})", "\"cuont\""},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "none/such.xml"}]})",
            "hosts[0] topology: cannot read topology \"none/such.xml\""},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "gpu:2"}]})", "hosts[0] has no NIC"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "host:2 nic:1"}]})", "describes 2 hosts"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:1", "count": 1000000},
             {"topology": "nic:1 numa:8", "count": 1000000}]})",
            "hosts[0] makes"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:2", "nics": ["NIC0", "NIC7"]}]})",
            "\"NIC7\" is none of the host"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:2", "nics": 3}]})", "nics"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:2"}], "network": {"leaf": "tree"}})",
            "network leaf is \"tree\""},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:2"}], "network": {"leaf": "rack"}})",
            "not all hosts stand in racks"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:2"}],
             "network": {"above": [{"switches": 0}]}})",
            "network.above[0] switches is 0"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:2"}],
             "network": {"above": [{"switches": 20000}, {"switches": 20000}]}})",
            "too many switches: 20000"},
        Bad{R"({"cluster": 1, "hosts": [{"topology": "nic:2"}], "network": {"gbits": "fast"}})",
            "network gbits is \"fast\""}));

}  // namespace
}  // namespace coll
