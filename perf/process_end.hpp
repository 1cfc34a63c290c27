// SPDX-License-Identifier: Apache-2.0
// How a tool ends when something fails that it cannot go on without.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace perf {

/// Exit code 2, with `text` on standard error. Of ranks that are threads of this process, and may
/// fail together, only the first speaks.
[[noreturn]] inline void end_process(const std::string& text) {
  static std::mutex first;
  first.lock();  // for good: the others wait here for the end
  std::fputs(text.c_str(), stderr);
  std::fflush(stdout);
  std::_Exit(2);  // a communicator cannot be left in order; its peers learn it from the socket
}

}  // namespace perf
