// SPDX-License-Identifier: Apache-2.0
// Hosts, what they consist of, and the links between the parts; readers make it, everybody else
// only looks.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "topology/cpu_set.hpp"

namespace coll {

/// A place in Topology::nodes.
using NodeId = std::int32_t;
inline constexpr NodeId kNoNode = -1;

enum class NodeKind : std::uint8_t {
  rack,  ///< of hosts, and of the network switches that stand in it
  host,
  group,  ///< of packages or NUMA nodes that are nearer to each other than to others
  package,
  die,
  numa,  ///< memory; with or without processors beside it
  cache,
  core,
  pu,           ///< a hardware thread
  host_bridge,  ///< a PCI root
  pci_switch,   ///< a whole PCI switch, or a bridge of which no more is known
  pci_port,     ///< one port of a switch or of the root: two of them make a pci_switch
  gpu,
  nic,
  pci_device,   ///< any other function: storage, display-only VGA, accelerators without a name …
  link_switch,  ///< the NVSwitches of a host as one fabric
  network_switch,  ///< between hosts
};
inline constexpr int kNodeKinds = 17;
std::string_view name_of(NodeKind kind);

/// Vendors of GPUs by their numbers on the PCI bus.
inline constexpr std::uint16_t kNvidiaVendor = 0x10de, kAmdVendor = 0x1002;

/// One function of the PCI bus. The speeds are of its link towards the host; 0 where unknown.
struct PciFunction {
  std::string bus;  ///< "0000:0f:00.0"; the domain has 4 to 8 digits. Empty: not on a PCI bus
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint16_t class_code = 0;  ///< 0x0302: a 3D controller
  double transfers_per_s = 0;    ///< per lane, 1e9/s ("GT/s")
  int lanes = 0;
  double gbytes_per_s = 0;  ///< what the link moves in each direction, 1e9 bytes/s
  friend bool operator==(const PciFunction&, const PciFunction&) = default;
};

/// One port of a NIC.
struct Port {
  std::string name;  ///< "mlx5_0", "eth0"
  int number = 0;    ///< of the port on its device, from 1; 0 where unknown
  int index = -1;    ///< the number it has for its runtime library, -1 where it has none
  double gbits_per_s = 0;
  std::string link = {};   ///< "InfiniBand", "RoCE"; empty: unknown, or no RDMA
  std::string state = {};  ///< "ACTIVE", "DOWN, Disabled", as the kernel says it; empty: unknown
  friend bool operator==(const Port&, const Port&) = default;
};

struct Node {
  NodeKind kind = NodeKind::host;
  NodeId parent = kNoNode;  ///< what it is part of or plugged into; always a smaller NodeId
  /// The operating system's number of a package, NUMA node, core or PU; the runtime's of a GPU.
  std::int32_t index = -1;
  std::string name;                ///< "GPU0", "mlx5_0"; may be empty
  std::string model;               ///< what the maker calls it
  CpuSet cpus;                     ///< a processor part: its PUs; a device: those near it
  std::vector<std::int32_t> numa;  ///< a device: `index` of the NUMA nodes near it; empty: unknown
  std::int64_t bytes = 0;          ///< of memory or cache
  int level = 0;  ///< of a cache: 1, 2, 3 …; of a network switch: 1 has NICs plugged in, 2 those …
  std::string subtype;  ///< of a cache: "i", "d", ""; of memory: "MCDRAM", "GPUMemory" …
  PciFunction pci;      ///< devices, switches and ports
  std::vector<std::string>
      aliases;              ///< names that the operating system or a runtime gives a device
  std::vector<Port> ports;  ///< NICs
  std::string
      island;  ///< GPUs of one island reach each other by links ("hive" of XGMI); may be empty
  std::vector<std::pair<std::string, std::string>> info;  ///< more that its source says, by name
  friend bool operator==(const Node&, const Node&) = default;

