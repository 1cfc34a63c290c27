// SPDX-License-Identifier: Apache-2.0
// Searches the single best ring.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "topology/rings/ring_search.hpp"

namespace coll {
namespace {

constexpr int kClasses = 16;
constexpr int kExact = 17;  ///< members (16 GPUs and a NIC); 2^16 subsets of 16 then

/// How many hops there are of each class, the worst first: compared as the classes matter.
class Hops {
 public:
  [[nodiscard]] Hops with(int hop_class) const {
    Hops sum = *this;
    ++sum.counts_[static_cast<std::size_t>(kClasses - 1 - hop_class)];
    return sum;
  }
  auto operator<=>(const Hops&) const = default;

 private:
  std::array<std::uint16_t, kClasses> counts_{};
};

/// The same in one number, for up to kExact hops: the digits of the counts, the worst class first.
/// That of class 0 is left out: all rings have the same number of hops.
using Cost = std::uint64_t;
constexpr Cost kImpossible = Cost{1} << 63;  ///< with any hop added it is still more than any ring
Cost cost_of(int hop_class) {
  constexpr Cost kBase = kExact + 1;  // 17 x 18^14, the most there can be, is less than 2^63
  Cost cost = hop_class > 0 ? 1 : 0;
  for (int each = 1; each < hop_class; ++each) cost *= kBase;
  return cost;
}

/// Held and Karp: the best way from member 0 through a subset of the others to one of them.
class ExactRing {
 public:
  explicit ExactRing(const PairTable& classes)
      : others_(static_cast<std::size_t>(classes.members() - 1)),
        to_(others_ * others_),
        ways_((std::size_t{1} << others_) * others_, kImpossible) {
    for (std::size_t other = 0; other < others_; ++other) {
      const int member = static_cast<int>(other) + 1;
      out_.push_back(cost_of(classes.at(0, member)));
      back_.push_back(cost_of(classes.at(member, 0)));
      for (std::size_t from = 0; from < others_; ++from)
        to_[other * others_ + from] = cost_of(classes.at(static_cast<int>(from) + 1, member));
    }
  }

  Ring find() {
    const std::size_t all = (std::size_t{1} << others_) - 1;
    for (std::size_t subset = 1; subset <= all; ++subset)
      for (std::size_t last = 0; last < others_; ++last) {
        const std::size_t before = subset & ~(std::size_t{1} << last);
        if (before == subset) continue;
        ways_[subset * others_ + last] =
            before == 0 ? out_[last] : least(before, &to_[last * others_]).cost;
      }
    Ring ring;
    std::size_t subset = all, last = least(all, back_.data()).from;
    while (true) {
      ring.push_back(static_cast<int>(last) + 1);
      subset &= ~(std::size_t{1} << last);
      if (subset == 0) break;
      last = least(subset, &to_[last * others_]).from;
    }
    ring.push_back(0);
    std::reverse(ring.begin(), ring.end());
    return ring;
  }

 private:
  struct Step {
    Cost cost = ~Cost{0};
    std::size_t from = 0;
  };
  /// The best way through all of `subset` and one hop more, which costs `hops[last of the subset]`.
  Step least(std::size_t subset, const Cost* hops) const {
    const Cost* ways = &ways_[subset * others_];
    Step best;
    for (std::size_t from = 0; from < others_; ++from) {
      const Cost cost = ways[from] + hops[from];
      best = cost < best.cost ? Step{cost, from} : best;
    }
    return best;
  }

  std::size_t others_;
  std::vector<Cost> out_, back_;  ///< of the hops from and to member 0
  std::vector<Cost> to_;          ///< of the hops to each of the others, by where from
  std::vector<Cost> ways_;        ///< by subset, then by its last member
};

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
void improve(Ring& ring, const PairTable& classes, SearchBudget& budget) {
  constexpr int kLooks = 64;  // what comparing one place for a run costs, in looks at the table
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
          if (!budget.take(kLooks)) return;
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

Ring best_ring(const PairTable& classes, SearchBudget& budget) {
  const int members = classes.members();
  for (int a = 0; a < members; ++a)
    for (int b = 0; b < members; ++b)
      COLL_CHECK(classes.at(a, b) >= 0 && classes.at(a, b) < kClasses, "a hop has a class 0 to 15");
  if (members == 0) return {};
  if (members == 1) return {0};
  const std::int64_t others = members - 1, pairs = others * others;
  if (members <= kExact && budget.take((std::int64_t{1} << others) * pairs / 2))
    return in_order(ExactRing(classes).find(), classes);
  Ring ring(static_cast<std::size_t>(members));
  std::iota(ring.begin(), ring.end(), 0);
  if (!budget.take(pairs)) return ring;
  ring = greedy_ring(classes);
  improve(ring, classes, budget);
  std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), 0), ring.end());
  return in_order(ring, classes);
}

}  // namespace coll
