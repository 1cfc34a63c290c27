// SPDX-License-Identifier: Apache-2.0
// Writes a file so that readers see the old text or the new, never half of one.
#pragma once
#include <string>
#include <string_view>

namespace training {

/// Writes `path`.tmp and renames it. Throws Failure if that fails; the old file then stays.
/// It does not wait for the disk: monitors read such files, and restarts do not.
void replace_file(const std::string& path, std::string_view text);

}  // namespace training
