// SPDX-License-Identifier: Apache-2.0
// Descriptions of real machines and facts about them, computed by other means. They lie beside the
// repository where they are at all; without them their tests are skipped.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "topology/read/read_topology.hpp"
#include "topology/read/settle.hpp"
#include "topology/topology_path.hpp"

namespace real_machines {

using coll::Distance;
using coll::NodeId;
using coll::NodeKind;
using Json = nlohmann::json;
namespace fs = std::filesystem;

inline const fs::path kFolder = fs::path(COLL_SOURCE_ROOT) / ".." / "shared" / "topologies";

inline std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline const Json& expectations() {
  static const Json json = fs::exists(kFolder / "expectations.json")
                               ? Json::parse(content(kFolder / "expectations.json"))
                               : Json::object();
  return json;
}

inline std::vector<std::string> names(const std::string& kind) {
  std::vector<std::string> found;
  for (const auto& [name, machine] : expectations().items())
    if (machine["kind"] == kind) found.push_back(name);
  return found;
}

class Machine : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Json& machine = expectations()[GetParam()];
    facts = machine["facts"];
    const std::string file = (kFolder / machine["files"][0].get<std::string>()).string();
    auto read = coll::read_topology_file(file);
    ASSERT_TRUE(read.ok()) << read.status().text();
    topology = *std::move(read);
    ASSERT_TRUE(coll::check(topology).ok());
    const auto back = coll::read_topology_json(coll::to_json(topology), "back");
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_TRUE(*back == topology) << "reads back different";
  }

  /// The nodes that facts list, in the facts' order: by bus number, the nth of equal ones.
  std::vector<NodeId> by_bus(const Json& list, NodeKind kind) {
    std::vector<NodeId> found, all;
    for (NodeId id = 0; id < topology.size(); ++id)
      if (topology[id].kind == kind) all.push_back(id);
    for (const Json& each : list) {
      const auto at = std::find_if(all.begin(), all.end(),
                                   [&](NodeId id) { return topology[id].pci.bus == each["bus"]; });
      if (at == all.end()) {
        ADD_FAILURE() << "no " << name_of(kind) << " at " << each["bus"];
        return {};
      }
      found.push_back(*at);
      all.erase(at);
    }
    return found;
  }

  void expect_count(const char* fact, int count) {
    if (facts.contains(fact)) {
      EXPECT_EQ(facts[fact].get<int>(), count) << fact;
    }
  }

  int caches(int level) {
    return static_cast<int>(
        std::count_if(topology.nodes.begin(), topology.nodes.end(), [&](const coll::Node& node) {
          return node.kind == NodeKind::cache && node.level == level && node.subtype != "i";
        }));
  }

  void expect_classes(const char* fact, const std::vector<NodeId>& rows,
                      const std::vector<NodeId>& columns, bool links) {
    if (!facts.contains(fact)) return;
    const Json& matrix = facts[fact];
    ASSERT_EQ(matrix.size(), rows.size()) << fact;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      ASSERT_EQ(matrix[row].size(), columns.size()) << fact;
      for (std::size_t column = 0; column < columns.size(); ++column) {
        const auto path = links ? path_between(topology, rows[row], columns[column])
                                : pci_path_between(topology, rows[row], columns[column]);
        EXPECT_EQ(matrix[row][column].get<std::string>(), name_of(path.distance))
            << fact << " of " << label(topology, rows[row]) << " and "
            << label(topology, columns[column]);
      }
    }
  }

  void expect_islands(const char* fact, const std::vector<NodeId>& gpus) {
    if (!facts.contains(fact)) return;
    std::set<std::vector<int>> wanted, found;
    for (const Json& each : facts[fact])
      if (each.size() > 1) wanted.insert(each.get<std::vector<int>>());
    for (const auto& island : link_islands(topology)) {
      std::vector<int> places;
      for (const NodeId gpu : island)
        places.push_back(static_cast<int>(std::find(gpus.begin(), gpus.end(), gpu) - gpus.begin()));
      std::sort(places.begin(), places.end());
      found.insert(places);
    }
    EXPECT_EQ(wanted, found) << fact;
  }

  int links_of(NodeId gpu, bool to_switch) {
    int sum = 0;
    for (const coll::Link& link : topology.links)
      if (link.from == gpu && (topology[link.to].kind == NodeKind::link_switch) == to_switch)
        sum += link.count;
    return sum;
  }

  /// The set of a number per GPU, as facts list it.
  static Json distinct(const std::vector<int>& values) {
    return std::set<int>(values.begin(), values.end());
  }

  bool warned_of(std::string_view words) {
    return std::any_of(
        topology.warnings.begin(), topology.warnings.end(),
        [&](const std::string& warning) { return warning.find(words) != warning.npos; });
  }

  coll::Topology topology;
  Json facts;
};

inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(),
      [](char each) { return !std::isalnum(static_cast<unsigned char>(each)); }, '_');
  return name;
}

}  // namespace real_machines
