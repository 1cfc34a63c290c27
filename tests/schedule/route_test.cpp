// SPDX-License-Identifier: Apache-2.0
// What a simulated message costs on its way.
#include <gtest/gtest.h>

#include "simulated.hpp"

namespace coll {
namespace {

TEST(Simulate, ALinkIsBusyWithAMessageBesidesItsBytes) {
  constexpr double kMessage = 2, kSlice = 8192, kSlices = 64;
  Network network = ports(2);
  for (Network::Link& link : network.links) link.message_us = kMessage;
  const double us = simulated_us(
      built("chain", Collective::broadcast, 2), network,
      {.bytes = kSlices * kSlice, .slice_bytes = kSlice, .credits = 64, .effort = 1e9});
  EXPECT_NEAR(us, kAlpha + kSlices * (kMessage + kSlice * kBeta), 1e-6);
}

TEST(Simulate, AMessageThatIsNotInItsNoticeCostsItsReceiverMore) {
  constexpr double kLong = 7, kInline = 256;
  Network network;
  network.route = [](Rank, Rank) {
    return Route{.alpha_us = kAlpha, .inline_bytes = kInline, .long_us = kLong};
  };
  const auto schedules = built("chain", Collective::broadcast, 2);
  EXPECT_NEAR(simulated_us(schedules, network, {.bytes = kInline}), kAlpha, 1e-9);
  EXPECT_NEAR(simulated_us(schedules, network, {.bytes = 2 * kInline}), kAlpha + kLong, 1e-9);
}

TEST(Simulate, TheFirstBytesAndTheSecondLineCostMore) {
  constexpr double kLine = 48, kLineUs = 3, kInline = 112, kPage = 4096, kPageUs = 1e-3;
  Network network;
  network.route = [](Rank, Rank) {
    return Route{.alpha_us = kAlpha,
                 .inline_bytes = kInline,
                 .line_bytes = kLine,
                 .line_us = kLineUs,
                 .page_bytes = kPage,
                 .page_us_per_byte = kPageUs};
  };
  const auto schedules = built("chain", Collective::broadcast, 2);
  const auto us = [&](double bytes) { return simulated_us(schedules, network, {.bytes = bytes}); };
  EXPECT_NEAR(us(kLine), kAlpha, 1e-9);
  EXPECT_NEAR(us(kLine + 1), kAlpha + kLineUs, 1e-9);
  EXPECT_NEAR(us(kInline), kAlpha + kLineUs, 1e-9);
  EXPECT_NEAR(us(kInline + 1), kAlpha + 2 * (kInline + 1) * kPageUs, 1e-9);
  EXPECT_NEAR(us(kPage), kAlpha + 2 * kPage * kPageUs, 1e-9);
  EXPECT_NEAR(us(3 * kPage), kAlpha + 2 * kPage * kPageUs, 1e-9);
}

TEST(Simulate, WhatIsLentCostsItsSenderNothingButTime) {
  constexpr double kSend = 2, kLent = 5;
  Network network;
  network.route = [](Rank, Rank) {
    return Route{.alpha_us = kAlpha,
                 .send_us = kSend,
                 .send_us_per_byte = kBeta,
                 .receive_us_per_byte = kBeta,
                 .lent_bytes = kBytes,
                 .lent_us = kLent,
                 .lent_us_per_byte = 3 * kBeta};
  };
  const auto schedules = built("chain", Collective::broadcast, 2);
  const Load less{.bytes = kBytes - 1, .one_buffer = true};
  EXPECT_NEAR(simulated_us(schedules, network, less), kSend + kAlpha + 2 * (kBytes - 1) * kBeta,
              1e-6);
  const Load lent{.bytes = kBytes, .in_a_row = true, .one_buffer = true};
  const Result<Simulated> result = simulate(schedules, network, lent);
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->us, kSend + kAlpha + kLent + 3 * kBytes * kBeta, 1e-6);
  EXPECT_NEAR(result->each_us, result->us, 1e-6);  // its call ends when the receiver has it
}

TEST(Simulate, WhatSeveralGetIsCopiedOnceWhereItIsStaged) {
  constexpr Rank kRanks = 5;
  Network network;
  network.route = [](Rank, Rank) { return Route{.send_us = 1, .send_us_per_byte = kBeta}; };
  const auto linear = built("linear", Collective::broadcast, kRanks);
  const Load load{.bytes = kBytes, .one_buffer = true};
  EXPECT_NEAR(simulated_us(linear, network, load), (kRanks - 1) * (1 + kBytes * kBeta), 1e-6);
  network.staged_bytes = (kRanks - 1) * kBytes;
  EXPECT_NEAR(simulated_us(linear, network, load), kRanks - 1 + kBytes * kBeta, 1e-6);
  network.staged_bytes += 1;
  EXPECT_NEAR(simulated_us(linear, network, load), (kRanks - 1) * (1 + kBytes * kBeta), 1e-6);
}

TEST(Simulate, ARootKeepsItsDataWhereItIsInOneBuffer) {
  Network network;
  network.route = [](Rank, Rank) { return Route{.alpha_us = kAlpha}; };
  network.copy_us_per_byte = kBeta;
  const auto schedules = built("chain", Collective::broadcast, 2);
  const Load two{.bytes = kBytes}, one{.bytes = kBytes, .one_buffer = true};
  EXPECT_NEAR(simulated_us(schedules, network, two), kAlpha + kBytes * kBeta, 1e-6);
  EXPECT_NEAR(simulated_us(schedules, network, one), kAlpha, 1e-6);
}

}  // namespace
}  // namespace coll
