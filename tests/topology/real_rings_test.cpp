// SPDX-License-Identifier: Apache-2.0
// Rings of real machines, against those that were found by other means.
#include "real_machine.hpp"
#include "topology/rings/ring_search.hpp"

namespace {

using real_machines::expectations;
using real_machines::Json;
using real_machines::Machine;

std::vector<std::string> machines_with(const char* fact) {
  std::vector<std::string> found;
  for (const auto& [name, machine] : expectations().items())
    if (machine["kind"] != "sysfs" && !machine["facts"].value(fact, Json()).is_null())
      found.push_back(name);
  return found;
}

class RealRing : public Machine {
 protected:
  /// In the order of the facts.
  std::vector<coll::NodeId> gpus() {
    return facts.contains("gpus") && facts["gpus"].is_array() && facts["gpus"][0].contains("bus")
               ? by_bus(facts["gpus"], coll::NodeKind::gpu)
               : topology.all(coll::NodeKind::gpu);
  }
};

TEST_P(RealRing, HasAsFewBadHopsAsCanBe) {
  const auto members = gpus();
  const coll::PairTable distances = distance_table(topology, members);
  const coll::Ring ring = best_ring(distances);
  ASSERT_EQ(ring.size(), members.size());
  std::map<std::string, int> hops;
  for (std::size_t i = 0; i < ring.size(); ++i)
    ++hops[std::string(
        name_of(static_cast<coll::Distance>(distances.at(ring[i], ring[(i + 1) % ring.size()]))))];
  EXPECT_EQ(Json(hops), facts["ring"]["hops_by_class"]);
}

class RealRings : public RealRing {};

TEST_P(RealRings, AreAsManyAsWereFoundElsewhere) {
  const coll::RingPacking packing = pack_rings(link_table(topology, gpus()));
  const Json& wanted = facts["ring_packing"];
  EXPECT_EQ(packing.bound, wanted["max_rings_upper_bound"].get<int>());
  EXPECT_EQ(static_cast<int>(packing.rings.size()), wanted["rings_found"].get<int>());
  EXPECT_EQ(packing.optimal, wanted["proved_optimal"].get<bool>());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealRing);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealRings);
INSTANTIATE_TEST_SUITE_P(All, RealRing, testing::ValuesIn(machines_with("ring")),
                         real_machines::test_name);
INSTANTIATE_TEST_SUITE_P(All, RealRings, testing::ValuesIn(machines_with("ring_packing")),
                         real_machines::test_name);

TEST(RealRings, AreThere) {
  if (expectations().empty())
    GTEST_SKIP() << "no descriptions of real machines in " << real_machines::kFolder;
  EXPECT_FALSE(machines_with("ring").empty());
}

}  // namespace
