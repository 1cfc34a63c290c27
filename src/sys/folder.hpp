// SPDX-License-Identifier: Apache-2.0
// What lies in a folder, and which folder the library's caches are in.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace coll {

/// The paths of a folder's entries, in order; as many as can be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// Makes a folder, and those that it is in, where they are missing. An empty path is the current
/// folder, as the parent of a bare name is.
Status make_folder(const std::filesystem::path& folder);

/// $XDG_CACHE_HOME/collectives, else ~/.cache/collectives; empty if neither variable is a path.
std::string cache_folder(const std::function<const char*(const char*)>& get_variable);
/// The same by the variables of this process.
std::string cache_folder();

}  // namespace coll
