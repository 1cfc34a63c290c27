// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: the caches of a core.
#include "sys/core_caches.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "sys/cpu_list.hpp"
#include "sys/folder.hpp"

namespace coll {
namespace {

template <class Value>
Value first_of(const std::filesystem::path& path, Value none) {
  std::ifstream file(path);
  Value value;
  return file >> value ? value : none;
}

/// "32768K", "8M".
std::uint64_t size_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t size = 0;
  char unit = 0;
  if (!(file >> size)) return 0;
  file >> unit;
  return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size;
}

}  // namespace

CoreCaches core_caches(const std::string& root) {
  CoreCaches caches;
  for (const auto& cache : entries_of(root + "/sys/devices/system/cpu/cpu0/cache")) {
    if (first_of<std::string>(cache / "type", "") == "Instruction") continue;
    const int level = first_of(cache / "level", 0);
    if (level == 2) caches.own = size_of(cache / "size");
    if (level != 3) continue;
    caches.shared = size_of(cache / "size");
    std::ifstream list(cache / "shared_cpu_list");
    const cpu_set_t sharing = read_cpu_list(list);
    caches.shared_by = static_cast<std::uint32_t>(CPU_COUNT(&sharing));
  }
  if (caches.own == 0 && root.empty())
    caches.own = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_LEVEL2_CACHE_SIZE)));
  return caches;
}

}  // namespace coll
