// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: lines found in what a rank writes.
#include "coll_run_output.hpp"

#include <unistd.h>

#include <cerrno>

namespace perf {

void RankOutput::write_line(std::string line) {
  line = prefix_ + line + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t now = ::write(to_, line.data() + done, line.size() - done);
    if (now > 0) done += static_cast<std::size_t>(now);
    if (now < 0 && errno != EINTR) return;  // nobody reads us: the ranks go on
  }
}

bool RankOutput::pump() {
  constexpr std::size_t kLongestLine = 65536;
  char bytes[16384];
  const ssize_t got = ::read(from_, bytes, sizeof bytes);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  pending_.append(bytes, static_cast<std::size_t>(got));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos;) {
    write_line(pending_.substr(begin, end - begin));
    begin = end + 1;
  }
  pending_.erase(0, begin);
  if (!pending_.empty() && (got == 0 || pending_.size() > kLongestLine)) {
    write_line(pending_);
    pending_.clear();
  }
  if (got == 0) ::close(from_);
  return got > 0;
}

}  // namespace perf
