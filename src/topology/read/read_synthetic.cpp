// SPDX-License-Identifier: Apache-2.0
// Machines out of one line of text; the grammar is in docs/topology.md.
#include <algorithm>
#include <array>

#include "topology/read/read_topology.hpp"
#include "topology/reader_text.hpp"

namespace coll {
namespace {

/// What a line asks for, with what holds where it is silent.
struct Request {
  int racks = 0;                                              // 0: hosts stand in none
  int hosts = 1, packages = 1, numa = 1, cores = 1, pus = 1;  // each of the one before it
  int gpus = 0, nics = 0, switches = 0;  // of a host; pci switches of a NUMA node
  int network = -1;                      // network switches
  double nic_gbits = 100;
  double pci_transfers = 16;
  int pci_lanes = 16;
  std::string links;  // "all", "ring", "pairs", "switch" or ""
  LinkKind link_kind = LinkKind::nvlink;
  int link_count = 1;
  double link_gbytes = 25;
};

class Synthetic {
 public:
  Synthetic(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Result<Topology> read() {
    for (const std::string_view word : split(text_, " \t\r\n")) COLL_TRY(read_word(word));
    const double all = 1.0 * std::max(1, want_.racks) * want_.hosts *
                       (5.0 + want_.gpus + want_.nics + links_of_host() +
                        1.0 * want_.packages * want_.numa *
                            (3.0 + want_.switches + want_.cores * (1.0 + want_.pus)));
    if (all > kMostNodes)
      return bad(text_, "more than 4194304 parts and links",
                 "describe fewer hosts, cores or GPUs with links");
    if (1.0 * want_.packages * want_.numa * want_.cores * want_.pus > CpuSet::kLimit)
      return bad(text_, "more than 65536 PUs in a host", "describe fewer");
    topology_.source = trimmed(text_);
    for (int rack = 0; rack < std::max(1, want_.racks); ++rack) {
      const NodeId at = want_.racks > 0 ? add(NodeKind::rack, kNoNode, rack) : kNoNode;
      for (int host = 0; host < want_.hosts; ++host) add_host(at, rack * want_.hosts + host);
    }
    add_network();
    COLL_TRY(check(topology_));
    return std::move(topology_);
  }

 private:
  [[nodiscard]] Status bad(std::string_view word, std::string_view what, std::string hint) const {
    return failed(
        Code::invalid_argument,
        std::string(name_) + ": \"" + std::string(word.substr(0, 80)) + "\": " + std::string(what),
        std::move(hint));
  }

  /// "400G" -> 400, "1.6T" -> 1600, "25" or "25GB" -> 25.
  static std::optional<double> speed(std::string_view text) {
    double unit = 1;
    if (text.ends_with("GB"))
      text.remove_suffix(2);
    else if (text.ends_with('G'))
      text.remove_suffix(1);
    else if (text.ends_with('T')) {
      text.remove_suffix(1);
      unit = 1000;
    }
    const auto value = number<double>(text);
    if (!value || *value <= 0 || *value > 1e6) return std::nullopt;
    return *value * unit;
  }

  Status read_word(std::string_view word) {
    const std::size_t colon = word.find(':');
    if (colon == word.npos)
      return bad(word, "is not NAME:VALUE",
                 "as in host:2 package:2 numa:1 core:8 gpu:4 nic:1@100G");
    const std::string_view key = word.substr(0, colon);
    std::string_view value = word.substr(colon + 1), rate;
    if (const std::size_t at = value.find('@'); at != value.npos) {
      rate = value.substr(at + 1);
      value = value.substr(0, at);
      if (!speed(rate))
        return bad(word, "has no speed after @", "as in nic:2@400G or nvlink:all@25GB");
    }
    if (key == "nvlink" || key == "xgmi") return read_links(word, key, value, rate);
    if (key == "pcie") return read_pcie(word, value);
    const std::array<std::pair<std::string_view, int*>, 10> counts{{{"rack", &want_.racks},
                                                                    {"host", &want_.hosts},
                                                                    {"package", &want_.packages},
                                                                    {"numa", &want_.numa},
                                                                    {"core", &want_.cores},
                                                                    {"pu", &want_.pus},
                                                                    {"gpu", &want_.gpus},
                                                                    {"nic", &want_.nics},
                                                                    {"pciswitch", &want_.switches},
                                                                    {"switch", &want_.network}}};
    for (const auto& [name, count] : counts) {
      if (key != name) continue;
      const auto parsed = number<int>(value);
      const bool may_be_none =
          key == "gpu" || key == "nic" || key == "pciswitch" || key == "switch";
      if (!parsed || *parsed < (may_be_none ? 0 : 1) || *parsed > 1000000)
        return bad(word, "has no count", "a number up to 1000000");
      if (!rate.empty() && key != "nic") return bad(word, "has no speed", "only nic and links do");
      *count = *parsed;
      if (!rate.empty()) want_.nic_gbits = *speed(rate);
      return {};
    }
    return bad(word, "is no part of a machine",
               "rack, host, package, numa, core, pu, gpu, nvlink, xgmi, pcie, pciswitch, nic, "
               "switch");
  }

  Status read_links(std::string_view word, std::string_view key, std::string_view value,
                    std::string_view rate) {
    want_.link_kind = key == "xgmi" ? LinkKind::xgmi : LinkKind::nvlink;
    if (const std::size_t times = value.find('x'); times != value.npos) {
      const auto count = number<int>(value.substr(times + 1));
      if (!count || *count < 1 || *count > 1024)
        return bad(word, "has no count after x", "as in allx2");
      want_.link_count = *count;
      value = value.substr(0, times);
    }
    if (value != "all" && value != "ring" && value != "pairs" && value != "switch")
      return bad(word, "has no shape", "all, ring, pairs or switch");
    want_.links = value;
    if (!rate.empty()) want_.link_gbytes = *speed(rate);
    return {};
  }

  /// "5x16": the generation and the lanes.
  Status read_pcie(std::string_view word, std::string_view value) {
    constexpr std::array<double, 7> rates{0, 2.5, 5, 8, 16, 32, 64};
    const std::size_t times = value.find('x');
    const auto generation = number<int>(value.substr(0, times));
    const auto lanes =
        times == value.npos ? std::optional<int>(16) : number<int>(value.substr(times + 1));
    if (!generation || *generation < 1 || *generation > 6 || !lanes || *lanes < 1 || *lanes > 32)
      return bad(word, "is no PCI link", "GENERATIONxLANES, as in pcie:5x16");
    want_.pci_transfers = rates[static_cast<std::size_t>(*generation)];
    want_.pci_lanes = *lanes;
    return {};
  }

  /// Counts both directions, and the NICs' links to the network too.
  [[nodiscard]] double links_of_host() const {
    const double gpus = want_.links.empty() ? 0 : want_.gpus;
    return 2.0 * want_.nics + (want_.links == "all" ? gpus * (gpus - 1) : 2 * gpus);
  }

  NodeId add(NodeKind kind, NodeId parent, int index, CpuSet cpus = {}) {
    Node node;
    node.kind = kind;
    node.parent = parent;
    node.index = index;
    node.cpus = std::move(cpus);
    return topology_.add(std::move(node));
  }

  void add_host(NodeId rack, int index) {
    const int per_numa = want_.cores * want_.pus, nodes = want_.packages * want_.numa;
    const NodeId host = add(NodeKind::host, rack, index, CpuSet::range(0, nodes * per_numa - 1));
    std::vector<NodeId> bridges;
    for (int package = 0; package < want_.packages; ++package) {
      const int first = package * want_.numa * per_numa;
      const NodeId at = add(NodeKind::package, host, package,
                            CpuSet::range(first, first + want_.numa * per_numa - 1));
      for (int numa = 0; numa < want_.numa; ++numa)
        bridges.push_back(add_numa(at, package * want_.numa + numa));
    }
    std::vector<NodeId> gpus;
    for (int gpu = 0; gpu < want_.gpus; ++gpu)
      gpus.push_back(add_device(NodeKind::gpu, bridges, gpu, want_.gpus));
    for (int nic = 0; nic < want_.nics; ++nic)
      nics_.push_back(add_device(NodeKind::nic, bridges, nic, want_.nics));
    add_links(host, gpus);
  }

  /// The memory, its cores, and the host bridge, which it returns.
  NodeId add_numa(NodeId package, int index) {
    const int per_numa = want_.cores * want_.pus;
    add(NodeKind::numa, package, index,
        CpuSet::range(index * per_numa, (index + 1) * per_numa - 1));
    for (int core = 0; core < want_.cores; ++core) {
      const int first = (index * want_.cores + core) * want_.pus;
      const NodeId at = add(NodeKind::core, package, index * want_.cores + core,
                            CpuSet::range(first, first + want_.pus - 1));
      for (int pu = first; pu < first + want_.pus; ++pu)
        add(NodeKind::pu, at, pu, CpuSet::range(pu, pu));
    }
    const NodeId bridge = add(NodeKind::host_bridge, package, -1);
    for (int each = 0; each < want_.switches; ++each)
      add_pci(add(NodeKind::pci_switch, bridge, each));
    return bridge;
  }

  void add_pci(NodeId id) {
    PciFunction& pci = topology_.nodes[static_cast<std::size_t>(id)].pci;
    pci.transfers_per_s = want_.pci_transfers;
    pci.lanes = want_.pci_lanes;
    pci.gbytes_per_s = pci_gbytes_per_s(pci.transfers_per_s, pci.lanes);
  }

  /// The `index`th of `count` devices, spread evenly over NUMA nodes and the switches of each.
  NodeId add_device(NodeKind kind, const std::vector<NodeId>& bridges, int index, int count) {
    const auto places = static_cast<std::int64_t>(bridges.size()) * std::max(1, want_.switches);
    const auto place = static_cast<int>(index * places / count);
    const int numa = place / std::max(1, want_.switches);
    const NodeId bridge = bridges[static_cast<std::size_t>(numa)];
    const NodeId parent = want_.switches > 0 ? bridge + 1 + place % want_.switches : bridge;
    const NodeId id = add(kind, parent, kind == NodeKind::gpu ? index : -1);
    add_pci(id);
    Node& node = topology_.nodes[static_cast<std::size_t>(id)];
    node.numa = {numa};
    node.name = (kind == NodeKind::gpu ? "GPU" : "NIC") + std::to_string(index);
    if (kind == NodeKind::nic) node.ports.push_back({node.name, 1, index, want_.nic_gbits});
    return id;
  }

  void add_links(NodeId host, const std::vector<NodeId>& gpus) {
    const auto join = [&](NodeId a, NodeId b) {
      links_.push_back({want_.link_kind, a, b, want_.link_count, want_.link_gbytes});
    };
    const std::size_t count = gpus.size();
    if (count < 2 || want_.links.empty()) return;
    if (want_.links == "switch") {
      const NodeId fabric = add(NodeKind::link_switch, host, -1);
      topology_.nodes.back().name = "link switch";
      for (const NodeId gpu : gpus) join(gpu, fabric);
      return;
    }
    for (std::size_t a = 0; a + 1 < count; ++a)
      if (want_.links == "all")
        for (std::size_t b = a + 1; b < count; ++b) join(gpus[a], gpus[b]);
      else if (want_.links == "ring" || a % 2 == 0)
        join(gpus[a], gpus[a + 1]);
    if (want_.links == "ring" && count > 2) join(gpus.back(), gpus.front());
  }

  /// NIC i of every host plugs into switch i mod their number: one rail per switch.
  void add_network() {
    const int wanted = want_.network >= 0                           ? want_.network
                       : std::max(1, want_.racks) * want_.hosts > 1 ? 1
                                                                    : 0;
    if (wanted == 0 || nics_.empty()) return topology_.connect_all(links_);
    std::vector<NodeId> switches;
    for (int each = 0; each < wanted; ++each) {
      switches.push_back(add(NodeKind::network_switch, kNoNode, each));
      topology_.nodes.back().name = "switch " + std::to_string(each);
      topology_.nodes.back().level = 1;
    }
    for (std::size_t at = 0; at < nics_.size(); ++at) {
      const auto nic = at % static_cast<std::size_t>(want_.nics);
      links_.push_back(
          {LinkKind::network, nics_[at], switches[nic % switches.size()], 1, want_.nic_gbits / 8});
    }
    topology_.connect_all(links_);
  }

  std::string_view text_, name_;
  Request want_;
  Topology topology_;
  std::vector<NodeId> nics_;
  std::vector<Link> links_;  ///< one direction of each
};

}  // namespace

Result<Topology> read_synthetic(std::string_view text, std::string_view name) {
  return Synthetic(text, name).read();
}

}  // namespace coll
