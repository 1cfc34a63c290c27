// SPDX-License-Identifier: Apache-2.0
// Makes the file, with O_DIRECT where the file system allows it.
#include "state_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "../memory/failure.hpp"

namespace training {

StateFile::StateFile(const std::string& folder, std::size_t rank, std::size_t bytes, bool direct)
    : bytes_(bytes), direct_(direct) {
  const auto open_new = [&] {
    name_ = fmt::format("{}/optimizer-states-{}-XXXXXX", folder, rank);
    return ::mkostemp(name_.data(), O_CLOEXEC | (direct_ ? O_DIRECT : 0));
  };
  fd_ = open_new();
  if (fd_ < 0 && direct_ && errno == EINVAL) {
    // The kernel makes the file before it finds that the file system has no O_DIRECT.
    direct_ = false;
    fd_ = open_new();
    static std::once_flag said;
    std::call_once(said, [&] {
      fmt::print(stderr, "The file system of {} refuses O_DIRECT: states pass through the cache.\n",
                 folder);
    });
  }
  if (fd_ < 0) {
    throw Failure(
        fmt::format("no file for the optimizer's states in {}: {}. Name a folder that "
                    "exists, on a local disk, and that you may write.",
                    folder, std::strerror(errno)));
  }
  ::unlink(name_.c_str());
  int failed = bytes == 0 || ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (failed == EOPNOTSUPP) failed = ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (failed != 0) {
    ::close(fd_);
    throw Failure(fmt::format("{}: no room for {} bytes of the optimizer's states: {}", name_,
                              bytes, std::strerror(failed)));
  }
}

StateFile::~StateFile() {
  ::close(fd_);
}

}  // namespace training
