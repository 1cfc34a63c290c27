// SPDX-License-Identifier: Apache-2.0
// Discovers this machine through hwloc, sysfs and NVML.
#include "topology/read/discover.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "base/log.hpp"
#include "topology/gpu_models.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/reader_text.hpp"

namespace coll {
namespace {

/// PUs that this process may run on; empty if that cannot be told.
CpuSet own_affinity() {
  for (int most = 1024; most <= CpuSet::kLimit; most *= 4) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(static_cast<std::size_t>(most)), [](cpu_set_t* each) { CPU_FREE(each); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    if (set == nullptr || sched_getaffinity(0, bytes, set.get()) != 0) continue;
    CpuSet affinity;
    for (int each = 0; each < most; ++each)
      if (CPU_ISSET_S(static_cast<std::size_t>(each), bytes, set.get())) affinity.add(each);
    return affinity;
  }
  return {};
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// Without hwloc: the host and the PUs, so that who plans has something to plan on.
Topology least(const CpuSet& affinity) {
  Topology topology;
  Node host;
  host.cpus = affinity;
  topology.add(std::move(host));
  for (const std::int32_t each : affinity.numbers()) {
    Node pu;
    pu.kind = NodeKind::pu;
    pu.parent = 0;
    pu.index = each;
    pu.cpus.add(each);
    topology.add(std::move(pu));
  }
  return topology;
}

/// "max 100000" or "250000 100000" (control groups, version 2): CPUs' worth of time, 0: no limit.
double quota(const std::string& root) {
  std::string group;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/")) group = line.substr(3);
  double least = 0;
  for (const std::string& place : {std::string(), group}) {
    std::string path = root;
    path.append("/sys/fs/cgroup").append(place).append("/cpu.max");
    const std::string line = first_line(path);
    const auto words = split(line, " ");
    if (words.size() != 2) continue;
    const auto time = number<double>(words[0]), period = number<double>(words[1]);
    if (!time || !period || !(*period > 0)) continue;
    least = least > 0 ? std::min(least, *time / *period) : *time / *period;
  }
  return least;
}

void warn(Topology& topology, const Status& status) {
  log(LogLevel::info, "topology: " + status.text());
  topology.warn(status.text());
}

}  // namespace

Topology discover(const DiscoverySources& sources) {
  const CpuSet affinity = sources.affinity ? *sources.affinity : own_affinity();
  Topology topology;
  bool this_machine = true;
  Status without_hwloc;
  if (auto exported = sources.hwloc(); !exported.ok()) {
    without_hwloc = exported.status();
  } else if (auto read = read_hwloc_xml(exported->xml, "hwloc"); !read.ok()) {
    without_hwloc = read.status();
  } else {
    topology = *std::move(read);
    this_machine = exported->this_machine;
  }
  if (!without_hwloc.ok()) {
    topology = least(affinity);
    warn(topology, without_hwloc);
  }
  topology.source = this_machine ? "this machine" : "hwloc";
  if (!this_machine) {  // the other sources would speak of another machine
    warn_of_missing_links(topology);
    return topology;
  }

  Node& host = topology.nodes.front();
  CpuSet usable = host.cpus;
  usable &= affinity;
  if (usable.empty() && !affinity.empty())
    topology.warn("hwloc sees PUs " + host.cpus.list() + ", this process may run on " +
                  affinity.list() + ": the latter are assumed");
  if (!affinity.empty()) host.cpus = usable.empty() ? affinity : usable;
  if (const double cpus = quota(sources.root); cpus > 0)
    host.info.emplace_back("CpuQuota", std::to_string(cpus));
  add_sysfs_nics(topology, sources.root);
  if (const auto nvml = sources.nvml(); !nvml.ok()) {
    if (topology.count(NodeKind::gpu) > 0) warn(topology, nvml.status());
  } else if (const auto gpus = nvml_gpus(*nvml); !gpus.ok()) {
    warn(topology, gpus.status());
  } else {
    add_nvml(topology, *gpus);
  }
  warn_of_missing_links(topology);
  return topology;
}

}  // namespace coll
