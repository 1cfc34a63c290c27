// SPDX-License-Identifier: Apache-2.0
// The suite of connections that write messages to where their receiver wants them.
#pragma once
#include "transports/conformance/lending_conformance.hpp"

namespace coll::test {

/// Of messages that are long enough to land, in the backend's memory.
class LandingConformance : public TransportConformance {};

/// A pair whose second rank expects. A word each way: who has received knows what was told before.
class LandingPair : public Pair {
 public:
  explicit LandingPair(std::uint32_t credits = 4)
      : Pair(::testing::TestWithParam<Backend>::GetParam(), kLoanBytes, credits) {
    ready = ready && ends[1]->landing() != nullptr && acquaint(*this);
  }
  Landing& landing() { return *ends[1]->landing(); }
  /// The peer knows of all that was expected.
  void tell() {
    EXPECT_EQ(ends[1]->peek(1, 0), nullptr);
    std::byte word{};
    EXPECT_TRUE(drive([&] { return ends[1]->send(&word, 1, 0); }));
    EXPECT_TRUE(drive([&] { return ends[0]->receive(&word, 1, 0); }));
  }
  void send(const Payload& data, std::uint64_t digest) {
    ASSERT_TRUE(drive([&] { return ends[0]->send(data.data(), data.size(), digest); }));
    ASSERT_TRUE(drive([&] { return all_flushed(*ends[0]); }));
  }
  /// Sends if the connection still does.
  void send_in_vain(std::uint64_t digest) {
    const Payload data = filled(1);
    for (int turn = 0; turn < 100; ++turn) {
      (void)ends[0]->send(data.data(), data.size(), digest);
      nudge(*ends[0]);
      nudge(*ends[1]);
    }
  }
  const std::byte* peek(std::size_t bytes, std::uint64_t digest) {
    const std::byte* place = nullptr;
    EXPECT_TRUE(drive([&] { return (place = ends[1]->peek(bytes, digest)) != nullptr; }));
    return place;
  }
};

TEST_P(LandingConformance, AMessageIsWrittenToWhereItIsWanted) {
  LandingPair pair;
  ASSERT_TRUE(pair.ready);
  for (int round = 1; round < 20; ++round) {
    Payload wanted = filled(0), lent = filled(round);
    pair.landing().expect(pair.landing().next(), wanted.data(), wanted.size());
    pair.tell();
    if (round % 2 == 0) {
      ASSERT_TRUE(pair.drive([&] { return give(*pair.ends[0], lent, 1); }));
    } else {
      pair.send(lent, 1);
    }
    ASSERT_EQ(pair.peek(wanted.size(), 1), wanted.data()) << "round " << round;
    EXPECT_EQ(wanted, filled(round));
    if (round % 3 == 0) {
      pair.ends[1]->release();
    } else {
      EXPECT_TRUE(pair.ends[1]->receive(wanted.data(), wanted.size(), 1));
    }
    EXPECT_EQ(wanted, filled(round));
    EXPECT_TRUE(pair.drive([&] { return all_flushed(*pair.ends[0]); }));
  }
}

/// A hint that comes too late is none.
TEST_P(LandingConformance, AMessageThatWasSentBeforeGoesToASlot) {
  LandingPair pair;
  ASSERT_TRUE(pair.ready);
  pair.send(filled(1), 1);
  Payload wanted = filled(2);
  pair.landing().expect(pair.landing().next(), wanted.data(), wanted.size());
  const std::byte* const place = pair.peek(wanted.size(), 1);
  EXPECT_NE(place, wanted.data());
  EXPECT_EQ(std::count(place, place + wanted.size(), std::byte{1}),
            static_cast<std::ptrdiff_t>(wanted.size()));
  pair.ends[1]->release();
  // The next one is not mistaken for it.
  pair.send(filled(3), 2);
  EXPECT_NE(pair.peek(wanted.size(), 2), wanted.data());
}

/// Also where far more are told of than may be under way, and only some messages are expected.
TEST_P(LandingConformance, MessagesFarAheadLandWhenTheirTurnComes) {
  LandingPair pair(2);
  ASSERT_TRUE(pair.ready);
  constexpr int kFar = 40;
  std::vector<Payload> wanted(kFar, filled(0));
  const std::uint64_t first = pair.landing().next();
  for (std::uint64_t i = 0; i < kFar; ++i) {
    if (i % 5 == 3) continue;
    Payload& place = wanted[i];
    pair.landing().expect(first + i, place.data(), place.size());
    pair.landing().expect(first + i, nullptr, place.size());  // known already
  }
  pair.tell();
  int landed = 0;
  for (int i = 0; i < kFar; ++i) {
    pair.send(filled(i), 1);
    Payload& place = wanted[static_cast<std::size_t>(i)];
    const std::byte* const there = pair.peek(place.size(), 1);
    ASSERT_EQ(*there, static_cast<std::byte>(i));
    if (there == place.data()) {
      ++landed;
      EXPECT_EQ(place, filled(i));
    }
    EXPECT_TRUE(i % 5 != 3 || there != place.data());
    pair.ends[1]->release();
    pair.tell();
  }
  EXPECT_EQ(landed, kFar - kFar / 5);
}

/// A message of another length is a mismatch, and nothing is written beyond the place.
TEST_P(LandingConformance, AMessageOfAnotherLengthDoesNotLand) {
  for (const bool longer : {false, true}) {
    LandingPair pair;
    ASSERT_TRUE(pair.ready);
    Payload wanted = filled(2);
    const std::size_t half = wanted.size() / 2;
    pair.landing().expect(pair.landing().next(), wanted.data(), half);
    pair.tell();
    pair.send(filled(1, longer ? 2 * half : half - 64), 1);
    EXPECT_TRUE(pair.drive([&] {
      EXPECT_EQ(pair.ends[1]->peek(half, 1), nullptr);
      return !pair.ends[1]->status().ok();
    }));
    EXPECT_EQ(pair.ends[1]->status().code(), Code::mismatch) << pair.ends[1]->status().text();
    EXPECT_EQ(
        std::count(wanted.begin() + static_cast<std::ptrdiff_t>(half), wanted.end(), std::byte{2}),
        static_cast<std::ptrdiff_t>(half));
  }
}

TEST_P(LandingConformance, MemoryOfACallThatHasFailedIsWrittenNoMore) {
  for (const bool expects : {false, true}) {
    LandingPair pair;
    ASSERT_TRUE(pair.ready);
    Payload wanted = filled(2);
    if (expects) {
      pair.landing().expect(pair.landing().next(), wanted.data(), wanted.size());
      pair.tell();
    }
    pair.landing().cancel();
    EXPECT_EQ(pair.ends[1]->status().ok(), !expects);
    std::ranges::fill(wanted, std::byte{3});
    pair.send_in_vain(1);
    EXPECT_EQ(wanted, filled(3));
    if (expects) continue;
    EXPECT_TRUE(pair.drive([&] { return pair.ends[1]->receive(wanted.data(), wanted.size(), 1); }));
    EXPECT_EQ(wanted, filled(1));
  }
}

/// A call may fail on a connection that has failed before.
TEST_P(LandingConformance, AConnectionThatHasFailedWritesNoMoreOnceItIsCancelled) {
  LandingPair pair;
  ASSERT_TRUE(pair.ready);
  Payload wanted = filled(2);
  const std::uint64_t next = pair.landing().next();
  pair.landing().expect(next + 1, wanted.data(), wanted.size());
  pair.tell();
  pair.send(filled(1, 64), 1);
  EXPECT_TRUE(pair.drive([&] {
    EXPECT_EQ(pair.ends[1]->peek(64, 2), nullptr);
    return pair.ends[1]->status().code() == Code::mismatch;
  }));
  pair.landing().cancel();
  std::ranges::fill(wanted, std::byte{3});
  pair.send_in_vain(2);
  EXPECT_EQ(wanted, filled(3));
  EXPECT_EQ(pair.ends[1]->status().code(), Code::mismatch) << "the first failure stays";
}

TEST_P(LandingConformance, SomeOfManyMessagesLandAndAllAreRight) {
  LandingPair pair;
  ASSERT_TRUE(pair.ready);
  const std::uint64_t seed = test_seed();
  Exchange a(*pair.ends[0], seed, ~seed, GetParam().messages);
  Exchange b(*pair.ends[1], ~seed, seed, GetParam().messages);
  EXPECT_TRUE(eventually([&] {
    a.step();
    b.step();
    return a.done() && b.done();
  }));
  EXPECT_TRUE(a.good() && b.good());
  EXPECT_GT(a.landings() + b.landings(), 0);
}

}  // namespace coll::test
