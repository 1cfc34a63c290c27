// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: the single best ring.
#include <algorithm>
#include <array>
#include <limits>

#include "base/check.hpp"
#include "topology/ring_search.hpp"

namespace coll {
namespace {

constexpr int kClasses = 16;
constexpr int kExact = 16;  ///< members; 2^15 subsets of 15 then

/// How many hops there are of each class, the worst first: compared as the classes matter.
class Hops {
 public:
  static Hops none_possible() {
    Hops hops;
    hops.counts_.fill(std::numeric_limits<std::uint16_t>::max());
    return hops;
  }
  [[nodiscard]] Hops with(int hop_class) const {
    Hops sum = *this;
    ++sum.counts_[static_cast<std::size_t>(kClasses - 1 - hop_class)];
    return sum;
  }
  auto operator<=>(const Hops&) const = default;

 private:
  std::array<std::uint16_t, kClasses> counts_{};
};

/// Held and Karp: the best way from member 0 through a subset of the others to one of them.
Ring exact_ring(const PairTable& classes) {
  const int others = classes.members() - 1;
  const auto subsets = std::size_t{1} << others;
  struct Way {
    Hops hops = Hops::none_possible();
    std::int16_t before = -1;
  };
  std::vector<Way> ways(subsets * static_cast<std::size_t>(others));
  const auto way = [&](std::size_t subset, int last) -> Way& {
    return ways[subset * static_cast<std::size_t>(others) + static_cast<std::size_t>(last)];
  };
  for (int first = 0; first < others; ++first)
    way(std::size_t{1} << first, first).hops = Hops().with(classes.at(0, first + 1));
  for (std::size_t subset = 1; subset < subsets; ++subset) {
    for (int last = 0; last < others; ++last) {
      if ((subset >> last & 1) == 0) continue;
      const Hops here = way(subset, last).hops;
      if (here == Hops::none_possible()) continue;
      for (int next = 0; next < others; ++next) {
        if ((subset >> next & 1) != 0) continue;
        const Hops hops = here.with(classes.at(last + 1, next + 1));
        Way& there = way(subset | std::size_t{1} << next, next);
        if (hops < there.hops) there = {hops, static_cast<std::int16_t>(last)};
      }
    }
  }
  std::size_t subset = subsets - 1;
  int last = 0;
  Hops best = Hops::none_possible();
  for (int end = 0; end < others; ++end) {
    const Hops hops = way(subset, end).hops.with(classes.at(end + 1, 0));
    if (hops < best) {
      best = hops;
      last = end;
    }
  }
  Ring ring;
  while (last >= 0) {
    ring.push_back(last + 1);
    const int before = way(subset, last).before;
    subset &= ~(std::size_t{1} << last);
    last = before;
  }
  ring.push_back(0);
  std::reverse(ring.begin(), ring.end());
  return ring;
}

/// Takes the nearest one that is left, again and again.
Ring greedy_ring(const PairTable& classes) {
  Ring ring{0};
  std::vector<int> left;
  for (int member = 1; member < classes.members(); ++member) left.push_back(member);
  while (!left.empty()) {
    const auto nearest = std::min_element(left.begin(), left.end(), [&](int a, int b) {
      return classes.at(ring.back(), a) < classes.at(ring.back(), b);
    });
    ring.push_back(*nearest);
    left.erase(nearest);
  }
  return ring;
}

/// Moves runs of one to three members to where they cost less, until there is no such place (Or
/// 1976). Runs keep their direction, so links of one direction are no problem.
void improve(Ring& ring, const PairTable& classes) {
  const auto n = ring.size();
  const auto cost_of = [&](std::size_t i, std::size_t j) {
    return classes.at(ring[i % n], ring[j % n]);
  };
  bool better = true;
  while (better) {
    better = false;
    for (std::size_t run = 1; run <= 3 && !better; ++run) {
      for (std::size_t at = 0; at < n && !better; ++at) {
        // The run is at … at + run - 1; it goes between `to` and its next.
        for (std::size_t to = at + run; to < at + n - 1 && !better; ++to) {
          const int removed[] = {cost_of(at + n - 1, at), cost_of(at + run - 1, at + run),
                                 cost_of(to, to + 1)};
          const int added[] = {cost_of(at + n - 1, at + run), cost_of(to, at),
                               cost_of(at + run - 1, to + 1)};
          Hops before, after;
          for (const int hop : removed) before = before.with(hop);
          for (const int hop : added) after = after.with(hop);
          if (!(after < before)) continue;
          std::rotate(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(at), ring.end());
          std::rotate(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(run),
                      ring.begin() + static_cast<std::ptrdiff_t>(to - at + 1));
          better = true;
        }
      }
    }
  }
  std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), 0), ring.end());
}

Hops hops_of(const Ring& ring, const PairTable& classes) {
  Hops hops;
  for (std::size_t i = 0; i < ring.size(); ++i)
    hops = hops.with(classes.at(ring[i], ring[(i + 1) % ring.size()]));
  return hops;
}

/// The same ring the other way round, if that reads better and is no worse.
Ring in_order(const Ring& ring, const PairTable& classes) {
  Ring back = ring;
  std::reverse(back.begin() + 1, back.end());
  return back < ring && hops_of(back, classes) <= hops_of(ring, classes) ? back : ring;
}

}  // namespace

Ring best_ring(const PairTable& classes) {
  const int members = classes.members();
  for (int a = 0; a < members; ++a)
    for (int b = 0; b < members; ++b)
      COLL_CHECK(classes.at(a, b) >= 0 && classes.at(a, b) < kClasses, "a hop has a class 0 to 15");
  if (members == 0) return {};
  if (members == 1) return {0};
  if (members <= kExact) return in_order(exact_ring(classes), classes);
  Ring ring = greedy_ring(classes);
  improve(ring, classes);
  return in_order(ring, classes);
}

}  // namespace coll
