// SPDX-License-Identifier: Apache-2.0
// What lies in a folder.
#pragma once
#include <filesystem>
#include <vector>

namespace coll {

/// The paths of a folder's entries, in order; as many as can be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace coll
