// SPDX-License-Identifier: Apache-2.0
// A cluster as switches by pod and rail.
#include "topology/cluster_network.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "topology/reader_text.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

constexpr int kAll = -1;  ///< a switch that is not of one pod or rail

/// Where a switch stands: pod (or rack) and rail.
using Group = std::pair<int, int>;

class Network {
 public:
  Network(Topology& topology, const NetworkPlan& plan) : topology_(topology), plan_(plan) {}

  void plug_in(const std::vector<PluggedHost>& hosts) {
    for (std::size_t at = 0; at < hosts.size(); ++at) {
      const int pod = plan_.pod > 0 ? static_cast<int>(at) / plan_.pod : 0;
      several_pods_ = several_pods_ || pod > 0;
    }
    std::map<std::pair<NodeId, Group>, NodeId> leaves;
    for (std::size_t at = 0; at < hosts.size(); ++at) {
      const int pod = plan_.pod > 0 ? static_cast<int>(at) / plan_.pod : 0;
      const NodeId rack =
          plan_.leaf == NetworkPlan::Leaf::rack ? topology_[hosts[at].host].parent : kNoNode;
      for (std::size_t rail = 0; rail < hosts[at].nics.size(); ++rail) {
        const Group group{pod,
                          plan_.leaf == NetworkPlan::Leaf::rail ? static_cast<int>(rail) : kAll};
        const std::pair key{rack, rack == kNoNode ? group : Group{kAll, kAll}};
        const auto [leaf, is_new] = leaves.emplace(key, kNoNode);
        if (is_new) leaf->second = add_switch(1, group, rack);
        plug(hosts[at].nics[rail], leaf->second);
      }
    }
  }

  Status add_level(const NetworkPlan::Level& level) {
    ++level_;
    std::map<Group, std::vector<NodeId>> groups;
    for (const auto& [id, group] : top_) {
      Group wide{kAll, kAll};
      if (level.group == NetworkPlan::Level::Group::pod) wide.first = group.first;
      if (level.group == NetworkPlan::Level::Group::rail) wide.second = group.second;
      groups[wide].push_back(id);
    }
    const double switches = 1.0 * static_cast<double>(groups.size()) * level.switches;
    const double links = 1.0 * static_cast<double>(top_.size()) * level.switches;
    if (topology_.size() + switches > kMostNodes ||
        static_cast<double>(links_.size()) + links > kMostNodes) {
      return failed(Code::invalid_argument,
                    "level " + std::to_string(level_) +
                        " of the network has too many switches: " + std::to_string(level.switches) +
                        " for each of " + std::to_string(groups.size()) + " groups of those below",
                    "at most " + std::to_string(kMostNodes) + " parts, and as many links");
    }
    top_.clear();
    number_.clear();
    for (const auto& [group, below] : groups)
      for (int each = 0; each < level.switches; ++each) {
        const NodeId id = add_switch(level_, group, kNoNode);
        for (const NodeId lower : below)
          links_.push_back({LinkKind::network, lower, id, level.links,
                            level.gbits > 0 ? level.gbits / 8 : fastest_});
      }
    return {};
  }

  void connect() { topology_.connect_all(links_); }

 private:
  NodeId add_switch(int level, Group group, NodeId rack) {
    Node node;
    node.kind = NodeKind::network_switch;
    node.parent = rack;
    node.index = static_cast<int>(top_.size());
    node.level = level;
    node.name = name(level, group, rack);
    const NodeId id = topology_.add(std::move(node));
    top_.emplace_back(id, group);
    return id;
  }

  /// "pod 3 rail 0", "rack 2 leaf", "spine 4": one name each.
  std::string name(int level, Group group, NodeId rack) {
    if (rack != kNoNode) return label(topology_, rack) + " leaf";
    std::string text;
    const auto word = [&](const std::string& each) { text += (text.empty() ? "" : " ") + each; };
    if (group.first != kAll && several_pods_) word("pod " + std::to_string(group.first));
    if (group.second != kAll) word("rail " + std::to_string(group.second));
    if (level == 1 && !text.empty()) return text;
    constexpr std::array<const char*, 4> kNames{"", "leaf", "spine", "core"};
    word(level < 4 ? kNames[static_cast<std::size_t>(level)] : "level " + std::to_string(level));
    return level == 1 ? text : text + " " + std::to_string(number_[group]++);
  }

  void plug(NodeId nic, NodeId leaf) {
    Node& node = topology_.nodes[static_cast<std::size_t>(nic)];
    if (node.ports.empty()) node.ports.push_back({node.name, 1, -1, 0});
    if (port_gbytes_per_s(node) <= 0) node.ports[0].gbits_per_s = plan_.gbits;
    const double port = port_gbytes_per_s(node);
    const double wire = plan_.gbits > 0 ? std::min(port, plan_.gbits / 8) : port;
    fastest_ = std::max(fastest_, wire);
    links_.push_back({LinkKind::network, nic, leaf, 1, wire});
  }

  Topology& topology_;
  const NetworkPlan& plan_;
  bool several_pods_ = false;
  int level_ = 1;
  double fastest_ = 0;                         ///< of the NICs' links, 1e9 bytes/s
  std::vector<std::pair<NodeId, Group>> top_;  ///< switches of the level reached
  std::map<Group, int> number_;                ///< of the next switch of a group at this level
  std::vector<Link> links_;
};

}  // namespace

Status add_network(Topology& topology, const std::vector<PluggedHost>& hosts,
                   const NetworkPlan& plan) {
  Network network(topology, plan);
  network.plug_in(hosts);
  for (const NetworkPlan::Level& level : plan.above) COLL_TRY(network.add_level(level));
  network.connect();
  return {};
}

}  // namespace coll
