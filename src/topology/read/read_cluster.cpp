// SPDX-License-Identifier: Apache-2.0
// Many hosts behind a network, from a cluster file; its format is in docs/topology.md.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "topology/cluster_network.hpp"
#include "topology/rail_nics.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/reader_text.hpp"
#include "topology/trim.hpp"

namespace coll {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kClusterVersion = 1;
constexpr int kMostCount = 1'000'000;

/// One object of the file; knows its place for messages, and refuses members that nobody asks for.
class Object {
 public:
  Object(const Json& json, std::string_view file, std::string place)
      : json_(json), file_(file), place_(std::move(place)) {}

  Status only(std::initializer_list<std::string_view> known) const {
    if (!json_.is_object())
      return fault("is " + shown(json_) + ", not an object", "see docs/topology.md");
    for (const auto& [key, value] : json_.items())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        std::string hint = "known here:";
        for (const std::string_view each : known) hint += " " + std::string(each);
        return fault("has an unknown member \"" + key + "\"", hint);
      }
    return {};
  }
  /// Stays as it is where the member is missing.
  Status count(const char* key, int least, int& value) const {
    if (!json_.contains(key)) return {};
    const Json& found = json_[key];
    if (!found.is_number_integer() || found < least || found > kMostCount)
      return fault(std::string(key) + " is " + shown(found),
                   "a number from " + std::to_string(least) + " to " + std::to_string(kMostCount));
    value = found.get<int>();
    return {};
  }
  Status gbits(double& value) const {
    if (!json_.contains("gbits")) return {};
    const Json& found = json_["gbits"];
    if (!found.is_number() || !(found > 0) || found > 1e6)
      return fault("gbits is " + shown(found), "a speed in Gbit/s, as in \"gbits\": 400");
    value = found.get<double>();
    return {};
  }
  /// One of these words.
  template <class Enum, std::size_t n>
  Status word(const char* key, const std::array<std::pair<std::string_view, Enum>, n>& words,
              Enum& value) const {
    if (!json_.contains(key)) return {};
    std::string hint = "one of";
    for (const auto& [name, meaning] : words) {
      if (json_[key] == name) {
        value = meaning;
        return {};
      }
      hint += " \"" + std::string(name) + "\"";
    }
    return fault(std::string(key) + " is " + shown(json_[key]), hint);
  }
  [[nodiscard]] Status fault(const std::string& what, std::string hint) const {
    return failed(Code::invalid_argument, place(what), std::move(hint));
  }
  /// "FILE: hosts[0] topology", for what fails further down.
  [[nodiscard]] std::string place(std::string_view key) const {
    return std::string(file_) + ": " + place_ + " " + std::string(key);
  }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  [[nodiscard]] const Json& operator[](const char* key) const { return json_[key]; }
  static std::string shown(const Json& json) { return json.dump().substr(0, 60); }

 private:
  const Json& json_;
  std::string_view file_;
  std::string place_;
};

class Cluster {
 public:
  explicit Cluster(std::string_view name) : name_(name) {}

  Result<Topology> read(const Json& json) {
    const Object all(json, name_, "the cluster");
    COLL_TRY(all.only({"cluster", "hosts", "network"}));
    int version = 0;
    COLL_TRY(all.count("cluster", 1, version));
    if (version != kClusterVersion)
      return all.fault("is of version " + std::to_string(version),
                       "this library reads " + std::to_string(kClusterVersion));
    if (!all.has("hosts") || !all["hosts"].is_array() || all["hosts"].empty())
      return all.fault("has no hosts",
                       R"(as in "hosts": [{"count": 4, "topology": "gpu:8 nic:8@400G"}])");
    topology_.source = name_;
    for (std::size_t at = 0; at < all["hosts"].size(); ++at)
      COLL_TRY(add_hosts(Object(all["hosts"][at], name_, "hosts[" + std::to_string(at) + "]")));
    NetworkPlan plan;
    const Json none = Json::object();
    COLL_TRY(
        read_network(Object(all.has("network") ? all["network"] : none, name_, "network"), plan));
    COLL_TRY(add_network(topology_, plugged_, plan).with_context(name_));
    COLL_TRY(check(topology_));
    return std::move(topology_);
  }

