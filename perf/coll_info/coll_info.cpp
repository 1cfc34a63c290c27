// SPDX-License-Identifier: Apache-2.0
// Coll-info, what this build can do on this machine; it alone of the tools looks inside the
// library.
#include <collectives/collectives.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/knobs.hpp"
#include "coll_info/huge_pages.hpp"
#include "command_line.hpp"
#include "reduce/reduce.hpp"
#include "sys/machine/core_caches.hpp"
#include "sys/machine/core_costs.hpp"
#include "sys/net/net_interfaces.hpp"
#include "sys/verbs/rdma_ports.hpp"
#include "topology/picture/picture.hpp"
#include "topology/read/discover.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/rings/direct_pattern.hpp"
#include "topology/rings/host_ring.hpp"
#include "topology/rings/ring_search.hpp"
#include "topology/topology_hash.hpp"
#include "transports/transport.hpp"

namespace {

using Json = nlohmann::ordered_json;
using coll::Knob;

std::string processor() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown";
}

/// Cores that this process may run on.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Each port of an RDMA device, with the address that connections use or why they do not.
Json rdma() {
  Json rows = Json::array();
  for (const coll::RdmaPort& port : coll::rdma_ports()) {
    Json row{{"name", port.name()},
             {"link", !port.unfit.empty() ? "unknown link"
                      : port.ethernet     ? "RoCE"
                                          : "InfiniBand"},
             {"gbits_per_s", port.gigabits_per_s},
             {"state", port.state},
             {"bus", port.bus},
             {"numa_node", port.numa_node},
             {"interfaces", port.interfaces}};
    const auto gid = coll::rdma_gid(port, coll::knobs().interface);
    row["usable"] = gid.ok();
    if (gid.ok())
      row["gid"] = {{"index", gid->index}, {"address", gid->text()}};
    else
      row["why_not"] = gid.status().failure()->what;
    rows.push_back(row);
  }
  return rows;
}

Json machine() {
  const auto bytes_of = [](int name) { return std::max(0L, sysconf(name)); };
  const coll::CoreCaches caches = coll::core_caches();
  Json interfaces = Json::array();
  if (const auto addresses = coll::host_addresses(coll::knobs().interface); addresses.ok())
    for (const coll::InterfaceAddress& each : *addresses)
      if (const auto& name = each.interface;
          std::find(interfaces.begin(), interfaces.end(), Json(name)) == interfaces.end())
        interfaces.push_back(name);
  return {{"processor", processor()},
          {"cores", usable_cores()},
          {"cores_online", sysconf(_SC_NPROCESSORS_ONLN)},
          {"l2_bytes", caches.own},
          // What a core reaches. sysconf(3) would count all caches of a package, so 0 if unknown.
          {"l3_bytes", caches.shared},
          // A cache line from one core to another; 0 where that cannot be measured.
          {"line_ns", std::round(1e4 * coll::core_costs().line_us) / 10},
          {"memory_bytes", bytes_of(_SC_PHYS_PAGES) * bytes_of(_SC_PAGESIZE)},
          {"huge_pages", huge_pages()},
          {"interfaces", interfaces},
          {"rdma_ports", rdma()}};
}

Json transports() {
  coll::TransportSpec spec;
  spec.rank = 0;
  spec.size = 1;
  spec.interface = coll::knobs().interface;
  Json rows = Json::array();
  for (const auto& [name, make] : coll::named_transports()) {
    const auto made = make(spec);
    rows.push_back({{"name", name},
                    {"viable", made.ok()},
                    {"why_not", made.ok() ? "" : made.status().text()}});
  }
  return rows;
}

Json knobs() {
  Json rows = Json::array();
  for (const Knob& knob : coll::knob_table())
    rows.push_back({{"name", knob.name},
                    {"default", knob.fallback},
                    {"unit", knob.unit},
                    {"value", coll::knob_value(knob, coll::knobs())},
                    {"set", std::getenv(knob.name) != nullptr},  // NOLINT(concurrency-mt-unsafe)
                    {"sentence", knob.sentence}});
  return rows;
}

