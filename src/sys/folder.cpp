// SPDX-License-Identifier: Apache-2.0
// Lists folders without ending the process when memory runs out, and finds the one for caches.
#include "sys/folder.hpp"

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

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

Status make_folder(const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? system_failure("making the folder " + folder.string(), error.value()) : Status();
}

std::string cache_folder(const std::function<const char*(const char*)>& get_variable) {
  for (const auto& [variable, below] :
       {std::pair("XDG_CACHE_HOME", "/collectives"), std::pair("HOME", "/.cache/collectives")}) {
    const char* const value = get_variable(variable);
    if (value != nullptr && *value == '/') return std::string(value) + below;
  }
  return {};
}

std::string cache_folder() {
  return cache_folder([](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): programs set it before they begin
  });
}

}  // namespace coll
