// SPDX-License-Identifier: Apache-2.0
// A program for launchers: meets twice, says who was there, and of each the word of LAUNCHED_WORD.
// With FILE and RANK, that rank first tries alone; the others come once it has made the file.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/launch/launch.hpp"
#include "sys/clock.hpp"

namespace {

using coll::Launch;

coll::Result<Launch> read_own_launch() {
  return coll::read_launch([](const char* name) -> const char* { return std::getenv(name); });
}

/// Returns once the file is there. The one that is early makes it, after a try alone, which fails.
void begin_alone(const Launch& launch, const std::string& file, int early) {
  if (launch.rank == early) {
    const auto soon = coll::Clock::now() + std::chrono::milliseconds(300);
    if (coll::meet(launch.place, launch.rank, launch.size, soon).ok()) std::abort();
    std::ofstream(file) << "tried\n";
  }
  // Nobody may be left to make it.
  const auto late = coll::Clock::now() + std::chrono::seconds(20);
  while (!std::filesystem::exists(file)) {
    if (coll::Clock::now() > late) std::abort();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// The word tells jobs apart that run at the same time.
std::string own_text(const Launch& launch) {
  const char* const word = std::getenv("LAUNCHED_WORD");
  return std::to_string(launch.rank) + (word != nullptr ? word : "");
}

coll::Result<std::string> meet_once(const Launch& launch) {
  using namespace coll;
  const Deadline deadline = Clock::now() + std::chrono::seconds(20);
  COLL_ASSIGN(Meeting meeting, meet(launch.place, launch.rank, launch.size, deadline));
  COLL_ASSIGN(const auto texts, exchange(meeting, own_text(launch), deadline));
  std::string all = launch.launcher + ":";
  for (const std::string& text : texts) all += " " + text;
  return all;
}

}  // namespace

int main(int count, char** arguments) {
  const coll::Result<Launch> launch = read_own_launch();
  if (launch.ok() && count > 2) begin_alone(*launch, arguments[1], std::atoi(arguments[2]));
  for (int time = 0; time < 2; ++time) {
    const auto seen = launch.ok() ? meet_once(*launch) : launch.status();
    // One write per line: the ranks share an output.
    const std::string line = (seen.ok() ? *seen : seen.status().text()) + "\n";
    std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
    if (!seen.ok()) return 1;
  }
  return 0;
}