std::string bytes_text(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.3g} {}", value, units[unit]);
}

void print_rdma_port(const Json& row) {
  const auto text = [&](const char* key) { return row[key].get<std::string>(); };
  std::string line = text("link");
  if (const double speed = row["gbits_per_s"].get<double>(); speed > 0)
    line += fmt::format(", {:.4g} Gbit/s", speed);
  line += ", " + text("state");
  if (!text("bus").empty()) line += ", " + text("bus");
  if (const int numa = row["numa_node"].get<int>(); numa >= 0)
    line += fmt::format(", NUMA node {}", numa);
  for (const Json& name : row["interfaces"]) line += ", " + name.get<std::string>();
  line += row["usable"].get<bool>()
              ? fmt::format("; usable with GID {}, {}", row["gid"]["index"].get<int>(),
                            row["gid"]["address"].get<std::string>())
              : "; not usable: " + text("why_not");
  fmt::print("RDMA port {}: {}\n", text("name"), line);
}

std::string cache_text(std::int64_t bytes) {
  return bytes == 0 ? "unknown" : bytes_text(bytes);
}

void print_overview(const Json& info) {
  const Json& machine = info["machine"];
  fmt::print("libcollectives {}, reduction kernels for {}\n", info["version"].get<std::string>(),
             info["instruction_set"].get<std::string>());
  const double line_ns = machine["line_ns"].get<double>();
  fmt::print("machine: {}, {} cores{}, L2 {}, L3 {}, memory {}{}\n",
             machine["processor"].get<std::string>(), machine["cores"].get<int>(),
             machine["cores"] == machine["cores_online"]
                 ? ""
                 : fmt::format(" of {}", machine["cores_online"].get<int>()),
             cache_text(machine["l2_bytes"]), cache_text(machine["l3_bytes"]),
             bytes_text(machine["memory_bytes"]),
             line_ns > 0 ? fmt::format(", a cache line to another core {:.0f} ns", line_ns) : "");
  fmt::print("huge pages: {}\n", huge_pages_text(machine["huge_pages"]));
  std::string names;
  for (const Json& name : machine["interfaces"])
    names += (names.empty() ? "" : ", ") + name.get<std::string>();
  fmt::print("network interfaces: {}\n", names.empty() ? "none" : names);
  for (const Json& row : machine["rdma_ports"]) print_rdma_port(row);
  for (const Json& row : info["transports"])
    fmt::print("transport {}: {}\n", row["name"].get<std::string>(),
               row["viable"].get<bool>() ? "viable" : row["why_not"].get<std::string>());
  for (const Json& row : info["knobs"])
    if (row["set"].get<bool>())
      fmt::print("knob {}={}\n", row["name"].get<std::string>(), row["value"].get<std::string>());
}

void print_knobs(const Json& rows) {
  for (const Json& row : rows) {
    const auto text = [&](const char* key) { return row[key].get<std::string>(); };
    fmt::print("{:<18} {:<10} {:<6} {}\n", text("name"),
               text("value").empty() ? "-" : text("value"), text("unit"), text("sentence"));
  }
}

/// The README's table: what the knobs are, whatever they are set to here.
void print_markdown(const Json& rows) {
  fmt::print("| knob | default | unit | what it does |\n|---|---|---|---|\n");
  for (const Json& row : rows) {
    const auto text = [&](const char* key) { return row[key].get<std::string>(); };
    fmt::print("| `{}` | {} | {} | {} |\n", text("name"),
               text("default").empty() ? "" : "`" + text("default") + "`", text("unit"),
               text("sentence"));
  }
}

