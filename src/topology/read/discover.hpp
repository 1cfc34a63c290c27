// SPDX-License-Identifier: Apache-2.0
// This machine, from all that knows of it.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "sys/machine/hwloc_library.hpp"
#include "sys/machine/nvml_library.hpp"
#include "topology/topology.hpp"

namespace coll {

/// Where discovery looks; a test puts its own in place.
struct DiscoverySources {
  std::function<Result<HwlocExport>()> hwloc = hwloc_export;
  std::function<Result<NvmlTable>()> nvml = load_nvml;
  std::string root;  ///< in front of /sys and /proc
  /// PUs that this process may run on; none: the operating system is asked.
  std::optional<CpuSet> affinity;
};

/// This machine as far as this process may use it: its cgroup, cpuset and affinity. A source that
/// is missing or fails is named in the warnings, and the rest goes on; the least there is are the
/// PUs.
Topology discover(const DiscoverySources& sources = {});

/// What NVML knows replaces what is there: PCI links, names, numbers, and the NVLinks of the GPUs
/// that it knows. GPUs are found by bus number; one that hwloc did not see is added to the host.
void add_nvml(Topology& topology, const std::vector<NvmlGpu>& gpus);

/// Speeds and ports of NICs, from ROOT/sys/class/net and ROOT/sys/class/infiniband; one that is not
/// there yet is added to the host.
void add_sysfs_nics(Topology& topology, const std::string& root);

}  // namespace coll
