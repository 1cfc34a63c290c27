// SPDX-License-Identifier: Apache-2.0
// All-gather of shards beats broadcast from an owner: each rank's link carries an N-th of the
// bytes.
#include "offload/unit_fetch.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace training::test {
namespace unit_fetch_test {

using collectives::Communicator;

TEST(UnitFetch, AllGatherDividesTheBytesAmongTheLinks) {
  constexpr int kRanks = 4, kOwner = 2;
  constexpr std::size_t kUnit = 4096, kPart = kUnit / kRanks;
  std::vector<float> unit(kUnit);
  for (std::size_t i = 0; i < kUnit; ++i) unit[i] = static_cast<float>(i);
  coll_unique_id_t id{};
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      auto joined = Communicator::join(id, kRanks, rank);
      ASSERT_TRUE(joined) << joined.error().text;
      std::vector<float> device(kUnit);
      DeviceLink broadcast, gather;
      const auto own = std::span(unit).subspan(static_cast<std::size_t>(rank) * kPart, kPart);
      fetch_by_broadcast(*joined, broadcast, kOwner, unit, device);
      EXPECT_EQ(device, unit);
      EXPECT_EQ(broadcast.bytes(DeviceLink::Way::to_device), rank == kOwner ? kUnit * 4 : 0);
      device.assign(kUnit, 0);
      fetch_by_all_gather(*joined, gather, own, device);
      EXPECT_EQ(device, unit);
      EXPECT_EQ(gather.bytes(DeviceLink::Way::to_device), kUnit * 4 / kRanks);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace unit_fetch_test
}  // namespace training::test
