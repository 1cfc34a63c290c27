// SPDX-License-Identifier: Apache-2.0
// Lines found in what a rank writes.
#include "coll_run/coll_run_output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace perf {
namespace {

constexpr std::size_t kBytes = 16384;

}  // namespace

/// Puts the whole lines, and what is behind them if it is the last or too long to wait for its end.
void RankOutput::put_lines(bool last) {
  constexpr std::size_t kLongestLine = 65536;
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos;) {
    lines += prefix_;
    lines.append(pending_, begin, end + 1 - begin);
    begin = end + 1;
  }
  pending_.erase(0, begin);
  if (!pending_.empty() && (last || pending_.size() > kLongestLine)) {
    lines += prefix_ + pending_ + "\n";
    pending_.clear();
  }
  if (!lines.empty()) to_->put(lines);
}

bool RankOutput::pump() {
  char bytes[kBytes];
  const ssize_t got = ::read(from_, bytes, sizeof bytes);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  pending_.append(bytes, static_cast<std::size_t>(got));
  put_lines(got == 0);
  if (got == 0) ::close(from_);
  return got > 0;
}

void RankOutput::finish() {
  int left = 0;
  if (::ioctl(from_, FIONREAD, &left) != 0) left = 0;
  char bytes[kBytes];
  while (left > 0) {
    const ssize_t got =
        ::read(from_, bytes, std::min(sizeof bytes, static_cast<std::size_t>(left)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    pending_.append(bytes, static_cast<std::size_t>(got));
    left -= static_cast<int>(got);
    put_lines(false);
  }
  put_lines(true);
  ::close(from_);
}

}  // namespace perf
