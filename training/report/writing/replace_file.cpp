// SPDX-License-Identifier: Apache-2.0
// Writes a file beside its place, then renames it.
#include "replace_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "../../memory/failure.hpp"

namespace training {

void replace_file(const std::string& path, std::string_view text) {
  const std::string beside = path + ".tmp";
  std::error_code problem;
  errno = 0;
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) problem.assign(errno != 0 ? errno : EIO, std::generic_category());
  }
  if (!problem) std::filesystem::rename(beside, path, problem);
  if (!problem) return;
  std::error_code ignored;
  std::filesystem::remove(beside, ignored);
  throw Failure(fmt::format("cannot write {}: {}. Give a folder that exists and has room.", path,
                            problem.message()));
}

}  // namespace training
