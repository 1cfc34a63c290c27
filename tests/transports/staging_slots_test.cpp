// SPDX-License-Identifier: Apache-2.0
// The pinned slots of a staging connection: messages that land in them, and no memory for them.
#include "device_ends.hpp"

namespace coll::test {
namespace {

/// A message that may land is not copied out of the inner connection.
TEST(StagingPort, MessagesLandInTheSlotsThatTheDeviceHasFreed) {
  constexpr std::size_t kBytes = 256;
  Pair pair(fake({.least_landing = kBytes}), kBytes);
  ASSERT_TRUE(pair.ready);
  StagingConnection staging(std::move(pair.ends[0]), context_of_device(0), 2);
  DevicePort* const port = staging.device_port();
  ASSERT_NE(port, nullptr);
  for (const std::uint32_t slot : {0U, 1U}) port->will_receive(slot, kBytes, 1);
  EXPECT_FALSE(port->progress());
  for (const std::uint32_t slot : {0U, 1U}) {
    const std::vector<std::byte> data(kBytes, static_cast<std::byte>(slot + 1));
    ASSERT_TRUE(pair.ends[1]->send(data.data(), kBytes, 1));
    const auto* const there = reinterpret_cast<const std::byte*>(port->receiving().slot(slot));
    EXPECT_TRUE(std::equal(data.begin(), data.end(), there)) << "slot " << slot;
  }
  EXPECT_TRUE(port->progress());
  EXPECT_TRUE(port->settled());
}

/// Without room for slots the connection fails as a whole.
TEST(StagingPort, FailsWithoutMemory) {
  Pair pair(shm(), 8192, 2);
  ASSERT_TRUE(pair.ready);
  StagingConnection none(std::move(pair.ends[0]), context_of_device(0), 1U << 30);
  StagingConnection unpinned(std::move(pair.ends[1]), nullptr, 2);
  for (Connection* connection :
       {static_cast<Connection*>(&none), static_cast<Connection*>(&unpinned)}) {
    std::byte byte{};
    ASSERT_TRUE(connection->send(&byte, 1, 1));
    EXPECT_EQ(connection->device_port(), nullptr);
    EXPECT_FALSE(connection->status().ok());
    EXPECT_EQ(connection->device_port(), nullptr);
    EXPECT_FALSE(connection->send(&byte, 1, 1));
    EXPECT_FALSE(connection->receive(&byte, 1, 1));
    EXPECT_EQ(connection->acquire(1), nullptr);
    EXPECT_EQ(connection->peek(1, 1), nullptr);
  }
  EXPECT_EQ(none.status().code(), Code::out_of_resources);
}

}  // namespace
}  // namespace coll::test
