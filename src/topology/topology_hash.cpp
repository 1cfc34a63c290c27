// SPDX-License-Identifier: Apache-2.0
// Hashes a machine, whatever its parts are numbered.
#include "topology/topology_hash.hpp"

#include <cmath>
#include <utility>

#include "topology/trim.hpp"

namespace coll {
namespace {

constexpr std::uint64_t kFormat = 1;  ///< another number whenever other things enter the hash

/// 64 bits of everything put in, in order (the finaliser of MurmurHash3, chained).
class Mixer {
 public:
  void put(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0xff51afd7ed558ccdULL;
    hash_ ^= hash_ >> 32;
    hash_ = hash_ * 0xc4ceb9fe1a85ec53ULL + 1;
  }
  void put(std::int64_t number) { put(static_cast<std::uint64_t>(number)); }
  void put(int number) { put(static_cast<std::int64_t>(number)); }
  /// To a thousandth: what was computed in two ways shall not differ.
  void put(double number) { put(static_cast<std::int64_t>(std::llround(number * 1000))); }
  void put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    std::uint64_t word = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      word = word << 8 | static_cast<unsigned char>(text[at]);
      if (at % 8 == 7 || at + 1 == text.size()) put(std::exchange(word, 0));
    }
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15ULL + kFormat;
};

/// What number each part has among those that count.
std::vector<NodeId> numbers_of_counted(const Topology& topology) {
  const std::vector<bool> counts = parts_for_plans(topology);
  std::vector<NodeId> numbers(topology.nodes.size(), kNoNode);
  NodeId next = 0;
  for (std::size_t id = 0; id < numbers.size(); ++id)
    if (counts[id]) numbers[id] = next++;
  return numbers;
}

void put_node(Mixer& mixer, const Node& node, std::int64_t parent) {
  mixer.put(name_of(node.kind));
  mixer.put(parent);
  if (node.kind == NodeKind::gpu || node.kind == NodeKind::numa) mixer.put(node.index);
  mixer.put(node.level);
  if (node.kind == NodeKind::cache) mixer.put(node.bytes);
  mixer.put(node.subtype);
  if (node.kind == NodeKind::gpu) mixer.put(node.model);
  mixer.put(node.info_of("CPUModel"));
  mixer.put(node.info_of("CpuQuota"));
  mixer.put(node.pci.gbytes_per_s);
  for (const std::int32_t each : node.numa) mixer.put(each);
  mixer.put(static_cast<std::uint64_t>(node.ports.size()));
  for (const Port& port : node.ports) mixer.put(port.gbits_per_s);
  mixer.put(node.island);
}

/// Joins two of the counted nodes, whose numbers are taken from `base` on.
void put_link(Mixer& mixer, const Link& link, const std::vector<NodeId>& numbers, NodeId base) {
  mixer.put(name_of(link.kind));
  mixer.put(numbers[static_cast<std::size_t>(link.from)] - base);
  mixer.put(numbers[static_cast<std::size_t>(link.to)] - base);
  mixer.put(link.count);
  mixer.put(link.gbytes_per_s);
}

}  // namespace

std::uint64_t topology_hash(const Topology& topology) {
  const std::vector<NodeId> numbers = numbers_of_counted(topology);
  Mixer mixer;
  for (NodeId id = 0; id < topology.size(); ++id) {
    if (numbers[static_cast<std::size_t>(id)] == kNoNode) continue;
    const NodeId parent = topology[id].parent;
    put_node(mixer, topology[id],
             parent == kNoNode ? -1 : numbers[static_cast<std::size_t>(parent)]);
  }
  for (const Link& link : topology.links) put_link(mixer, link, numbers, 0);
  for (const ToldDistance& told : topology.told) {
    mixer.put(numbers[static_cast<std::size_t>(told.a)]);
    mixer.put(numbers[static_cast<std::size_t>(told.b)]);
    mixer.put(name_of(told.distance));
  }
  return mixer.hash();
}

std::vector<std::uint64_t> host_hashes(const Topology& topology) {
  const std::vector<NodeId> numbers = numbers_of_counted(topology);
  std::vector<NodeId> host(topology.nodes.size(), kNoNode);
  std::vector<Mixer> mixers(topology.nodes.size());  // only those of hosts are used
  const auto number = [&](NodeId id) { return numbers[static_cast<std::size_t>(id)]; };
  const auto host_of = [&](NodeId id) { return host[static_cast<std::size_t>(id)]; };
  for (NodeId id = 0; id < topology.size(); ++id) {
    const Node& node = topology[id];
    NodeId& own = host[static_cast<std::size_t>(id)];
    own = node.kind == NodeKind::host ? id
          : node.parent == kNoNode    ? kNoNode
                                      : host_of(node.parent);
    if (own == kNoNode || number(id) == kNoNode) continue;
    put_node(mixers[static_cast<std::size_t>(own)], node,
             id == own ? -1 : number(node.parent) - number(own));
  }
  for (const Link& link : topology.links)
    if (const NodeId at = host_of(link.from); at != kNoNode && at == host_of(link.to))
      put_link(mixers[static_cast<std::size_t>(at)], link, numbers, number(at));
  for (const ToldDistance& told : topology.told)
    if (const NodeId at = host_of(told.a); at != kNoNode && at == host_of(told.b)) {
      Mixer& mixer = mixers[static_cast<std::size_t>(at)];
      mixer.put(number(told.a) - number(at));
      mixer.put(number(told.b) - number(at));
      mixer.put(name_of(told.distance));
    }
  std::vector<std::uint64_t> hashes;
  for (NodeId id = 0; id < topology.size(); ++id)
    if (topology[id].kind == NodeKind::host)
      hashes.push_back(mixers[static_cast<std::size_t>(id)].hash());
  return hashes;
}

}  // namespace coll
