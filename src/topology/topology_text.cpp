// SPDX-License-Identifier: Apache-2.0
// Prints a machine as a tree of text.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include "topology/topology_path.hpp"

namespace coll {
namespace {

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string bytes_text(std::int64_t bytes) {
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return short_number(value) + " " + units[unit];
}

class Printer {
 public:
  explicit Printer(const Topology& topology)
      : topology_(topology), children_(topology.nodes.size()) {
    for (NodeId id = 0; id < topology.size(); ++id)
      if (topology[id].parent == kNoNode)
        roots_.push_back(id);
      else
        children_[static_cast<std::size_t>(topology[id].parent)].push_back(id);
  }

  std::string print() {
    print_all(roots_, 0);
    print_links();
    for (const std::string& warning : topology_.warnings) text_ += "warning: " + warning + "\n";
    return std::move(text_);
  }

 private:
  /// Equal lines with equal trees below, one after the other, are one line "4 x …".
  void print_all(const std::vector<NodeId>& nodes, int depth) {
    for (std::size_t at = 0; at < nodes.size();) {
      std::size_t end = at + 1;
      while (end < nodes.size() && alike(nodes[at], nodes[end])) ++end;
      const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
      const bool many = end - at > 1;
      const bool skip = topology_[nodes[at]].kind == NodeKind::pu;
      if (!skip || depth == 0) {
        text_ +=
            indent + (many ? std::to_string(end - at) + " x " : "") + line(nodes[at], !many) + "\n";
        print_all(children(nodes[at]), depth + 1);
      }
      at = end;
    }
  }

  [[nodiscard]] const std::vector<NodeId>& children(NodeId id) const {
    return children_[static_cast<std::size_t>(id)];
  }

  [[nodiscard]] bool alike(NodeId a, NodeId b) const {
    if (!says_the_same(topology_[a], topology_[b]) && line(a, false) != line(b, false))
      return false;
    return std::equal(children(a).begin(), children(a).end(), children(b).begin(),
                      children(b).end(), [&](NodeId x, NodeId y) { return alike(x, y); });
  }

  /// Enough to have the same line, and cheaper to see.
  static bool says_the_same(const Node& a, const Node& b) {
    const auto said = [](const Node& node) {
      return std::tie(node.kind, node.name, node.index, node.model, node.cpus, node.bytes,
                      node.level, node.subtype, node.pci, node.ports, node.info);
    };
    return said(a) == said(b);
  }

  /// One node; `named` with what tells it from its like.
  [[nodiscard]] std::string line(NodeId id, bool named) const {
    const Node& node = topology_[id];
    const bool device = node.kind == NodeKind::gpu || node.kind == NodeKind::nic;
    std::string text = named || device ? label(topology_, id) : plain(node);
    const auto add = [&](const std::string& part) {
      if (!part.empty()) text += ", " + part;
    };
    add(node.model);
    if (node.kind == NodeKind::package) add(std::string(node.info_of("CPUModel")));
    add(node.subtype.empty() || node.kind == NodeKind::cache ? "" : node.subtype);
    if (node.bytes > 0) add(bytes_text(node.bytes));
    if (node.kind == NodeKind::network_switch && node.level > 0)
      add("level " + std::to_string(node.level));
    if (node.kind == NodeKind::core) {
      const auto threads = children(id).size();
      if (threads > 1) add(std::to_string(threads) + " threads");
    } else if (node.kind != NodeKind::pu && !node.cpus.empty() && !device) {
      add(named ? "PUs " + node.cpus.list() : std::to_string(node.cpus.count()) + " PUs");
    }
    if (named || device)
      if (!node.pci.bus.empty() && text.find(node.pci.bus) == text.npos) add(node.pci.bus);
    if (node.pci.gbytes_per_s > 0) add(short_number(node.pci.gbytes_per_s) + " GB/s");
    for (const Port& port : node.ports) {
      std::string said;
      if (port.gbits_per_s > 0) said += " " + short_number(port.gbits_per_s) + " Gbit/s";
      if (!port.link.empty()) said += " " + port.link;
      if (!port.state.empty() && port.state != "ACTIVE") said += " (" + port.state + ")";
      if (port.name != node.name || !said.empty()) add("port " + port.name + said);
    }
    return text;
  }

  static std::string plain(const Node& node) {
    return node.kind == NodeKind::cache ? "L" + std::to_string(node.level) + node.subtype
                                        : std::string(name_of(node.kind));
  }

  /// Hosts that are alike have the same lines: each pair of names is said once, with how often.
  void print_links() {
    constexpr int kShown = 64;
    const auto cables = std::count_if(
        topology_.links.begin(), topology_.links.end(),
        [](const Link& link) { return link.kind == LinkKind::network && link.from < link.to; });
    const auto end_of = [&](const Link& link, NodeId id) {
      const Node& node = topology_[id];
      if (link.kind != LinkKind::network || cables <= kShown) return label(topology_, id);
      return node.kind == NodeKind::network_switch
                 ? "switches of level " + std::to_string(node.level)
                 : std::string("NICs");
    };
    std::map<std::string, std::map<std::string, int>> kinds;
    for (const Link& link : topology_.links) {
      if (link.from > link.to) continue;
      std::string what = std::to_string(link.count) + " x " + std::string(name_of(link.kind));
      if (link.gbytes_per_s > 0) what += " of " + short_number(link.gbytes_per_s) + " GB/s";
      ++kinds[what][end_of(link, link.from) + "-" + end_of(link, link.to)];
    }
    for (const auto& [what, pairs] : kinds) {
      text_ += what + ":";
      int shown = 0;
      for (const auto& [pair, times] : pairs) {
        if (++shown > kShown) continue;
        text_ += " " + pair + (times > 1 ? " (" + std::to_string(times) + " times)" : "");
      }
      if (shown > kShown) text_ += " and " + std::to_string(shown - kShown) + " more";
      text_ += "\n";
    }
  }

  const Topology& topology_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<NodeId> roots_;
  std::string text_;
};

}  // namespace

std::string to_text(const Topology& topology) {
  return Printer(topology).print();
}

}  // namespace coll
