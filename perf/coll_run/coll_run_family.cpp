// SPDX-License-Identifier: Apache-2.0
// Finding and ending every process below this one.
#include "coll_run/coll_run_family.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace perf {
namespace {

/// The parent of a process, as /proc/PID/stat has it; -1 if that process is gone.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(')');  // the name may have any character in it
  int parent = -1;
  if (name_end == std::string::npos ||
      std::sscanf(stat.c_str() + name_end, ") %*c %d", &parent) != 1)
    return -1;
  return parent;
}

}  // namespace

void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    pid_t pid = 0;
    const auto [stop, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong != std::errc() || stop != name.data() + name.size()) continue;
    if (parent_of(at->path()) == getpid()) found.push_back(pid);
  }
  return found;
}

bool kill_children() {
  bool any = false;
  for (const pid_t child : children()) any |= kill(child, SIGKILL) == 0;
  return any;
}

void kill_family() {
  while (kill_children()) {
    if (waitpid(-1, nullptr, 0) < 0 && errno != EINTR) return;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

}  // namespace perf
