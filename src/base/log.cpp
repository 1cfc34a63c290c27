// SPDX-License-Identifier: Apache-2.0
// Log lines for a person, on standard error.
#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <string>

#include "base/knobs.hpp"
#include "base/made_once.hpp"

namespace coll {
namespace {

std::atomic<int> g_rank{-1};

LogLevel wanted_level() {
  return made_once([] {
    const std::string& text = knobs().log;
    if (text == "error") return LogLevel::error;
    if (text == "info") return LogLevel::info;
    if (text == "debug") return LogLevel::debug;
    return LogLevel::warn;
  });
}

}  // namespace

bool log_enabled(LogLevel level) {
  return level <= wanted_level();
}

void log(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  constexpr std::string_view kWord[] = {"error: ", "warning: ", "", ""};
  std::string line = "[coll";
  if (const int rank = g_rank.load(std::memory_order_relaxed); rank >= 0) {
    line.append(" rank ").append(std::to_string(rank));
  }
  line.append("] ").append(kWord[static_cast<int>(level)]).append(text).append("\n");
  // A lost log line is no failure of the call that logged it.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void log_set_rank(int rank) {
  g_rank.store(rank, std::memory_order_relaxed);
}

}  // namespace coll
