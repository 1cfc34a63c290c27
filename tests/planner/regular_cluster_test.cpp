// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: clusters of equal hosts, one of which stands for all.
#include "planner/regular_cluster.hpp"

#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "topology/read_topology.hpp"

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
    whole.layout.rings = world_of(of, count).layout.rings;
    for (const char* name : {"ring", "hierarchical_ring", "hierarchical_halving",
                             "recursive_halving_doubling", "recursive_doubling"}) {
      for (const double bytes : {1 << 10, 1 << 20, 1 << 26}) {
        const auto folded = predict(of, count, *find_algorithm(name), all_reduce, bytes);
        ASSERT_TRUE(folded.has_value()) << name;
        whole.algorithm = name;
        const Result<Plan> plan = make_plan(whole, {all_reduce, 4 * count, 0},
                                            size_class(static_cast<std::uint64_t>(bytes)));
        ASSERT_TRUE(plan.ok());
        EXPECT_NEAR(folded->us, plan->predicted_us, 0.05 * plan->predicted_us)
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
  EXPECT_LT(us("hierarchical_ring", 64, 1 << 30), us("ring", 64, 1 << 30));
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
