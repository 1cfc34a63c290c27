// SPDX-License-Identifier: Apache-2.0
// The conformance suite over emulated devices, and what a message costs there.
#include <gmock/gmock.h>

#include "transports/conformance/landing_conformance.hpp"
#include "transports/verbs/on_emulated.hpp"

namespace coll::test {
namespace {

INSTANTIATE_TEST_SUITE_P(EmulatedVerbs, TransportConformance,
                         testing::Values(on_emulated("one_port", 1, {}),
                                         on_emulated("two_ports_of_two_pairs", 2, {.pairs = 2}),
                                         lending(on_emulated("lending", 2, {}))),
                         name_of_backend);
INSTANTIATE_TEST_SUITE_P(EmulatedVerbs, LandingConformance,
                         testing::Values(lending(on_emulated("one_port", 1, {})),
                                         lending(on_emulated("two_of_two", 2, {.pairs = 2}))),
                         name_of_backend);

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LendingConformance);

// --- what a message costs

TEST(VerbsCosts, AShortMessageIsOneWriteInOneDoorbellAndNeedsNoMemoryOfItsOwn) {
  Pair pair(on_emulated("costs", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  std::array<std::byte, 64> word{};
  const auto ping = [&](int from, std::uint64_t digest) {
    ASSERT_TRUE(
        pair.drive([&] { return pair.ends[from]->send(word.data(), word.size(), digest); }));
    ASSERT_TRUE(
        pair.drive([&] { return pair.ends[1 - from]->receive(word.data(), word.size(), digest); }));
  };
  ping(0, 1);
  ping(1, 1);
  const auto before = Fabric::now().counts();
  constexpr std::uint64_t kRounds = 100;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    ping(0, round);
    ping(1, round);
  }
  const auto after = Fabric::now().counts();
  EXPECT_EQ(after.writes - before.writes, 2 * kRounds);
  EXPECT_EQ(after.inline_writes - before.inline_writes, 2 * kRounds);
  EXPECT_EQ(after.sends, before.sends) << "the other direction's messages carry the credits";
  EXPECT_EQ(after.post_send_calls - before.post_send_calls, 2 * kRounds);
  EXPECT_LE(after.post_recv_calls - before.post_recv_calls, 2 * kRounds / 4 + 2)
      << "receives are posted in batches";
}

TEST(VerbsCosts, AStreamTellsOfItsCreditsHalfAsOftenAsItHasSlots) {
  Pair pair(on_emulated("stream", 1, {}), 4096, 8);
  ASSERT_TRUE(pair.ready);
  const auto before = Fabric::now().counts();
  const std::vector<std::byte> data(4096);
  std::vector<std::byte> got(data.size());
  constexpr std::uint64_t kRounds = 160;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(pair.drive([&] { return pair.ends[0]->send(data.data(), data.size(), round); }));
    ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), round); }));
  }
  const auto after = Fabric::now().counts();
  EXPECT_EQ(after.writes - before.writes, kRounds);
  EXPECT_EQ(after.sends - before.sends, kRounds / 4);
}

TEST(VerbsCosts, AMessageThatLandsIsTwoWritesInOneDoorbellAndItsPlaceIsToldWithOthers) {
  std::pmr::set_default_resource(RegisteredResource::of_process());
  constexpr std::uint64_t kRounds = 64, kTold = 8, kBytes = 64 << 10;
  for (const int ports : {1, 2}) {
    Pair pair(on_emulated("landing", ports, {}), kBytes);
    ASSERT_TRUE(pair.ready);
    const std::pmr::vector<std::byte> data(kBytes);
    std::pmr::vector<std::byte> wanted(kBytes);
    Landing& landing = *pair.ends[1]->landing();
    const auto before = Fabric::now().counts();
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      for (std::uint64_t i = 0; round % kTold == 0 && i < kTold; ++i)
        landing.expect(landing.next() + i, wanted.data(), wanted.size());
      ASSERT_EQ(pair.ends[1]->peek(kBytes, round), nullptr);
      ASSERT_TRUE(pair.drive([&] { return pair.ends[0]->send(data.data(), data.size(), round); }));
      ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->receive(wanted.data(), kBytes, round); }));
    }
    const auto after = Fabric::now().counts();
    EXPECT_EQ(after.writes - before.writes, 2 * kRounds + kRounds / kTold);
    EXPECT_EQ(after.post_send_calls - before.post_send_calls,
              kRounds + kRounds / kTold + after.sends - before.sends);
  }
  std::pmr::set_default_resource(nullptr);
}

/// A message that is alone tells when it has arrived, whatever is sent behind it.
TEST(VerbsCosts, PlacesThatAreToldBehindALoanAskForNothingMore) {
  std::pmr::set_default_resource(RegisteredResource::of_process());
  constexpr std::uint64_t kBytes = 64 << 10;
  {
    Pair pair(on_emulated("behind", 1, {}), kBytes);
    ASSERT_TRUE(pair.ready);
    const std::pmr::vector<std::byte> data(kBytes);
    std::pmr::vector<std::byte> wanted(kBytes);
    Connection& to = *pair.ends[0];
    Fabric::now().hold(0);
    const auto before = Fabric::now().counts();
    ASSERT_TRUE(to.lending()->lends(data.data(), kBytes, Fetch::never));
    ASSERT_TRUE(to.lending()->lend(data.data(), kBytes, 1));
    to.landing()->expect(to.landing()->next(), wanted.data(), kBytes);
    EXPECT_EQ(to.peek(kBytes, 1), nullptr);
    EXPECT_FALSE(all_flushed(to));
    EXPECT_EQ(Fabric::now().counts().writes - before.writes, 2U);
    Fabric::now().go_on(0);
    EXPECT_TRUE(pair.drive([&] { return all_flushed(to); }));
    to.landing()->cancel();
  }
  std::pmr::set_default_resource(nullptr);
}

// --- ports that are near

/// Two ports for each rank; of which rank 0 has only this one near.
Backend near_port(std::size_t near) {
  Backend backend = on_emulated("near", 2, {});
  backend.make = [near](const TransportSpec& spec) {
    auto rails = Fabric::now().rails({spec.rank, spec.rank + 2});
    if (spec.rank == 0) rails[1 - near].near = false;
    return VerbsTransport::make(spec, Fabric::now().table(), {}, rails);
  };
  return backend;
}

TEST(VerbsPorts, MessagesTakeThePortsThatAreNear) {
  for (const std::size_t near : {0U, 1U}) {
    Pair pair(near_port(near));
    ASSERT_TRUE(pair.ready);
    EXPECT_EQ(Fabric::now().pairs().size(), 2U) << "one at each end";
    EXPECT_EQ(pair.ranks.transports[0]->limits().gbytes_per_s, 12.5);
    EXPECT_EQ(pair.ranks.transports[1]->limits().gbytes_per_s, 25);
    const int far = near == 0 ? 2 : 0;
    Fabric::now().hold(far);
    std::array<std::byte, 8> word{};
    for (std::uint64_t round = 0; round < 4; ++round) {
      ASSERT_TRUE(pair.drive([&] { return pair.ends[0]->send(word.data(), word.size(), round); }));
      ASSERT_TRUE(
          pair.drive([&] { return pair.ends[1]->receive(word.data(), word.size(), round); }));
    }
    Fabric::now().go_on(far);
  }
}

}  // namespace
}  // namespace coll::test
