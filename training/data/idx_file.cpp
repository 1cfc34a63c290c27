// SPDX-License-Identifier: Apache-2.0
// Reading IDX files through zlib, where this build has it.
#include "idx_file.hpp"

#include <fmt/format.h>

#include "../memory/failure.hpp"

#if TRAINING_HAVE_ZLIB
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#endif

namespace training {

#if TRAINING_HAVE_ZLIB

IdxFile read_idx(const std::string& path, std::size_t dimensions) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30U;  // more than any file of this kind has
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) {
    throw Failure(
        fmt::format("{} cannot be read: {}. Install Debian's package (apt-get install "
                    "dataset-fashion-mnist), or name a folder that has it with --data "
                    "fashion-mnist:FOLDER.",
                    path, std::strerror(errno)));
  }
  std::vector<std::uint8_t> head(4 + 4 * dimensions);
  if (gzread(file.get(), head.data(), static_cast<unsigned>(head.size())) !=
          static_cast<int>(head.size()) ||
      head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] != dimensions) {
    throw Failure(
        fmt::format("{} is not an IDX file of bytes with {} dimensions.", path, dimensions));
  }
  IdxFile idx;
  std::size_t total = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8U | head[4 + 4 * d + i];
    idx.sizes.push_back(size);
    total = std::min(total * size, kMostBytes + 1);
  }
  if (total > kMostBytes)
    throw Failure(fmt::format("{} says it has more than {} bytes.", path, kMostBytes));
  idx.body.resize(total);
  if (gzread(file.get(), idx.body.data(), static_cast<unsigned>(total)) != static_cast<int>(total))
    throw Failure(fmt::format("{} ends before its {} bytes, or is damaged.", path, total));
  return idx;
}

#else

IdxFile read_idx(const std::string& path, std::size_t /*dimensions*/) {
  throw Failure(
      fmt::format("{} cannot be read: this build has no zlib. Install Debian's package "
                  "(apt-get install zlib1g-dev) and configure the build again.",
                  path));
}

#endif

}  // namespace training
