// SPDX-License-Identifier: Apache-2.0
// Searches for the largest number of link-disjoint rings.
#include <algorithm>
#include <limits>
#include <random>

#include "topology/rings/ring_search.hpp"

namespace coll {
namespace {

constexpr int kTries = 2000;              ///< random packings before a search of all
constexpr int kLooks = 4000;              ///< hops tried for one ring of a random packing
constexpr std::size_t kMostRings = 4096;  ///< different rings that a search of all takes on

int fewest_links(const PairTable& links) {
  const int members = links.members();
  int fewest = std::numeric_limits<int>::max();
  for (int a = 0; a < members; ++a) {
    int out = 0, in = 0;
    for (int b = 0; b < members; ++b) {
      if (a == b) continue;
      out += links.at(a, b);
      in += links.at(b, a);
    }
    fewest = std::min({fewest, out, in});
  }
  return fewest;
}

void take(PairTable& links, const Ring& ring, int count) {
  for (std::size_t i = 0; i < ring.size(); ++i)
    links.at(ring[i], ring[(i + 1) % ring.size()]) -= count;
}

bool has(const PairTable& links, const Ring& ring) {
  for (std::size_t i = 0; i < ring.size(); ++i)
    if (links.at(ring[i], ring[(i + 1) % ring.size()]) <= 0) return false;
  return true;
}

/// Rings by depth first search, each step first to where the most links lead.
class RingWalk {
 public:
  RingWalk(const PairTable& links, SearchBudget& budget)
      : links_(links), budget_(budget), visited_(static_cast<std::size_t>(links.members())) {}

  /// One ring, by random choices among equal ones. Empty if `looks` looks found none.
  Ring find(std::mt19937& random, int looks) {
    random_ = &random;
    looks_ = looks;
    start();
    return extend() ? ring_ : Ring{};
  }
  /// All rings; but at most `most` + 1, and no more than the budget allows.
  std::vector<Ring> all(std::size_t most) {
    std::vector<Ring> found;
    start();
    collect(found, most);
    return found;
  }

 private:
  void start() {
    ring_ = {0};
    std::fill(visited_.begin(), visited_.end(), false);
    visited_[0] = true;
  }
  [[nodiscard]] bool full() const {
    return ring_.size() == static_cast<std::size_t>(links_.members());
  }
  [[nodiscard]] std::vector<int> choices() const {
    std::vector<int> next;
    for (int to = 0; to < links_.members(); ++to)
      if (!visited_[static_cast<std::size_t>(to)] && links_.at(ring_.back(), to) > 0)
        next.push_back(to);
    return next;
  }
  void enter(int member) {
    ring_.push_back(member);
    visited_[static_cast<std::size_t>(member)] = true;
  }
  void leave() {
    visited_[static_cast<std::size_t>(ring_.back())] = false;
    ring_.pop_back();
  }
  bool extend() {
    if (full()) return links_.at(ring_.back(), 0) > 0;
    std::vector<int> next = choices();
    for (std::size_t left = next.size(); left > 1; --left)  // as std::shuffle, but alike everywhere
      std::swap(next[left - 1], next[(*random_)() % left]);
    std::stable_sort(next.begin(), next.end(), [&](int a, int b) {
      return links_.at(ring_.back(), a) > links_.at(ring_.back(), b);
    });
    for (const int to : next) {
      if (--looks_ < 0 || !budget_.take(std::int64_t{8} * links_.members())) return false;
      enter(to);
      if (extend()) return true;
      leave();
    }
    return false;
  }
  void collect(std::vector<Ring>& found, std::size_t most) {
    if (found.size() > most) return;
    if (full()) {
      if (links_.at(ring_.back(), 0) > 0) found.push_back(ring_);
      return;
    }
    for (const int to : choices()) {
      if (!budget_.take(links_.members())) return;
      enter(to);
      collect(found, most);
      leave();
    }
  }

  const PairTable& links_;
  SearchBudget& budget_;
  std::vector<bool> visited_;
  Ring ring_;
  std::mt19937* random_ = nullptr;
  int looks_ = 0;
};

/// Ring after ring until there is none left.
std::vector<Ring> random_packing(PairTable links, std::mt19937& random, SearchBudget& budget) {
  std::vector<Ring> rings;
  while (rings.size() < kMostPacked) {
    const Ring ring = RingWalk(links, budget).find(random, kLooks);
    if (ring.empty()) break;
    take(links, ring, 1);
    rings.push_back(ring);
  }
  return rings;
}

/// Every set of the given rings that shares no link, until one has more than `best`.
class ExhaustivePacking {
 public:
  ExhaustivePacking(const PairTable& links, const std::vector<Ring>& rings, SearchBudget& budget)
      : links_(links), rings_(rings), budget_(budget) {}

  /// True: `best` is as large as can be.
  bool improve(std::vector<Ring>& best, int bound) {
    best_ = &best;
    bound_ = static_cast<std::size_t>(bound);
    search(0);
    return !budget_.spent;
  }

 private:
  void search(std::size_t from) {
    if (chosen_.size() > best_->size()) *best_ = chosen_;
    if (!budget_.take(std::int64_t{links_.members()} * links_.members())) return;
    const auto more = static_cast<std::size_t>(fewest_links(links_));
    if (best_->size() >= bound_ || chosen_.size() + more <= best_->size()) return;
    for (std::size_t i = from; i < rings_.size(); ++i) {
      if (!budget_.take(links_.members())) return;
      if (!has(links_, rings_[i])) continue;
      take(links_, rings_[i], 1);
      chosen_.push_back(rings_[i]);
      search(i);  // the same again, where links are parallel
      chosen_.pop_back();
      take(links_, rings_[i], -1);
      if (best_->size() >= bound_) return;
    }
  }

  PairTable links_;
  const std::vector<Ring>& rings_;
  std::vector<Ring> chosen_;
  std::vector<Ring>* best_ = nullptr;
  SearchBudget& budget_;
  std::size_t bound_ = 0;
};

}  // namespace

RingPacking pack_rings(const PairTable& links, SearchBudget& budget) {
  RingPacking packing;
  if (links.members() < 2) return {.rings = {}, .bound = 0, .optimal = true};
  packing.bound = fewest_links(links);
  std::mt19937 random(1);  // NOLINT: all ranks shall find the same
  const auto full = [&] { return static_cast<int>(packing.rings.size()) >= packing.bound; };
  for (int i = 0; i < kTries && !full() && !budget.spent; ++i) {
    std::vector<Ring> rings = random_packing(links, random, budget);
    if (rings.size() > packing.rings.size()) packing.rings = std::move(rings);
    if (packing.rings.size() == kMostPacked && !full()) budget.spent = true;
    if (i == 0 && packing.rings.empty() && !full()) break;  // most likely there is none at all
  }
  packing.optimal = full();
  if (packing.optimal || budget.spent) return packing;
  const std::vector<Ring> all = RingWalk(links, budget).all(kMostRings);
  if (all.size() <= kMostRings && !budget.spent)
    packing.optimal = ExhaustivePacking(links, all, budget).improve(packing.rings, packing.bound);
  return packing;
}

}  // namespace coll
