// SPDX-License-Identifier: Apache-2.0
// Which NUMA node a set of processors is of.
#include "sys/machine/numa_node.hpp"

#include <cstdlib>
#include <string_view>

#include "sys/folder.hpp"
#include "sys/machine/cpu_list.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

/// Does the list name a processor of the set?
bool names_any(std::string_view list, const cpu_set_t& cpus) {
  cpu_set_t both = read_cpu_list(list);
  CPU_AND(&both, &both, &cpus);
  return CPU_COUNT(&both) > 0;
}

}  // namespace

int numa_node_of(const cpu_set_t& cpus, const std::string& root) {
  int found = -1;
  for (const auto& entry : entries_of(root + "/sys/devices/system/node")) {
    const std::string name = entry.filename().string();
    if (name.rfind("node", 0) != 0) continue;
    char* end = nullptr;
    const long node = std::strtol(name.c_str() + 4, &end, 10);
    if (end == name.c_str() + 4 || *end != 0) continue;
    if (!names_any(first_line_of(entry / "cpulist"), cpus)) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(node);
  }
  return found;
}

}  // namespace coll
