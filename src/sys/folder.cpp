// SPDX-License-Identifier: Apache-2.0
// Lists folders without exceptions and without ending the process when memory runs out.
#include "sys/folder.hpp"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace coll {

// Not std::filesystem::directory_iterator: where memory runs out, libstdc++'s ends the process.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  const auto close = [](DIR* one) { ::closedir(one); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  if (!open) return paths;
  // One thread reads this DIR, and readdir(3) is safe then.
  while (const dirent* entry = ::readdir(open.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") paths.push_back(folder / name);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace coll
