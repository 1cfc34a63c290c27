// SPDX-License-Identifier: Apache-2.0
// Reads the sizes of the caches of the core.
#include "sys/machine/core_caches.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/made_once.hpp"
#include "sys/folder.hpp"
#include "sys/machine/cpu_list.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

/// "32768K", "8M".
std::uint64_t size_of(const std::filesystem::path& path) {
  const std::string text = first_line_of(path);
  std::uint64_t size = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, size);
  if (error != std::errc()) return 0;
  if (unit == end) return size;
  return *unit == 'K' ? size << 10 : *unit == 'M' ? size << 20 : size;
}

}  // namespace

CoreCaches core_caches(const std::string& root) {
  CoreCaches caches;
  for (const auto& cache : entries_of(root + "/sys/devices/system/cpu/cpu0/cache")) {
    if (first_line_of(cache / "type") == "Instruction") continue;
    const std::string level = first_line_of(cache / "level");
    if (level == "2") caches.own = size_of(cache / "size");
    if (level != "3") continue;
    caches.shared = size_of(cache / "size");
    const cpu_set_t sharing = read_cpu_list(first_line_of(cache / "shared_cpu_list"));
    caches.shared_by = static_cast<std::uint32_t>(CPU_COUNT(&sharing));
  }
  if (caches.own == 0 && root.empty())
    caches.own = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_LEVEL2_CACHE_SIZE)));
  return caches;
}

const CoreCaches& own_core_caches() {
  return made_once([] { return core_caches(); });
}

}  // namespace coll
