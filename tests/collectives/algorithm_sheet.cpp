// SPDX-License-Identifier: Apache-2.0
// What the algorithms say of themselves, as text for scripts/gen-algorithms-doc.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "built.hpp"
#include "schedule/print.hpp"

namespace coll {
namespace {

constexpr Rank kEveryCount = 64;  ///< up to here all numbers of ranks
constexpr Rank kLarge[] = {65, 96, 100, 127, 128, 257};

/// "4": ranks on one host; "2x3": 2 hosts of 3 ranks; "1+3+2": hosts of 1, 3 and 2 ranks.
Layout layout_of(const std::string& text) {
  std::vector<Place> places;
  std::istringstream in(text);
  std::int64_t hosts = 0;
  for (std::string word; std::getline(in, word, '+');) {
    const std::size_t times = word.find('x');
    const int ranks = std::atoi(word.c_str() + (times == std::string::npos ? 0 : times + 1));
    for (int left = times == std::string::npos ? 1 : std::atoi(word.c_str()); left > 0; --left) {
      places.insert(places.end(), static_cast<std::size_t>(ranks), Place{.host = hosts});
      ++hosts;
    }
  }
  return make_layout(places);
}

void print_cost(const Algorithm& algorithm, Collective collective, const Layout& layout,
                const std::string& ranks) {
  const CollectiveSpec spec{collective, layout.ranks(), 0};
  if (!algorithm.supports(spec, layout)) return;
  const Cost cost = algorithm.cost(spec, layout);
  std::printf("%s %s %s %u %.17g %.17g %.17g %.17g %u %u %u\n", std::string(algorithm.name).c_str(),
              std::string(name_of(collective)).c_str(), ranks.c_str(), cost.steps, cost.rounds,
              cost.sent, cost.received, cost.reduced, cost.scratch_chunks, cost.message_chunks,
              cost.peers);
}

/// A line per algorithm, collective and number of ranks on one host; roots are 0.
void print_costs() {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      const auto print_flat = [&](Rank ranks) {
        print_cost(algorithm, collective_at(i), Layout::flat(ranks), std::to_string(ranks));
      };
      for (Rank ranks = 1; ranks <= kEveryCount; ++ranks) print_flat(ranks);
      std::ranges::for_each(kLarge, print_flat);
    }
  }
}

/// The same for one layout.
void print_costs(const std::string& hosts) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      print_cost(algorithm, collective_at(i), layout_of(hosts), hosts);
    }
  }
}

/// "binomial reduce 2^k ranks": with what ranks an algorithm keeps the order of the tree.
void print_order(const Algorithm& algorithm, Collective collective) {
  bool always = true, of_powers = true, at_zero = true;
  for (Rank ranks = 3; ranks <= kEveryCount; ++ranks) {
    for (Rank root = 0; root < (has_root(collective) ? ranks : 1); ++root) {
      const CollectiveSpec spec{collective, ranks, root, false, SumOrder::tree};
      if (algorithm.serves(spec, Layout::flat(ranks))) continue;
      always = false;
      if (root == 0) at_zero = false;
      if ((ranks & (ranks - 1)) == 0) of_powers = false;
    }
  }
  if (!of_powers) return;
  std::printf("%s %s %s\n", std::string(algorithm.name).c_str(),
              std::string(name_of(collective)).c_str(),
              always    ? "any ranks"
              : at_zero ? "2^k ranks, or root 0"
                        : "2^k ranks");
}

void print_orders() {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      if (reduces(collective_at(i))) print_order(algorithm, collective_at(i));
    }
  }
}

int show(const char* how, const char* name, const char* operation, const char* ranks) {
  const Layout layout = layout_of(ranks);
  const Algorithm* algorithm = find_algorithm(name);
  int i = 0;
  while (i < kCollectives && name_of(collective_at(i)) != operation) ++i;
  if (algorithm == nullptr || i == kCollectives ||
      !algorithm->supports({collective_at(i), layout.ranks(), 0}, layout)) {
    std::fprintf(stderr, "no %s for %s of %s ranks\n", name, operation, ranks);
    return 1;
  }
  const std::vector<Schedule> schedules =
      build_all(*algorithm, {collective_at(i), layout.ranks(), 0}, layout);
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
  if (count == 3 && std::strcmp(arguments[1], "costs") == 0) {
    coll::print_costs(arguments[2]);
    return 0;
  }
  if (count == 2 && std::strcmp(arguments[1], "orders") == 0) {
    coll::print_orders();
    return 0;
  }
  if (count == 5) return coll::show(arguments[1], arguments[2], arguments[3], arguments[4]);
  std::fprintf(stderr,
               "usage: %s costs [RANKS] | orders | (print|draw) ALGORITHM OPERATION RANKS\n",
               arguments[0]);
  return 2;
}