  /// The value of `key` in info, or "".
  [[nodiscard]] std::string_view info_of(std::string_view key) const;
};

enum class LinkKind : std::uint8_t { nvlink, xgmi, network };
inline constexpr int kLinkKinds = 3;
std::string_view name_of(LinkKind kind);

/// `count` parallel links in one direction. What joins two parts both ways is two of these.
struct Link {
  LinkKind kind = LinkKind::nvlink;
  NodeId from = kNoNode;
  NodeId to = kNoNode;
  int count = 1;
  double gbytes_per_s = 0;  ///< of each of them, 1e9 bytes/s; 0: unknown
  friend bool operator==(const Link&, const Link&) = default;
};

/// How far two parts of a host are from each other, nearest first; the words of `nvidia-smi topo`.
enum class Distance : std::uint8_t {
  self,     ///< X
  link,     ///< NV#: NVLink or XGMI, direct or through a fabric of switches
  pix,      ///< through one PCI switch at most
  pxb,      ///< through several PCI switches, not through the host bridge
  phb,      ///< through one host bridge
  node,     ///< through host bridges of one NUMA node
  sys,      ///< across NUMA nodes
  net,      ///< between hosts
  unknown,  ///< nobody said
};
inline constexpr int kDistances = 9;
std::string_view name_of(Distance distance);

/// More parallel links than this between two parts are a mistake.
inline constexpr int kMostParallel = 1 << 20;

/// What a source says of two devices outright, where the tree does not say the same.
struct ToldDistance {
  NodeId a = kNoNode, b = kNoNode;  ///< a < b
  Distance distance = Distance::unknown;
  friend bool operator==(const ToldDistance&, const ToldDistance&) = default;
};

/// The firmware's table of distances between NUMA nodes, 10 for the own one.
struct NumaLatency {
  NodeId host = 0;
  std::vector<std::int32_t> nodes;  ///< their `index`
  std::vector<double> values;       ///< row by row, nodes.size() squared
  friend bool operator==(const NumaLatency&, const NumaLatency&) = default;
};

/// Cores that differ from others of their host (performance, efficiency …).
struct CpuKind {
  NodeId host = 0;
  std::string name;
  CpuSet cpus;
  friend bool operator==(const CpuKind&, const CpuKind&) = default;
};

/// Machines as a graph. A value: copied, compared, printed, never changed once a reader gave it
/// out. Parts form a forest by `parent`; what else joins them is in `links`.
struct Topology {
  std::string source;  ///< where it was read: "this machine", a file, a line of text
  /// Parents before children, siblings in their source's order; the parts of a host one after the
  /// other, before the next host, rack or network switch.
  std::vector<Node> nodes;
  std::vector<Link> links;         ///< in order of `from`, then of `to`
  std::vector<ToldDistance> told;  ///< in order of `a`, then of `b`
  std::vector<NumaLatency> latencies;
  std::vector<CpuKind> cpu_kinds;
  /// What the source got wrong or contradicted itself in, and what was assumed instead.
  std::vector<std::string> warnings;
  friend bool operator==(const Topology&, const Topology&) = default;

  [[nodiscard]] const Node& operator[](NodeId id) const {
    return nodes[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] NodeId size() const { return static_cast<NodeId>(nodes.size()); }
  /// All nodes of a kind, in order; GPUs by host and then by their runtime's number.
  [[nodiscard]] std::vector<NodeId> all(NodeKind kind) const;
  [[nodiscard]] int count(NodeKind kind) const;
  /// The nearest node of `kind` that `id` is part of, itself included; kNoNode if there is none.
  [[nodiscard]] NodeId above(NodeId id, NodeKind kind) const;
  /// All nodes of a kind in one host; GPUs by their runtime's number. Looks at this host only.
  [[nodiscard]] std::vector<NodeId> parts(NodeId host, NodeKind kind) const;
  /// Links out of a node.
  [[nodiscard]] std::span<const Link> links_from(NodeId id) const;
  /// What a source said of these two outright; unknown if nothing.
  [[nodiscard]] Distance told_of(NodeId a, NodeId b) const;
  /// PUs that may be used: those of the hosts.
  [[nodiscard]] int usable_pus() const;

  // For readers.
  NodeId add(Node node);
  /// Each of these in both directions.
  void connect_all(std::span<const Link> one_way);
  /// Whichever end is named first.
  void tell_all(std::span<const ToldDistance> distances);
  void warn(std::string text) { warnings.push_back(std::move(text)); }
};

/// Whether parents come first, links end somewhere else, numbers are in range: what readers
/// promise.
Status check(const Topology& topology);

/// "GPU0", "mlx5_0", "package 0": what a person calls it.
std::string label(const Topology& topology, NodeId id);

/// The hosts as trees of text, links and warnings below; equal hosts and equal siblings once.
std::string to_text(const Topology& topology);

}  // namespace coll