/// What the search finds in a machine: through the GPUs of its first host, by their order there,
/// and over the NICs of all hosts.
Json findings(const coll::Topology& topology) {
  Json found{{"hash", fmt::format("{:016x}", coll::topology_hash(topology))}};
  const auto all = topology.all(coll::NodeKind::gpu);
  if (all.size() < 2) return found;
  const auto gpus =
      topology.parts(topology.above(all[0], coll::NodeKind::host), coll::NodeKind::gpu);
  const auto place = [&](coll::NodeId gpu) {
    return std::find(gpus.begin(), gpus.end(), gpu) - gpus.begin();
  };
  if (gpus.size() > coll::kMostSearched) {
    found["not_searched"] = fmt::format("{} GPUs in a host are more than {}: no ring is looked for",
                                        gpus.size(), coll::kMostSearched);
    return found;
  }
  const coll::PairTable distances = distance_table(topology, gpus);
  coll::SearchBudget for_best, for_links, for_nics;
  const coll::Ring best = best_ring(distances, for_best);
  std::map<int, int> hops;
  for (std::size_t i = 0; i < best.size(); ++i)
    ++hops[distances.at(best[i], best[(i + 1) % best.size()])];
  found["best_ring"]["order"] = best;
  found["best_ring"]["cut_short"] = for_best.spent;
  for (const auto& [distance, count] : hops)
    found["best_ring"]["hops"][std::string(name_of(static_cast<coll::Distance>(distance)))] = count;
  if (const coll::RingPacking packing = pack_rings(link_table(topology, gpus), for_links);
      packing.bound > 0)
    found["link_rings"] = {{"rings", packing.rings},
                           {"bound", packing.bound},
                           {"optimal", packing.optimal},
                           {"cut_short", for_links.spent}};
  const coll::Direct direct = direct_pattern(topology, gpus);
  found["direct"] = {{"pattern", name_of(direct.pattern)},
                     {"links", direct.links},
                     {"gbytes_per_s", direct.gbytes_per_s}};
  const std::vector<coll::NicRing> rings = nic_rings(topology, all, for_nics);
  for (const coll::NicRing& ring : rings) {
    const coll::HostRing& first = ring.hosts[0];
    if (first.nic == coll::kNoNode) continue;
    Json order = Json::array();
    for (const coll::NodeId gpu : first.gpus) order.push_back(place(gpu));
    found["nic_rings"].push_back({{"nic", label(topology, first.nic)},
                                  {"out", label(topology, first.out)},
                                  {"order", order},
                                  {"gbytes_per_s", ring.gbytes_per_s}});
  }
  found["nic_rings_gbytes_per_s"] = rings_gbytes_per_s(topology, rings);
  found["nic_rings_cut_short"] = for_nics.spent;
  return found;
}

std::string text_of(const Json& order) {
  std::string text;
  for (const Json& place : order) text += fmt::format(" {}", place.get<int>());
  return text;
}

/// After what a search found, if its budget ended before it did.
std::string cut_text(const Json& cut_short) {
  return cut_short.get<bool>() ? ", the search was cut short" : "";
}

std::string speed_of(const Json& row) {
  const double speed = row["gbytes_per_s"].get<double>();
  return speed > 0 ? fmt::format(", {:.4g} GB/s", speed) : "";
}

void print_findings(const Json& found) {
  if (found.contains("best_ring")) {
    fmt::print("best ring:{} (", text_of(found["best_ring"]["order"]));
    for (const char* comma = ""; const auto& [distance, count] : found["best_ring"]["hops"].items())
      fmt::print("{}{} {}", std::exchange(comma, ", "), count.get<int>(), distance);
    fmt::print("){}\n", cut_text(found["best_ring"]["cut_short"]));
  }
  if (found.contains("not_searched")) fmt::print("{}\n", found["not_searched"].get<std::string>());
  if (found.contains("link_rings")) {
    const Json& packing = found["link_rings"];
    if (packing["rings"].empty())
      fmt::print("no ring over links alone{}\n", cut_text(packing["cut_short"]));
    else
      fmt::print("{} rings over links that share none, {}:\n", packing["rings"].size(),
                 packing["optimal"].get<bool>()
                     ? "as many as there can be"
                     : fmt::format("of {} at most{}", packing["bound"].get<int>(),
                                   cut_text(packing["cut_short"])));
    for (const Json& ring : packing["rings"]) fmt::print(" {}\n", text_of(ring));
  }
  if (const Json& direct = found.value("direct", Json{{"pattern", "none"}});
      direct["pattern"] != "none")
    fmt::print("each reaches each {}: {} links{}\n",
               direct["pattern"] == "mesh" ? "at once" : "through switches",
               direct["links"].get<int>(), speed_of(direct));
  if (found.contains("nic_rings")) {
    const double sum = found["nic_rings_gbytes_per_s"].get<double>();
    fmt::print("rings between hosts, {}{}{}:\n",
               found["nic_rings"].size() == 1
                   ? "over one NIC"
                   : fmt::format("each of {} over its own NIC", found["nic_rings"].size()),
               sum > 0 ? fmt::format(", {:.4g} GB/s together", sum) : "",
               cut_text(found["nic_rings_cut_short"]));
    for (const Json& ring : found["nic_rings"])
      fmt::print("  {}{}:{}{}\n", ring["nic"].get<std::string>(),
                 ring["out"] == ring["nic"]
                     ? ""
                     : fmt::format(", leaves by {}", ring["out"].get<std::string>()),
                 text_of(ring["order"]), speed_of(ring));
  }
  fmt::print("hash: {}\n", found["hash"].get<std::string>());
}

