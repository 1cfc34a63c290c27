// SPDX-License-Identifier: Apache-2.0
// Our own JSON, which holds all of the value and reads back equal. Members that have their default
// are left out.
#include <nlohmann/json.hpp>
#include <utility>

#include "topology/read/read_topology.hpp"
#include "topology/reader_text.hpp"

namespace coll {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kTopologyVersion = 1;

/// The enumerator that `name_of` calls `text`.
template <class Enum>
Enum named(const std::string& text, int count) {
  for (int each = 0; each < count; ++each)
    if (name_of(static_cast<Enum>(each)) == text) return static_cast<Enum>(each);
  throw std::runtime_error("\"" + text + "\" is no name that this version knows");
}

/// One walk over the members of a value serves both directions: `put` writes, `get` reads.
struct Writer {
  Json json = Json::object();
  template <class T>
  void operator()(const char* key, const T& value, const T& fallback = {}) {
    Json member = value;
    if (member != Json(fallback)) json[key] = std::move(member);
  }
};
struct Reader {
  const Json& json;
  template <class T>
  void operator()(const char* key, T& value, const T& = {}) {
    if (const auto found = json.find(key); found != json.end()) value = found->get<T>();
  }
};

template <class Walk, class P>
void walk_pci(Walk& walk, P& pci) {
  walk("bus", pci.bus);
  walk("vendor", pci.vendor);
  walk("device", pci.device);
  walk("class", pci.class_code);
  walk("transfers_per_s", pci.transfers_per_s);
  walk("lanes", pci.lanes);
  walk("gbytes_per_s", pci.gbytes_per_s);
}

template <class Walk, class P>
void walk_port(Walk& walk, P& port) {
  walk("name", port.name);
  walk("number", port.number);
  walk("index", port.index, -1);
  walk("gbits_per_s", port.gbits_per_s);
  walk("link", port.link);
  walk("state", port.state);
}

template <class Walk, class N>
void walk_node(Walk& walk, N& node) {
  walk("parent", node.parent, kNoNode);
  walk("index", node.index, -1);
  walk("name", node.name);
  walk("model", node.model);
  walk("numa", node.numa);
  walk("bytes", node.bytes);
  walk("level", node.level);
  walk("subtype", node.subtype);
  walk("aliases", node.aliases);
  walk("island", node.island);
  walk("info", node.info);
}

Json written(const Node& node) {
  Writer write;
  write.json["kind"] = name_of(node.kind);
  walk_node(write, node);
  write("cpus", node.cpus.list());
  Writer pci;
  walk_pci(pci, node.pci);
  if (!pci.json.empty()) write.json["pci"] = pci.json;
  for (const Port& port : node.ports) {
    Writer one;
    walk_port(one, port);
    write.json["ports"].push_back(one.json);
  }
  return write.json;
}

CpuSet cpus_of(const Json& json) {
  const auto set = CpuSet::from_list(json.get<std::string>());
  if (!set)
    throw std::runtime_error("\"" + json.get<std::string>() + "\" is no list of processors");
  return *set;
}

Node node_of(const Json& json) {
  Node node;
  node.kind = named<NodeKind>(json.at("kind").get<std::string>(), kNodeKinds);
  Reader read{json};
  walk_node(read, node);
  if (json.contains("cpus")) node.cpus = cpus_of(json["cpus"]);
  if (json.contains("pci")) {
    Reader pci{json["pci"]};
    walk_pci(pci, node.pci);
  }
  if (json.contains("ports"))
    for (const Json& each : json["ports"]) {
      Reader one{each};
      walk_port(one, node.ports.emplace_back());
    }
  return node;
}

Topology topology_of(const Json& json) {
  Topology topology;
  if (json.at("topology_version").get<int>() != kTopologyVersion)
    throw std::runtime_error("topology_version is " + json["topology_version"].dump() +
                             ", this library reads " + std::to_string(kTopologyVersion));
  topology.source = json.value("source", "");
  for (const Json& each : json.at("nodes")) topology.nodes.push_back(node_of(each));
  for (const Json& each : json.value("links", Json::array()))
    topology.links.push_back({named<LinkKind>(each.at("kind").get<std::string>(), kLinkKinds),
                              each.at("from").get<NodeId>(), each.at("to").get<NodeId>(),
                              each.at("count").get<int>(), each.value("gbytes_per_s", 0.0)});
  topology.connect_all({});  // brings them in order, whoever wrote them
  std::vector<ToldDistance> told;
  for (const Json& each : json.value("told", Json::array()))
    told.push_back({each.at("a").get<NodeId>(), each.at("b").get<NodeId>(),
                    named<Distance>(each.at("distance").get<std::string>(), kDistances)});
  topology.tell_all(told);
  for (const Json& each : json.value("latencies", Json::array()))
    topology.latencies.push_back({each.at("host").get<NodeId>(),
                                  each.at("nodes").get<std::vector<std::int32_t>>(),
                                  each.at("values").get<std::vector<double>>()});
  for (const Json& each : json.value("cpu_kinds", Json::array()))
    topology.cpu_kinds.push_back({each.at("host").get<NodeId>(), each.at("name").get<std::string>(),
                                  cpus_of(each.at("cpus"))});
  topology.warnings = json.value("warnings", std::vector<std::string>{});
  return topology;
}

}  // namespace

std::string to_json(const Topology& topology) {
  Json json{{"topology_version", kTopologyVersion}, {"source", topology.source}};
  json["nodes"] = Json::array();
  for (const Node& node : topology.nodes) json["nodes"].push_back(written(node));
  for (const Link& link : topology.links)
    json["links"].push_back({{"kind", name_of(link.kind)},
                             {"from", link.from},
                             {"to", link.to},
                             {"count", link.count},
                             {"gbytes_per_s", link.gbytes_per_s}});
  for (const ToldDistance& told : topology.told)
    json["told"].push_back({{"a", told.a}, {"b", told.b}, {"distance", name_of(told.distance)}});
  for (const NumaLatency& table : topology.latencies)
    json["latencies"].push_back(
        {{"host", table.host}, {"nodes", table.nodes}, {"values", table.values}});
  for (const CpuKind& kind : topology.cpu_kinds)
    json["cpu_kinds"].push_back(
        {{"host", kind.host}, {"name", kind.name}, {"cpus", kind.cpus.list()}});
  if (!topology.warnings.empty()) json["warnings"] = topology.warnings;
  // Names of devices come from firmware: what is no UTF-8 there becomes U+FFFD.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Topology> read_topology_json(std::string_view text, std::string_view name) {
  try {
    const Json json = Json::parse(text);
    Topology topology = topology_of(json);
    if (const Status status = check(topology); !status.ok()) return status.with_context(name);
    return topology;
  } catch (const Json::parse_error& error) {
    return unreadable(name, line_of(text, error.byte), "JSON: " + std::string(error.what()),
                      "the file is cut or was edited: write it again");
  } catch (const std::exception& error) {
    return unreadable(name, 0, "no topology: " + std::string(error.what()),
                      "write it with coll-info --topology FILE --json");
  }
}

}  // namespace coll