 private:
  Status add_hosts(const Object& entry) {
    COLL_TRY(entry.only({"count", "topology", "per_rack", "nics"}));
    int count = 1, per_rack = 0;
    COLL_TRY(entry.count("count", 1, count));
    COLL_TRY(entry.count("per_rack", 1, per_rack));
    COLL_ASSIGN(const Topology host, read_host(entry));
    std::vector<NodeId> nics = rail_nics(host, 0);
    if (entry.has("nics")) {
      COLL_ASSIGN(nics, named_nics(entry, host));
    }
    if (nics.empty()) return entry.fault("has no NIC", "hosts of a cluster need one: nic:1@100G");
    const double parts = 1.0 * count * (host.size() + 1) + topology_.size();
    if (parts > kMostNodes)
      return entry.fault("makes " + std::to_string(static_cast<std::int64_t>(parts)) +
                             " parts, more than " + std::to_string(kMostNodes),
                         "fewer or simpler hosts");
    for (const std::string& warning : host.warnings) topology_.warn(host.source + ": " + warning);
    NodeId rack = kNoNode;
    for (int each = 0; each < count; ++each) {
      if (per_rack > 0 && each % per_rack == 0) rack = add_rack();
      place(host, rack, nics);
    }
    racks_everywhere_ = racks_everywhere_ && per_rack > 0;
    return {};
  }

  /// Before it is read: it might name itself.
  static bool is_cluster(const std::string& what) {
    std::ifstream file(what);
    const Json json = Json::parse(file, nullptr, false);
    return json.is_object() && json.contains("cluster");
  }

  Result<Topology> read_host(const Object& entry) {
    if (!entry.has("topology") || !entry["topology"].is_string())
      return entry.fault(
          "has no topology",
          "a file beside this one, or a line such as gpu:8 nvlink:switch nic:8@400G");
    std::string what = entry["topology"].get<std::string>();
    const std::filesystem::path folder = std::filesystem::path(name_).parent_path();
    std::error_code error;
    if (const auto file = folder / what; std::filesystem::exists(file, error)) what = file.string();
    if (is_cluster(what))
      return entry.fault("topology is a cluster file",
                         "one host each; \"count\" says how many there are of it");
    auto read = read_topology_file(what);
    if (!read.ok()) return read.status().with_context(entry.place("topology"));
    if (read->count(NodeKind::host) != 1)
      return entry.fault(
          "topology describes " + std::to_string(read->count(NodeKind::host)) + " hosts",
          "one host each; \"count\" says how many there are of it");
    Topology host = without_details(*read);
    if (host[0].kind != NodeKind::host || host.count(NodeKind::network_switch) > 0)
      return entry.fault("topology has racks or network switches",
                         "one host each; \"network\" describes what is between them");
    return host;
  }

  Result<std::vector<NodeId>> named_nics(const Object& entry, const Topology& host) {
    std::vector<NodeId> nics;
    const std::vector<NodeId> all = host.parts(0, NodeKind::nic);
    for (const Json& name : entry["nics"]) {
      const auto is_it = [&](NodeId nic) {
        const auto& ports = host[nic].ports;
        return name == host[nic].name || name == host[nic].pci.bus ||
               std::any_of(ports.begin(), ports.end(),
                           [&](const Port& port) { return name == port.name; });
      };
      const auto found = std::find_if(all.begin(), all.end(), is_it);
      if (found == all.end() || std::find(nics.begin(), nics.end(), *found) != nics.end()) {
        std::string hint = "its NICs, each once:";
        for (const NodeId nic : all) hint += " " + label(host, nic);
        return entry.fault("nics: " + Object::shown(name) + " is none of the host", hint);
      }
      nics.push_back(*found);
    }
    return nics;
  }

