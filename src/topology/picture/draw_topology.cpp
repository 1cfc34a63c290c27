// SPDX-License-Identifier: Apache-2.0
// What is drawn of a machine, and where.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <tuple>
#include <utility>

#include "topology/picture/picture_boxes.hpp"
#include "topology/topology_hash.hpp"
#include "topology/trim.hpp"

namespace coll {
namespace {

std::string with_number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);  // NOLINT(*-vararg)
  return text.data();
}

std::string gbytes(double value) {
  return value > 0 ? with_number("%.4g GB/s", value) : "";
}

std::string counted(std::size_t count, const std::string& what) {
  return count > 1 ? std::to_string(count) + " x " + what : what;
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

/// GPUs on a circle, their links as chords; what goes through link switches meets in the middle.
class LinkCircle {
 public:
  LinkCircle(const Topology& topology, NodeId host)
      : topology_(topology), gpus_(topology.parts(host, NodeKind::gpu)) {
    for (const NodeId gpu : gpus_)
      for (const Link& link : topology.links_from(gpu)) {
        const bool to_switch = topology[link.to].kind == NodeKind::link_switch;
        const bool to_gpu = topology[link.to].kind == NodeKind::gpu && link.from < link.to;
        if (to_switch || to_gpu) links_.push_back(link);
        has_switch_ = has_switch_ || to_switch;
      }
    for (const Link& link : links_) ++kinds_[{link.kind, link.count, link.gbytes_per_s}];
  }

  [[nodiscard]] bool empty() const { return links_.empty(); }

  [[nodiscard]] BoxTree box() const {
    BoxTree box(NodeKind::link_switch, {has_switch_ ? "links through switches" : "links"});
    for (const auto& [kind, times] : kinds_) {
      const auto& [link, count, speed] = kind;
      std::string line =
          std::to_string(times) + " x " + std::to_string(count) + " " + std::string(name_of(link));
      if (speed > 0) line += (count > 1 ? " of " : ", ") + gbytes(speed);
      box.say(line);
    }
    box.keep_free(2 * (radius() + kDot), 2 * (radius() + kDot));
    return box;
  }

  void draw(Picture& picture, const Picture::Box& box) const {
    const double x = box.x + box.width / 2,
                 y = box.y + box.height - BoxTree::kGap - radius() - kDot;
    const auto angle = [&](NodeId gpu) {
      const auto at = std::find(gpus_.begin(), gpus_.end(), gpu) - gpus_.begin();
      return 2 * std::numbers::pi * static_cast<double>(at) / static_cast<double>(gpus_.size()) -
             std::numbers::pi / 2;
    };
    const auto x_of = [&](NodeId id) {
      return topology_[id].kind == NodeKind::gpu ? x + radius() * std::cos(angle(id)) : x;
    };
    const auto y_of = [&](NodeId id) {
      return topology_[id].kind == NodeKind::gpu ? y + radius() * std::sin(angle(id)) : y;
    };
    for (const Link& link : links_)
      picture.lines.push_back({x_of(link.from), y_of(link.from), x_of(link.to), y_of(link.to),
                               link.kind, std::min(1.0 + 0.7 * (link.count - 1), 5.0)});
    for (std::size_t at = 0; at < gpus_.size(); ++at)
      picture.dots.push_back(
          {x_of(gpus_[at]), y_of(gpus_[at]), kDot, NodeKind::gpu,
           std::to_string(topology_[gpus_[at]].index >= 0 ? topology_[gpus_[at]].index
                                                          : static_cast<int>(at))});
    if (has_switch_) picture.dots.push_back({x, y, 1.6 * kDot, NodeKind::link_switch, "switch"});
  }

 private:
  static constexpr double kDot = 13;  ///< radius of one GPU
  [[nodiscard]] double radius() const {
    return std::max(62.0, static_cast<double>(gpus_.size()) * 1.3 * kDot / std::numbers::pi);
  }

  const Topology& topology_;
  std::vector<NodeId> gpus_;
  std::vector<Link> links_;
  std::map<std::tuple<LinkKind, int, double>, int> kinds_;
  bool has_switch_ = false;
};

class Drawer {
 public:
  explicit Drawer(const Topology& topology)
      : topology_(topology), counts_(parts_for_plans(topology)), children_(topology.nodes.size()) {
    for (NodeId id = 0; id < topology.size(); ++id)
      if (topology[id].parent != kNoNode)
        children_[static_cast<std::size_t>(topology[id].parent)].push_back(id);
  }

  Picture draw() {
    double y = kMargin;
    picture_.texts.push_back({kMargin, y + 11, shortened(topology_.source, 110)});
    picture_.width = kMargin + text_width(picture_.texts[0].text);
    y += 2 * kTextHeight;
    y = draw_network(y);
    draw_hosts(y);
    join_network();
    picture_.width += kMargin;
    picture_.height += kMargin;
    return std::move(picture_);
  }

 private:
  static constexpr double kMargin = 12;
  static constexpr double kLevelGap = 46;         ///< between levels of the network, for the lines
  static constexpr std::size_t kEachSwitch = 16;  ///< more of a level are one box

  // ---- inside of a host

  /// Cores and caches in words: "24 cores, 48 PUs", "L3 2 x 32 MiB".
  void tell_processors(NodeId id, BoxTree& box) const {
    const Node& node = topology_[id];
    int cores = 0;
    count_cores(id, cores);
    std::string line;
    if (cores > 0) line = std::to_string(cores) + (cores == 1 ? " core" : " cores");
    const int pus = node.cpus.count();
    if (pus > 0 && pus != cores)
      line += (line.empty() ? "" : ", ") + std::to_string(pus) + (pus == 1 ? " PU" : " PUs");
    if (!line.empty()) box.say(line);
  }
  void count_cores(NodeId id, int& cores) const {
    for (const NodeId child : children_[static_cast<std::size_t>(id)]) {
      if (topology_[child].kind == NodeKind::core) ++cores;
      if (!is_part(topology_[child].kind)) count_cores(child, cores);
    }
  }
  /// Parts that tell their own processors.
  static bool is_part(NodeKind kind) {
    return kind == NodeKind::package || kind == NodeKind::group || kind == NodeKind::die;
  }

  static std::string size_text(std::int64_t bytes) {
    return with_number("%.3g GiB", static_cast<double>(bytes) / (1 << 30));
  }

  [[nodiscard]] BoxTree box_of(NodeId id) const {
    const Node& node = topology_[id];
    BoxTree box(node.kind, {title(id)});
    if (is_part(node.kind) || node.kind == NodeKind::host) tell_processors(id, box);
    if (node.kind == NodeKind::package && !node.info_of("CPUModel").empty())
      box.say(shortened(std::string(node.info_of("CPUModel")), 40));
    if (node.kind == NodeKind::numa && node.bytes > 0)
      box.say(size_text(node.bytes) + (node.subtype.empty() ? "" : " " + node.subtype));
    if (node.kind == NodeKind::gpu || node.kind == NodeKind::nic) {
      if (!node.model.empty()) box.say(shortened(node.model, 24));
      if (!node.pci.bus.empty()) box.say(node.pci.bus);
      for (const Port& port : node.ports)
        if (port.gbits_per_s > 0)
          box.say((node.ports.size() > 1 ? port.name + " " : "") +
                  with_number("%.4g Gbit/s", port.gbits_per_s));
    }
    if (node.pci.gbytes_per_s > 0) box.say("PCIe " + gbytes(node.pci.gbytes_per_s));
    add_children(id, box);
    return box;
  }

  [[nodiscard]] std::string title(NodeId id) const {
    const Node& node = topology_[id];
    if (node.kind == NodeKind::host_bridge) return "PCI root";
    if (node.kind == NodeKind::pci_switch || node.kind == NodeKind::pci_port) return "PCI switch";
    return shortened(label(topology_, id), 28);
  }

  /// What is on the way to one thing only is not drawn.
  void add_children(NodeId id, BoxTree& box) const {
    for (const NodeId child : children_[static_cast<std::size_t>(id)]) {
      const NodeKind kind = topology_[child].kind;
      if (!counts_[static_cast<std::size_t>(child)] || kind == NodeKind::link_switch) continue;
      const bool in_words =
          kind == NodeKind::cache || kind == NodeKind::core || kind == NodeKind::pu;
      const bool bus = kind == NodeKind::pci_port || kind == NodeKind::pci_switch ||
                       kind == NodeKind::host_bridge;
      if (in_words || (bus && shown_below(child) == 1))
        add_children(child, box);
      else
        box.add(box_of(child));
    }
  }
  [[nodiscard]] int shown_below(NodeId id) const {
    int shown = 0;
    for (const NodeId child : children_[static_cast<std::size_t>(id)])
      if (counts_[static_cast<std::size_t>(child)]) ++shown;
    return shown;
  }

  BoxTree host_box(NodeId host, std::size_t times) {
    BoxTree box = box_of(host);
    BoxTree named(NodeKind::host, {counted(times, title(host))});
    if (times > 1) named = BoxTree(NodeKind::host, {counted(times, "host")});
    tell_processors(host, named);
    add_children(host, named);
    const LinkCircle circle(topology_, host);
    if (!circle.empty()) named.add(circle.box());
    return named;
  }

  // ---- hosts and racks, equal ones once

  /// What is drawn: hosts, or racks with hosts in them, and how many are like each.
  void draw_hosts(double y) {
    const std::vector<NodeId> hosts = topology_.all(NodeKind::host);
    const std::vector<std::uint64_t> hashes = host_hashes(topology_);
    std::map<std::uint64_t, NodeId> first;  // of equal hosts
    std::map<NodeId, std::vector<std::uint64_t>> racks;
    std::vector<std::pair<NodeId, std::vector<std::uint64_t>>> outside;
    for (std::size_t at = 0; at < hosts.size(); ++at) {
      first.emplace(hashes[at], hosts[at]);
      const NodeId rack = topology_.above(hosts[at], NodeKind::rack);
      if (rack == kNoNode)
        outside.push_back({kNoNode, {hashes[at]}});
      else
        racks[rack].push_back(hashes[at]);
    }
    outside.insert(outside.end(), racks.begin(), racks.end());
    std::map<std::pair<bool, std::vector<std::uint64_t>>, std::size_t> times;
    for (const auto& [rack, inside] : outside) ++times[{rack != kNoNode, inside}];
    BoxTree all(NodeKind::rack);
    std::vector<NodeId> drawn;
    for (const auto& [rack, inside] : outside) {
      const std::size_t alike = std::exchange(times[{rack != kNoNode, inside}], 0);
      if (alike == 0) continue;
      if (rack == kNoNode) {
        all.add(host_box(first[inside[0]], alike));
        drawn.push_back(first[inside[0]]);
        continue;
      }
      BoxTree box(NodeKind::rack, {counted(alike, alike > 1 ? "rack" : title(rack))});
      std::map<std::uint64_t, std::size_t> of_rack;
      for (const std::uint64_t each : inside) ++of_rack[each];
      for (const std::uint64_t each : inside)
        if (const std::size_t n = std::exchange(of_rack[each], 0); n > 0) {
          box.add(host_box(first[each], n));
          drawn.push_back(first[each]);
        }
      all.add(std::move(box));
    }
    all.measure();
    all.place_children(picture_, kMargin, y, -1);
    picture_.width = std::max(picture_.width, kMargin + all.width() - 2 * BoxTree::kGap);
    picture_.height = std::max(picture_.height, y + all.height() - 2 * BoxTree::kGap);
    std::size_t host = 0;
    const std::size_t boxes = picture_.boxes.size();
    for (std::size_t at = 0; at < boxes; ++at) {
      const Picture::Box box = picture_.boxes[at];
      if (box.kind == NodeKind::host) host_boxes_.emplace_back(drawn[host++], at);
      if (box.kind == NodeKind::link_switch)
        LinkCircle(topology_, drawn[host - 1]).draw(picture_, box);
    }
  }

  // ---- the network, the highest level on top

  double draw_network(double y) {
    std::map<int, std::vector<NodeId>, std::greater<>> levels;
    for (const NodeId id : topology_.all(NodeKind::network_switch))
      levels[topology_[id].level].push_back(id);
    for (const auto& [level, switches] : levels) {
      std::vector<std::vector<NodeId>> groups;
      if (switches.size() > kEachSwitch)
        groups.push_back(switches);
      else
        for (const NodeId id : switches) groups.push_back({id});
      double x = kMargin, height = 0;
      for (const std::vector<NodeId>& group : groups) {
        BoxTree box(
            NodeKind::network_switch,
            {group.size() > 1 ? counted(group.size(), "switch of level ") + std::to_string(level)
                              : title(group[0])});
        for (const std::string& line : cables_of(group[0])) box.say(line);
        box.measure();
        const int at = box.place(picture_, x, y, -1);
        for (const NodeId id : group) switch_boxes_[id] = at;
        x += box.width() + BoxTree::kGap;
        height = std::max(height, box.height());
      }
      picture_.width = std::max(picture_.width, x - BoxTree::kGap);
      y += height + kLevelGap;
    }
    return y;
  }

  /// "32 x 50 GB/s down", "8 x 50 GB/s up".
  [[nodiscard]] std::vector<std::string> cables_of(NodeId id) const {
    std::map<std::pair<bool, double>, int> cables;
    for (const Link& link : topology_.links_from(id)) {
      const Node& other = topology_[link.to];
      const bool up = other.kind == NodeKind::network_switch && other.level > topology_[id].level;
      cables[{up, link.gbytes_per_s}] += link.count;
    }
    std::vector<std::string> lines;
    for (const auto& [kind, count] : cables)
      lines.push_back(std::to_string(count) +
                      (kind.second > 0 ? " x " + gbytes(kind.second) : " cables") +
                      (kind.first ? " up" : " down"));
    return lines;
  }

  void join_network() {
    std::map<std::pair<int, int>, bool> joined;
    const auto join = [&](int below, int above) {
      if (below == above || std::exchange(joined[{below, above}], true)) return;
      const Picture::Box& low = picture_.boxes[static_cast<std::size_t>(below)];
      const Picture::Box& high = picture_.boxes[static_cast<std::size_t>(above)];
      picture_.lines.push_back({low.x + std::min(low.width, 400.0) / 2, low.y,
                                high.x + high.width / 2, high.y + high.height, LinkKind::network,
                                1});
    };
    for (const auto& [id, box] : switch_boxes_)
      for (const Link& link : topology_.links_from(id))
        if (const auto other = switch_boxes_.find(link.to);
            other != switch_boxes_.end() && topology_[link.to].level > topology_[id].level)
          join(box, other->second);
    for (const auto& [host, at] : host_boxes_) {
      int box = static_cast<int>(at);
      while (picture_.boxes[static_cast<std::size_t>(box)].parent >= 0)
        box = picture_.boxes[static_cast<std::size_t>(box)].parent;
      for (const NodeId nic : topology_.parts(host, NodeKind::nic))
        for (const Link& link : topology_.links_from(nic))
          if (const auto leaf = switch_boxes_.find(link.to); leaf != switch_boxes_.end())
            join(box, leaf->second);
    }
  }

  const Topology& topology_;
  std::vector<bool> counts_;
  std::vector<std::vector<NodeId>> children_;
  Picture picture_;
  std::map<NodeId, int> switch_boxes_;
  std::vector<std::pair<NodeId, std::size_t>> host_boxes_;
};

}  // namespace

Picture draw(const Topology& topology) {
  return Drawer(topology).draw();
}

}  // namespace coll
