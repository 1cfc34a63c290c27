// SPDX-License-Identifier: Apache-2.0
// tests/: the house's proofs. This file: what the algorithms say of themselves, as text for
// scripts/gen-algorithms-doc.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "built.hpp"
#include "schedule/print.hpp"

namespace coll {
namespace {

constexpr Rank kMostRanks = 64;

/// A line per algorithm, collective and number of ranks; roots are 0.
void print_costs() {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      for (Rank ranks = 1; ranks <= kMostRanks; ++ranks) {
        const CollectiveSpec spec{collective_at(i), ranks, 0};
        if (!algorithm.supports(spec, Layout::flat(ranks))) continue;
        const Cost cost = algorithm.cost(spec, Layout::flat(ranks));
        std::printf("%s %s %d %u %.17g %.17g %.17g %.17g %u %u %u\n",
                    std::string(algorithm.name).c_str(),
                    std::string(name_of(spec.collective)).c_str(), ranks, cost.steps, cost.rounds,
                    cost.sent, cost.received, cost.reduced, cost.scratch_chunks,
                    cost.message_chunks, cost.peers);
      }
    }
  }
}

int show(const char* how, const char* name, const char* operation, Rank ranks) {
  const Algorithm* algorithm = find_algorithm(name);
  int i = 0;
  while (i < kCollectives && name_of(collective_at(i)) != operation) ++i;
  if (algorithm == nullptr || i == kCollectives ||
      !algorithm->supports({collective_at(i), ranks, 0}, Layout::flat(ranks))) {
    std::fprintf(stderr, "no %s for %s of %d ranks\n", name, operation, ranks);
    return 1;
  }
  const std::vector<Schedule> schedules = build_all(*algorithm, {collective_at(i), ranks, 0});
  if (std::strcmp(how, "draw") == 0) {
    std::fputs(draw(schedules).c_str(), stdout);
  } else {
    for (const Schedule& schedule : schedules) std::printf("%s\n", print(schedule).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace coll

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "costs") == 0) {
    coll::print_costs();
    return 0;
  }
  if (count == 5)
    return coll::show(arguments[1], arguments[2], arguments[3], std::atoi(arguments[4]));
  std::fprintf(stderr, "usage: %s costs | (print|draw) ALGORITHM OPERATION RANKS\n", arguments[0]);
  return 2;
}
