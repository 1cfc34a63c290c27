// SPDX-License-Identifier: Apache-2.0
// The part of the suite of connections that lend about payloads that outlive their call.
#pragma once
#include "transports/conformance/lending_conformance.hpp"

namespace coll::test {

/// What is kept by its lender keeps no call waiting, and goes on when a call fails.
TEST_P(LendingConformance, WhatIsKeptIsReadWheneverThePeerComes) {
  for (const bool peeks : {true, false}) {
    LendingPair pair;
    ASSERT_TRUE(pair.ready);
    if (!GetParam().lends) GTEST_SKIP() << "lends nothing";
    Connection& to = *pair.ends[0];
    Connection& from = *pair.ends[1];
    EXPECT_TRUE(to.lending()->all_read() && to.lending()->caught_up());
    const Payload kept = filled(1);
    const Payload lent = filled(2);
    const auto keep = [&](std::uint64_t digest) {
      return pair.soon([&] { return to.lending()->lend_kept(kept.data(), kept.size(), digest); });
    };
    ASSERT_TRUE(keep(1));
    EXPECT_TRUE(pair.drive([&] { return all_flushed(to); }));
    EXPECT_FALSE(to.lending()->all_read() || to.lending()->caught_up());
    to.lending()->withdraw();  // there is nothing
    // Three messages at once take as many credits.
    if (!pair.soon([&] { return give(to, lent, 2); }) || !keep(3))
      GTEST_SKIP() << "varies its credits";
    EXPECT_FALSE(all_flushed(to));
    Payload got = filled(3);
    const auto receive = [&](std::uint64_t digest) {
      return pair.drive([&] {
        if (!peeks) return from.receive(got.data(), got.size(), digest);
        const std::byte* place = from.peek(got.size(), digest);
        if (place == nullptr) return false;
        std::copy_n(place, got.size(), got.data());
        EXPECT_TRUE(from.lending()->intact());
        from.release();
        return true;
      });
    };
    if (peeks) {
      to.lending()->withdraw();
      ASSERT_TRUE(receive(1));
      EXPECT_EQ(got, kept);
      EXPECT_TRUE(pair.drive([&] {
        if (from.peek(got.size(), 2) != nullptr) from.lending()->intact();
        return !from.status().ok();
      }));
      EXPECT_FALSE(to.lending()->all_read());
    } else {
      ASSERT_TRUE(receive(1) && receive(2));
      EXPECT_TRUE(pair.drive([&] { return all_flushed(to); })) << "what is kept came later";
      EXPECT_FALSE(to.lending()->all_read() || to.lending()->caught_up());
      ASSERT_TRUE(receive(3));
      EXPECT_EQ(got, kept);
      EXPECT_TRUE(to.lending()->all_read() && to.lending()->caught_up());
      ASSERT_TRUE(keep(4));
      EXPECT_FALSE(to.lending()->all_read() || to.lending()->caught_up());
    }
    pair.ends[1].reset();
    EXPECT_TRUE(to.lending()->all_read()) << "nobody is there any more";
  }
}

TEST_P(LendingConformance, KnowsWhetherThePeerHasCaughtUp) {
  LendingPair pair;
  ASSERT_TRUE(pair.ready);
  if (!GetParam().lends) GTEST_SKIP() << "lends nothing";
  Connection& to = *pair.ends[0];
  Connection& from = *pair.ends[1];
  EXPECT_TRUE(to.lending()->caught_up());
  const Payload payload = filled(1);
  for (const bool keeps : {false, true, false}) {
    ASSERT_TRUE(pair.soon([&] {
      return keeps ? to.lending()->lend_kept(payload.data(), payload.size(), 1)
                   : give(to, payload, 1);
    }));
    EXPECT_FALSE(to.lending()->caught_up()) << "kept: " << keeps;
    Payload got = filled(3);
    ASSERT_TRUE(pair.drive([&] { return from.receive(got.data(), got.size(), 1); }));
    EXPECT_TRUE(pair.drive([&] { return to.lending()->caught_up(); })) << "kept: " << keeps;
  }
}

/// An end that stops reading, at the communicator's end, frees its peer from keeping anything.
TEST_P(LendingConformance, WhoStopsReadingNeedsNothingKept) {
  LendingPair pair;
  ASSERT_TRUE(pair.ready);
  if (!GetParam().lends) GTEST_SKIP() << "lends nothing";
  const Payload kept = filled(1);
  for (const int from : {0, 1}) {
    Connection& to = *pair.ends[from];
    ASSERT_TRUE(pair.drive([&] { return to.lending()->lend_kept(kept.data(), kept.size(), 1); }));
    EXPECT_FALSE(to.lending()->all_read());
  }
  pair.ends[0]->lending()->stop_reading();
  EXPECT_TRUE(pair.ends[1]->lending()->all_read());
  EXPECT_FALSE(pair.ends[0]->lending()->all_read()) << "its peer still reads";
  pair.ends[1]->lending()->stop_reading();
  EXPECT_TRUE(pair.ends[0]->lending()->all_read());
}

}  // namespace coll::test
