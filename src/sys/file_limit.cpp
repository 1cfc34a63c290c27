// SPDX-License-Identifier: Apache-2.0
// Raises the limit of open files.
#include "sys/file_limit.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "sys/folder.hpp"

namespace coll {

Status raise_file_limit(std::size_t needed, std::size_t wanted, std::string_view what_for) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  // The list takes a descriptor itself: where it is empty, none is left.
  const auto listed = static_cast<rlim_t>(entries_of("/proc/self/fd").size());
  const rlim_t open = listed == 0 ? limit.rlim_cur : listed;
  if (limit.rlim_cur < open + wanted && limit.rlim_cur < limit.rlim_max) {
    rlimit higher = limit;
    higher.rlim_cur = std::min<rlim_t>(open + wanted, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &higher) == 0) limit = higher;
  }
  if (limit.rlim_cur >= open + needed) return {};
  return failed(Code::out_of_resources,
                std::string(what_for) + " needs " + std::to_string(needed) +
                    " open files beside the " + std::to_string(open) + " there are, the limit is " +
                    std::to_string(limit.rlim_cur),
                "raise the limit of open files (ulimit -Hn)", EMFILE);
}

Status keep_files_free(std::size_t needed, std::string_view what_for) {
  constexpr std::size_t kWanted = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  // Numbers are given from below: where the highest are free, no more need be counted.
  std::size_t free = 0;
  while (free < needed && free < limit.rlim_cur &&
         ::fcntl(static_cast<int>(limit.rlim_cur - 1 - free), F_GETFD) < 0) {
    ++free;
  }
  if (free == needed) return {};
  return raise_file_limit(needed, kWanted, what_for);
}

}  // namespace coll
