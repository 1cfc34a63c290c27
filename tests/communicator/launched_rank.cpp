// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: a program for launchers: meets twice, says who was
// there.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "communicator/exchange.hpp"
#include "communicator/launch.hpp"
#include "sys/clock.hpp"

namespace {

coll::Result<std::string> meet_once(unsigned generation) {
  using namespace coll;
  const auto get = [](const char* name) -> const char* { return std::getenv(name); };
  COLL_ASSIGN(const Launch launch, read_launch(get, generation));
  const Deadline deadline = Clock::now() + std::chrono::seconds(20);
  COLL_ASSIGN(Meeting meeting, meet(launch.place, launch.rank, launch.size, deadline));
  COLL_ASSIGN(const auto texts, exchange(meeting, std::to_string(launch.rank), deadline));
  std::string all = launch.launcher + ":";
  for (const std::string& text : texts) all += " " + text;
  return all;
}

}  // namespace

int main() {
  for (const unsigned generation : {0U, 1U}) {
    const coll::Result<std::string> seen = meet_once(generation);
    // One write per line: the ranks share an output.
    const std::string line = (seen.ok() ? *seen : seen.status().text()) + "\n";
    std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
    if (!seen.ok()) return 1;
  }
  return 0;
}