  NodeId add_rack() {
    Node node;
    node.kind = NodeKind::rack;
    node.index = racks_++;
    return topology_.add(std::move(node));
  }

  void place(const Topology& host, NodeId rack, const std::vector<NodeId>& nics) {
    const NodeId base = topology_.size();
    for (Node node : host.nodes) {
      node.parent = node.parent == kNoNode ? rack : node.parent + base;
      topology_.add(std::move(node));
    }
    Node& root = topology_.nodes[static_cast<std::size_t>(base)];
    root.index = static_cast<int>(plugged_.size());
    root.name.clear();
    for (const Link& link : host.links)
      topology_.links.push_back(
          {link.kind, link.from + base, link.to + base, link.count, link.gbytes_per_s});
    for (const ToldDistance& told : host.told)
      topology_.told.push_back({told.a + base, told.b + base, told.distance});
    for (NumaLatency table : host.latencies) {
      table.host += base;
      topology_.latencies.push_back(std::move(table));
    }
    for (CpuKind kind : host.cpu_kinds) {
      kind.host += base;
      topology_.cpu_kinds.push_back(std::move(kind));
    }
    PluggedHost& plugged = plugged_.emplace_back();
    plugged.host = base;
    for (const NodeId nic : nics) plugged.nics.push_back(nic + base);
  }

  Status read_network(const Object& entry, NetworkPlan& plan) {
    COLL_TRY(entry.only({"leaf", "pod", "gbits", "above"}));
    using Leaf = NetworkPlan::Leaf;
    constexpr std::array<std::pair<std::string_view, Leaf>, 3> kLeaves{
        {{"rail", Leaf::rail}, {"pod", Leaf::pod}, {"rack", Leaf::rack}}};
    COLL_TRY(entry.word("leaf", kLeaves, plan.leaf));
    COLL_TRY(entry.count("pod", 1, plan.pod));
    COLL_TRY(entry.gbits(plan.gbits));
    if (plan.leaf == Leaf::rack && !racks_everywhere_)
      return entry.fault("has a leaf per rack, but not all hosts stand in racks",
                         "give each entry of hosts its per_rack");
    if (!entry.has("above")) return {};
    if (!entry["above"].is_array())
      return entry.fault("above is no list", R"(as in "above": [{"switches": 4, "links": 8}])");
    for (std::size_t at = 0; at < entry["above"].size(); ++at) {
      const Object level(entry["above"][at], name_, "network.above[" + std::to_string(at) + "]");
      COLL_TRY(level.only({"switches", "links", "gbits", "per"}));
      using Scope = NetworkPlan::Level::Group;
      constexpr std::array<std::pair<std::string_view, Scope>, 3> kGroups{
          {{"all", Scope::all}, {"pod", Scope::pod}, {"rail", Scope::rail}}};
      NetworkPlan::Level& made = plan.above.emplace_back();
      made.gbits = plan.gbits;
      COLL_TRY(level.word("per", kGroups, made.group));
      COLL_TRY(level.count("switches", 1, made.switches));
      COLL_TRY(level.count("links", 1, made.links));
      COLL_TRY(level.gbits(made.gbits));
    }
    return {};
  }

  std::string name_;
  Topology topology_;
  std::vector<PluggedHost> plugged_;
  int racks_ = 0;
  bool racks_everywhere_ = true;
};

}  // namespace

Result<Topology> read_cluster(std::string_view text, std::string_view name) {
  try {
    return Cluster(name).read(Json::parse(text));
  } catch (const Json::parse_error& error) {
    return unreadable(name, line_of(text, error.byte), "JSON: " + std::string(error.what()),
                      "a cluster file is JSON; see docs/topology.md");
  } catch (const std::exception& error) {
    return unreadable(name, 0, "no cluster: " + std::string(error.what()), "see docs/topology.md");
  }
}

}  // namespace coll
