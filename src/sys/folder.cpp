// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: folders, listed without exceptions.
#include "sys/folder.hpp"

#include <algorithm>

namespace coll {

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  // A range-for would throw where a later entry cannot be read.
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    paths.push_back(at->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace coll
