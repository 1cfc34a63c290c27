// SPDX-License-Identifier: Apache-2.0
// Rings that are looked for, against all there are.
#include "topology/rings/ring_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "test_seed.hpp"

namespace coll {
namespace {

using Counts = std::array<int, 16>;

/// Hops of each class, the worst first.
Counts hops_of(const PairTable& classes, const Ring& ring) {
  Counts counts{};
  for (std::size_t i = 0; i < ring.size(); ++i)
    ++counts[15 - static_cast<std::size_t>(classes.at(ring[i], ring[(i + 1) % ring.size()]))];
  return counts;
}

void expect_ring(const Ring& ring, int members) {
  Ring sorted = ring, all(static_cast<std::size_t>(members));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all) << "each member once";
  ASSERT_FALSE(ring.empty());
  EXPECT_EQ(ring[0], 0);
}

void expect_packing(const PairTable& links, const RingPacking& packing) {
  PairTable left = links;
  for (const Ring& ring : packing.rings) {
    expect_ring(ring, links.members());
    for (std::size_t i = 0; i < ring.size(); ++i)
      EXPECT_GE(--left.at(ring[i], ring[(i + 1) % ring.size()]), 0) << "a link is used twice";
  }
  EXPECT_LE(packing.rings.size(), static_cast<std::size_t>(packing.bound));
}

PairTable mesh(int members, int links) {
  PairTable table(members);
  for (int a = 0; a < members; ++a)
    for (int b = 0; b < members; ++b) table.at(a, b) = a == b ? 0 : links;
  return table;
}

/// The most rings without a common link, by trying all sets of all rings.
std::size_t most_rings(PairTable links, std::size_t from, const std::vector<Ring>& all) {
  std::size_t most = 0;
  for (std::size_t i = from; i < all.size(); ++i) {
    const Ring& ring = all[i];
    bool fits = true;
    for (std::size_t k = 0; k < ring.size(); ++k)
      fits = fits && links.at(ring[k], ring[(k + 1) % ring.size()]) > 0;
    if (!fits) continue;
    PairTable rest = links;
    for (std::size_t k = 0; k < ring.size(); ++k) --rest.at(ring[k], ring[(k + 1) % ring.size()]);
    most = std::max(most, 1 + most_rings(rest, i, all));
  }
  return most;
}

TEST(BestRing, IsTheBestOfAll) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 200; ++round) {
    const int members = 2 + static_cast<int>(random() % 6);
    PairTable classes(members);
    for (int a = 0; a < members; ++a)
      for (int b = 0; b < members; ++b) classes.at(a, b) = static_cast<int>(random() % 4);
    const Ring found = best_ring(classes);
    expect_ring(found, members);
    Ring each(static_cast<std::size_t>(members));
    std::iota(each.begin(), each.end(), 0);
    Counts best = hops_of(classes, each);
    do best = std::min(best, hops_of(classes, each));
    while (std::next_permutation(each.begin() + 1, each.end()));
    EXPECT_EQ(hops_of(classes, found), best);
  }
}

TEST(BestRing, OfFewAndOfMany) {
  EXPECT_EQ(best_ring(PairTable(0)), Ring{});
  EXPECT_EQ(best_ring(PairTable(1)), Ring{0});
  EXPECT_EQ(best_ring(PairTable(2)), (Ring{0, 1}));
  // Eight hosts of eight whose numbers are scattered: a ring needs eight ways between hosts.
  constexpr int kHosts = 8, kEach = 8, kAll = kHosts * kEach;
  PairTable classes(kAll);
  for (int a = 0; a < kAll; ++a)
    for (int b = 0; b < kAll; ++b) classes.at(a, b) = a % kHosts == b % kHosts ? 1 : 7;
  const Ring ring = best_ring(classes);
  expect_ring(ring, kAll);
  EXPECT_EQ(hops_of(classes, ring)[15 - 7], kHosts);
}

