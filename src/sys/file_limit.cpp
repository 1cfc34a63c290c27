// SPDX-License-Identifier: Apache-2.0
// Raises the limit of open files.
#include "sys/file_limit.hpp"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <vector>

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
  const auto end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
  std::vector<pollfd> highest(std::min<std::size_t>(needed, static_cast<std::size_t>(end)));
  for (int fd = end; pollfd & one : highest) one.fd = --fd;
  ::poll(highest.data(), highest.size(), 0);  // one call for all
  const auto is_free = [](const pollfd& one) { return (one.revents & POLLNVAL) != 0; };
  const auto free = static_cast<std::size_t>(std::ranges::count_if(highest, is_free));
  if (free == needed) return {};
  return raise_file_limit(needed, kWanted, what_for);
}

}  // namespace coll
