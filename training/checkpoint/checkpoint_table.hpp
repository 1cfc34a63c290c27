// SPDX-License-Identifier: Apache-2.0
// A table of checkpoints for a person: coll-train --checkpoints.
#pragma once
#include <filesystem>
#include <string>

namespace training {

/// Reads all data of all checkpoints in the folder, and says of each whether it is valid, or why
/// not.
std::string describe_checkpoints(const std::filesystem::path& folder);

}  // namespace training