TEST(PackRings, AreAsManyAsThereCanBe) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 100; ++round) {
    const int members = 2 + static_cast<int>(random() % 4);
    PairTable links(members);
    for (int a = 0; a < members; ++a)
      for (int b = 0; b < members; ++b)
        links.at(a, b) = a == b ? 0 : static_cast<int>(random() % 3);
    const RingPacking packing = pack_rings(links);
    expect_packing(links, packing);
    Ring each(static_cast<std::size_t>(members));
    std::iota(each.begin(), each.end(), 0);
    std::vector<Ring> all;
    do all.push_back(each);
    while (std::next_permutation(each.begin() + 1, each.end()));
    EXPECT_TRUE(packing.optimal);
    EXPECT_EQ(packing.rings.size(), most_rings(links, 0, all));
  }
}

TEST(PackRings, FillAFullMesh) {
  // A full mesh of n falls into n - 1 rings, but for n = 4 and n = 6 (Tillson 1980, "A Hamiltonian
  // decomposition of K*_2m, 2m >= 8").
  for (const auto& [members, rings] : {std::pair{3, 2}, {4, 2}, {5, 4}, {7, 6}, {8, 7}}) {
    const RingPacking packing = pack_rings(mesh(members, 1));
    expect_packing(mesh(members, 1), packing);
    EXPECT_EQ(packing.rings.size(), static_cast<std::size_t>(rings)) << members;
    EXPECT_TRUE(packing.optimal) << members;
  }
  EXPECT_EQ(pack_rings(mesh(4, 2)).rings.size(), 6U);
}

/// Two full meshes with one pair of links between them: many ways, and no ring.
PairTable two_meshes(int each) {
  PairTable links(2 * each);
  for (int a = 0; a < 2 * each; ++a)
    for (int b = 0; b < 2 * each; ++b) links.at(a, b) = a != b && a / each == b / each ? 1 : 0;
  links.at(0, each) = links.at(each, 0) = 1;
  return links;
}

TEST(PackRings, EndWithTheirBudgetAndSaySo) {
  SearchBudget budget{.left = 20'000'000, .spent = false};
  const RingPacking none = pack_rings(two_meshes(20), budget);
  EXPECT_TRUE(none.rings.empty());
  EXPECT_FALSE(none.optimal);
  EXPECT_TRUE(budget.spent);
  EXPECT_GT(none.bound, 0);
  // With little to spend it still has whole rings.
  for (const std::int64_t looks : {0, 10, 1000, 100'000}) {
    SearchBudget little{.left = looks, .spent = false};
    const RingPacking some = pack_rings(mesh(12, 2), little);
    expect_packing(mesh(12, 2), some);
    EXPECT_TRUE(some.optimal != little.spent) << looks;
  }
  // Parallel links in any number.
  SearchBudget parallel;
  const RingPacking many = pack_rings(mesh(5, kMostParallel / 4), parallel);
  EXPECT_EQ(many.rings.size(), kMostPacked);
  EXPECT_TRUE(parallel.spent);
  EXPECT_EQ(many.bound, kMostParallel);
}

TEST(BestRing, EndsWithItsBudgetAndSaysSo) {
  PairTable classes(200);
  std::mt19937_64 random(test::test_seed());
  for (int a = 0; a < 200; ++a)
    for (int b = 0; b < 200; ++b) classes.at(a, b) = static_cast<int>(random() % 9);
  Counts before{};
  for (const std::int64_t looks : {0, 100'000, 1'000'000}) {
    SearchBudget little{.left = looks, .spent = false};
    const Ring ring = best_ring(classes, little);
    expect_ring(ring, 200);
    EXPECT_TRUE(little.spent);
    if (looks > 0) {
      EXPECT_LE(hops_of(classes, ring), before) << "more looks are no worse";
    }
    before = hops_of(classes, ring);
  }
}

TEST(PackRings, OfAChainAreNone) {
  PairTable links(4);
  for (int i = 0; i < 3; ++i) links.at(i, i + 1) = links.at(i + 1, i) = 2;
  const RingPacking packing = pack_rings(links);
  EXPECT_TRUE(packing.rings.empty());
  EXPECT_EQ(packing.bound, 2);
  EXPECT_TRUE(packing.optimal);
  EXPECT_TRUE(pack_rings(PairTable(1)).rings.empty());
}

}  // namespace
}  // namespace coll