/// The JSON of the machine with one more member, "found"; its reader passes over that.
std::string with_findings(std::string json, const Json& found) {
  json.resize(json.rfind('}'));
  json.resize(json.find_last_not_of(" \n") + 1);
  return json + ",\n \"found\": " + found.dump(1) + "\n}\n";
}

/// The tree, or all of the value as JSON, of this machine or of the one that `what` describes.
int print_topology(const std::string& what, bool json, const std::string& picture) {
  const coll::Result<coll::Topology> topology = what.empty()
                                                    ? coll::Result<coll::Topology>(coll::discover())
                                                    : coll::read_topology_file(what);
  if (!topology.ok()) {
    fmt::print(stderr, "coll-info: {}\n", topology.status().text());
    return 1;
  }
  if (!picture.empty()) {
    std::ofstream file(picture, std::ios::binary);
    file << to_svg(coll::draw(*topology));
    file.close();
    if (!file) {
      fmt::print(stderr, "coll-info: cannot write {}: {}\n", picture, std::strerror(errno));
      return 1;
    }
  }
  const Json found = findings(*topology);
  if (json) {
    std::cout << with_findings(coll::to_json(*topology), found);
  } else {
    std::cout << coll::to_text(*topology) << std::flush;
    print_findings(found);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Says what libcollectives can do here, and its knobs.", "coll-info");
  bool only_knobs = false, json = false, markdown = false, tree = false;
  std::string topology, picture;
  app.add_flag("--knobs", only_knobs, "the knobs: name, value here, unit, what it does");
  app.add_flag("--json", json, "everything, for programs");
  app.add_flag("--machine", tree, "this machine as a tree; with --json, all that is known of it");
  app.add_option("--topology", topology,
                 "the same of the machine in this file, or of this line (docs/topology.md)");
  app.add_option("--svg", picture, "draw it into this file as well");
  app.add_flag("--markdown", markdown, "the knobs as the README's table");
  if (const auto code = perf::parse_command_line(app, argc, argv)) return *code;
  try {
    if (!coll::knobs_status().ok()) {
      fmt::print(stderr, "coll-info: {}\n", coll::knobs_status().text());
      return 1;
    }
    if (tree || !topology.empty() || !picture.empty())
      return print_topology(topology, json, picture);
    if (markdown) {
      print_markdown(knobs());
    } else if (only_knobs && !json) {
      print_knobs(knobs());
    } else {
      const Json info{{"version", fmt::format("{}.{}.{}", COLL_VERSION_MAJOR, COLL_VERSION_MINOR,
                                              COLL_VERSION_PATCH)},
                      {"instruction_set", coll::reduce::instruction_set()},
                      {"machine", machine()},
                      {"transports", transports()},
                      {"knobs", knobs()}};
      if (json)
        std::cout << info.dump(2) << '\n';
      else
        print_overview(info);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "coll-info: {}\n", error.what());
    return 1;
  }
  return 0;
}
