// SPDX-License-Identifier: Apache-2.0
// Clusters of equal hosts, where a single host stands for all.
#include "planner/networks/regular_cluster.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "planner/planner.hpp"
#include "topology/read/read_topology.hpp"

namespace coll {
namespace {

using enum Collective;

constexpr const char* kHosts = "gpu:4 nvlink:switchx12@25GB nic:4@200G pcie:4x16";

Topology hosts(int count) {
  Result<Topology> read = read_synthetic("host:" + std::to_string(count) + " " + kHosts, "a line");
  EXPECT_TRUE(read.ok()) << read.status().text();
  return *read;
}

RegularCluster cluster() {
  const Result<RegularCluster> made = regular_cluster(hosts(2));
  EXPECT_TRUE(made.ok()) << made.status().text();
  return *made;
}

TEST(RegularCluster, OneHostStandsForAll) {
  const RegularCluster of = cluster();
  for (const Rank count : {2, 4, 8}) {
    const Topology topology = hosts(count);
    const Result<Placement> placement = place_ranks(topology, 4 * count);
    ASSERT_TRUE(placement.ok());
    World whole = machine_world(topology, *placement);
    EXPECT_EQ(whole.layout, world_of(of, count).layout);
    for (const char* name : {"ring", "balanced_trees", "hierarchical_ring", "hierarchical_halving",
                             "recursive_halving_doubling", "recursive_doubling"}) {
      for (const double bytes : {1 << 10, 1 << 20, 1 << 26}) {
        const auto folded = predict(of, count, *find_algorithm(name), all_reduce, bytes);
        ASSERT_TRUE(folded.has_value()) << name;
        const CollectiveSpec spec{all_reduce, 4 * count, 0};
        double us = std::numeric_limits<double>::infinity();
        for (const Plan& plan : plans_with(whole, spec, *find_algorithm(name), {},
                                           size_class(static_cast<std::uint64_t>(bytes)))) {
          us = std::min(us, predict(whole, whole.costs(), plan, bytes).us);
        }
        EXPECT_NEAR(folded->us, us, 0.05 * us)
            << name << ", " << count << " hosts, " << bytes << " bytes";
      }
    }
  }
}

TEST(RegularCluster, SeesWhatIsAlikeForAllHosts) {
  const Layout layout = Layout::flat(64);
  const auto looks = [&](const char* name, Collective collective, Symmetry symmetry) {
    const auto build = [&](Rank rank) {
      return find_algorithm(name)->build({collective, 64, 0}, layout, rank);
    };
    return looks_symmetric(build, 64, symmetry);
  };
  constexpr Symmetry kShift{Symmetry::Kind::shift, 8}, kXor{Symmetry::Kind::exclusive_or, 8};
  EXPECT_TRUE(looks("ring", all_reduce, kShift));
  EXPECT_FALSE(looks("ring", all_reduce, kXor));
  EXPECT_TRUE(looks("recursive_doubling", all_reduce, kXor));
  EXPECT_FALSE(looks("recursive_doubling", all_reduce, kShift));
  EXPECT_FALSE(looks("binomial", all_reduce, kShift));
  EXPECT_FALSE(looks("binomial", all_reduce, kXor));
}

TEST(RegularCluster, RingsNeedTheirLatencyAndTreesDoNot) {
  const RegularCluster of = cluster();
  const auto us = [&](const char* name, Rank count, double bytes) {
    const auto prediction = predict(of, count, *find_algorithm(name), all_reduce, bytes);
    EXPECT_TRUE(prediction.has_value()) << name;
    return prediction ? prediction->us : 0;
  };
  // Twice the hosts: twice the latency of a ring, one round more of recursive doubling.
  EXPECT_NEAR(us("ring", 2048, 8) / us("ring", 1024, 8), 2, 0.05);
  EXPECT_LT(us("recursive_doubling", 2048, 8) / us("recursive_doubling", 1024, 8), 1.2);
  EXPECT_LT(us("balanced_trees", 256, 8) / us("balanced_trees", 128, 8), 1.2);
  EXPECT_LT(us("balanced_trees", 64, 1 << 20), us("ring", 64, 1 << 20) / 3);
}

/// What branch and bound leaves out could not have been the fastest.
TEST(RegularCluster, FindsTheFastestWithoutSimulatingAll) {
  const RegularCluster of = cluster();
  int possible = 0, simulated = 0;
  for (const Collective collective :
       {all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather, barrier}) {
    for (const Rank hosts : {1, 2, 3, 8}) {
      for (const double bytes : {0, 1 << 10, 100'000, 1 << 20, 64 << 20}) {
        SCOPED_TRACE(std::string(name_of(collective)) + ", " + std::to_string(hosts) + " hosts, " +
                     std::to_string(bytes) + " bytes");
        double least = std::numeric_limits<double>::infinity();
        for (const Algorithm& algorithm : algorithms()) {
          const auto prediction = predict(of, hosts, algorithm, collective, bytes);
          if (!prediction || algorithm.for_order_only) continue;
          ++possible;
          least = std::min(least, prediction->us);
          EXPECT_LE(least_us(of, hosts, algorithm, collective, bytes), prediction->us)
              << algorithm.name;
        }
        const auto found = fastest(of, hosts, collective, bytes);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->prediction.us, least);
        simulated += found->simulated;
      }
    }
  }
  EXPECT_LT(5 * simulated, 2 * possible) << "too little is left out";
}

/// Of 65,536 ranks that are not alike, no schedule has to be kept to leave an algorithm out.
TEST(RegularCluster, FindsTheFastestOfManyRanks) {
  const auto found = fastest(cluster(), 16384, all_reduce, 1 << 20);
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(found->simulated, 3);
}

/// The cut decides between one long message and many short ones, so that no size and no number of
/// ranks is a cliff.
TEST(RegularCluster, TimesGrowWithoutCliffs) {
  const RegularCluster of = cluster();
  const auto us = [&](const char* name, Rank hosts, double bytes) {
    const auto prediction = predict(of, hosts, *find_algorithm(name), all_reduce, bytes);
    EXPECT_TRUE(prediction.has_value()) << name;
    return prediction ? prediction->us : 0;
  };
  for (const char* name : {"ring", "recursive_doubling"}) {
    for (double bytes = 16 << 10; bytes <= 64 << 20; bytes *= 2) {
      for (Rank hosts = 2; hosts <= 64; hosts *= 2) {
        SCOPED_TRACE(std::string(name) + " of " + std::to_string(bytes) + " bytes on " +
                     std::to_string(hosts) + " hosts");
        const double here = us(name, hosts, bytes);
        const double more = us(name, hosts, 2 * bytes), farther = us(name, 2 * hosts, bytes);
        EXPECT_GT(more, 0.9 * here);
        EXPECT_LT(more, 2.5 * here);
        EXPECT_GT(farther, 0.8 * here);
        EXPECT_LT(farther, 2.2 * here);
      }
    }
  }
}

TEST(RegularCluster, SaysWhatItNeeds) {
  const Result<Topology> one = read_synthetic(kHosts, "one host");
  ASSERT_TRUE(one.ok());
  const Result<RegularCluster> made = regular_cluster(*one);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().text().find("host:2"), std::string::npos) << made.status().text();
  Topology unequal = hosts(2);
  for (Node& node : unequal.nodes) {
    if (node.kind != NodeKind::nic) continue;
    node.ports[0].gbits_per_s = 10;
    break;
  }
  EXPECT_FALSE(regular_cluster(unequal).ok());
}

}  // namespace
}  // namespace coll
