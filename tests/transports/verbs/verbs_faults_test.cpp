// SPDX-License-Identifier: Apache-2.0
// Verbs over emulated devices: moments of recovery, patience and naps that are easily got wrong.
#include <gmock/gmock.h>
#include <poll.h>

#include "transports/traffic.hpp"
#include "transports/verbs/on_emulated.hpp"

namespace coll::test {
namespace {

struct VerbsFaults : testing::Test {
  EmulatedVerbs& fabric = Fabric::now();

  static Backend backend(int ports, VerbsOptions options = {}) {
    return on_emulated("emulated", ports, options);
  }
};

const std::byte* bytes_of(const char* text) {
  return reinterpret_cast<const std::byte*>(text);
}
bool send_word(Connection& to, std::uint64_t digest) {
  return to.send(bytes_of("word"), 4, digest);
}
bool receive_word(Connection& from, std::uint64_t digest) {
  std::byte word[4];
  return from.receive(word, sizeof word, digest);
}
void exchange_a_word(Pair& pair, int from, std::uint64_t digest) {
  ASSERT_TRUE(pair.drive([&] { return send_word(*pair.ends[from], digest); }));
  ASSERT_TRUE(pair.drive([&] { return receive_word(*pair.ends[1 - from], digest); }));
}
/// As a nap that ends at once: sockets are looked at.
void nap(Connection& end) {
  end.progress_source()->has_news();
  end.progress_source()->progress();
}
template <class Done>
bool within(double seconds, Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    sched_yield();
  }
  return true;
}

TEST_F(VerbsFaults, WhatAPeerSentBeforeItWentArrivesThoughThisEndWasStillConnecting) {
  Ranks ranks(backend(1));
  const auto spec = [](Rank peer) {
    return ConnectionSpec{.peer = peer, .lane = 0, .slot_bytes = 1024, .credits = 2};
  };
  std::unique_ptr<Connection> ends[] = {ranks.open(0, spec(1)), ranks.open(1, spec(0))};
  ASSERT_TRUE(eventually([&] {
    ranks.poll();
    return ends[1]->ready();
  }));
  ASSERT_FALSE(ends[0]->ready()) << "rank 0 has to be the last to look";
  ASSERT_TRUE(send_word(*ends[1], 7));
  ends[1].reset();
  EXPECT_TRUE(eventually([&] {
    ranks.transports[0]->poll();
    return ends[0]->ready() || !ends[0]->status().ok();
  }));
  ASSERT_TRUE(ends[0]->status().ok()) << ends[0]->status().text();
  EXPECT_TRUE(eventually([&] {
    nudge(*ends[0]);
    return receive_word(*ends[0], 7) || !ends[0]->status().ok();
  }));
  EXPECT_TRUE(ends[0]->status().ok()) << ends[0]->status().text();
}

TEST_F(VerbsFaults, APortIsRefusedIfItTakesNoMessageAsLongAsASlot) {
  const auto made = [&] { return backend(2).make(spec_of(0, 2, 5)); };
  ASSERT_TRUE(made().ok());
  const auto longest = static_cast<std::uint32_t>((*made())->limits().slot_bytes + 16);
  fabric.set_most_bytes(2, longest - 1);
  const Status refused = made().status();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_THAT(refused.text(), testing::AllOf(testing::HasSubstr("emu2:1 takes messages of up to " +
                                                                std::to_string(longest - 1)),
                                             testing::HasSubstr("COLL_INTERFACE=^emu2:1")));
  for (const std::uint32_t enough : {0U, longest}) {
    fabric.set_most_bytes(2, enough);
    EXPECT_TRUE(made().ok()) << enough << " (0: the port does not say)";
  }
  // However long the slots that somebody asks for.
  Ranks ranks(backend(2));
  ConnectionSpec spec{.peer = 1, .lane = 0, .slot_bytes = longest - 16, .credits = 2};
  EXPECT_NE(ranks.open(0, spec), nullptr);
  spec.slot_bytes += 64;
  const auto opened = ranks.transports[0]->open(spec, ranks.transports[1]->descriptor());
  EXPECT_EQ(opened.status().code(), Code::unsupported) << opened.status().text();
}

TEST_F(VerbsFaults, ALastPairThatBreaksWhileAnotherIsSettledIsWaitedFor) {
  Pair pair(backend(2), 1024);
  ASSERT_TRUE(pair.ready);
  Connection &a = *pair.ends[0], &b = *pair.ends[1];
  exchange_a_word(pair, 0, 1);
  exchange_a_word(pair, 0, 2);  // the turn is the first pair's again, on both ends
  fabric.hold(0);
  ASSERT_TRUE(send_word(a, 3));  // stays on the wire of the first pair
  fabric.fail("ibv_post_send", ENOMEM);
  send_word(b, 1);  // breaks that pair of b
  nap(b);
  nap(a);                        // hears of it
  ASSERT_TRUE(send_word(a, 4));  // arrives by the second pair, which has proved good
  fabric.fail("ibv_post_send", ENOMEM);
  nudge(a);  // sends 3 again over the second pair, in vain
  fabric.forget_unmet();
  fabric.go_on(0);
  EXPECT_TRUE(a.status().ok()) << a.status().text();
  EXPECT_TRUE(pair.drive([&] { return !a.status().ok() || receive_word(b, 3); }));
}

TEST_F(VerbsFaults, PatienceEndsThoughSomethingOldIsFoundAfterTheBreak) {
  Pair pair(backend(1, {.patience_s = 1}), 1024);
  ASSERT_TRUE(pair.ready);
  Connection &a = *pair.ends[0], &b = *pair.ends[1];
  const std::vector<std::uint32_t> pairs = fabric.pairs();
  a.progress_source()->has_news();
  // Between a's look at completions and its look at words.
  fabric.before("ibv_get_async_event", [&] {
    fabric.lose_ack(pairs[1]);
    send_word(b, 1);  // arrives
    nap(b);           // tells that its pair is broken
    fabric.set_port(0, false);
    fabric.set_port(1, false);
  });
  a.progress_source()->progress();
  ASSERT_EQ(fabric.unmet(), 0);
  EXPECT_TRUE(within(4, [&] {
    nudge(a);
    nudge(b);
    return !a.status().ok();
  })) << "waits for ever";
  EXPECT_FALSE(b.status().ok()) << "its own patience";
}

TEST_F(VerbsFaults, PatienceNamesAPortThatIsDownThoughThePeerSaysNothing) {
  Pair pair(backend(1, {.patience_s = 1}), 1024);
  ASSERT_TRUE(pair.ready);
  Connection& a = *pair.ends[0];
  fabric.lose_ack(fabric.pairs()[0]);
  ASSERT_TRUE(send_word(a, 1));
  fabric.set_port(0, false);
  EXPECT_TRUE(within(4, [&] {
    nudge(a);
    return !a.status().ok();
  })) << "waits for ever";
  EXPECT_THAT(a.status().text(), testing::HasSubstr(" is down)"));
}

TEST_F(VerbsFaults, PatienceBeginsAnewWithEachTrouble) {
  Pair pair(backend(1, {.patience_s = 1}), 1024);
  ASSERT_TRUE(pair.ready);
  Connection& a = *pair.ends[0];
  exchange_a_word(pair, 0, 1);
  fabric.lose_ack(fabric.pairs()[0]);
  exchange_a_word(pair, 0, 2);
  ASSERT_TRUE(pair.drive([&] { return a.acquire(4) != nullptr; })) << "it is begun anew";
  ASSERT_FALSE(within(1.2, [&] {  // nothing to say meanwhile
    nudge(*pair.ends[0]);
    nudge(*pair.ends[1]);
    return false;
  }));
  fabric.lose_ack(fabric.pairs()[0]);
  EXPECT_TRUE(pair.drive([&] { return !a.status().ok() || send_word(a, 3); }));
  EXPECT_TRUE(pair.drive([&] { return receive_word(*pair.ends[1], 3) || !a.status().ok(); }));
  for (int i = 0; i < 1000; ++i) {
    nap(*pair.ends[0]);
    nap(*pair.ends[1]);
  }
  for (auto& end : pair.ends) EXPECT_TRUE(end->status().ok()) << end->status().text();
}

TEST_F(VerbsFaults, APairThatCannotBeBegunAnewYetDoesNotEndAConnectionWithAnother) {
  std::string failed_by;
  for (int after = 0; after < 10; ++after) {
    Pair pair(backend(2), 1024);
    ASSERT_TRUE(pair.ready);
    const auto pairs = fabric.pairs();
    fabric.lose_ack(pairs[0]);
    // As where the other host's address is not resolved yet, or its switch port not up.
    fabric.fail("ibv_modify_qp", ETIMEDOUT, after);
    for (std::uint64_t digest = 0; digest < 40; ++digest) {
      for (auto& end : pair.ends)
        if (end->status().ok()) nap(*end);
      send_word(*pair.ends[0], digest);
      pair.drive([&] {
        return receive_word(*pair.ends[1], digest) || !pair.ends[0]->status().ok() ||
               !pair.ends[1]->status().ok();
      });
    }
    fabric.forget_unmet();
    for (auto& end : pair.ends)
      if (!end->status().ok())
        failed_by += "\n" + std::to_string(after) + ": " + end->status().text();
  }
  EXPECT_EQ(failed_by, "");
}

TEST_F(VerbsFaults, APeerThatHasGoneDoesNotEndNapsOverAndOver) {
  Pair pair(backend(2), 1024);
  ASSERT_TRUE(pair.ready);
  Connection& a = *pair.ends[0];
  fabric.set_port(0, false);  // for good
  for (const std::uint64_t digest : {1U, 2U}) ASSERT_TRUE(send_word(a, digest));
  fabric.exceed_retries(0);
  for (const std::uint64_t digest : {1U, 2U})
    ASSERT_TRUE(pair.drive([&] { return receive_word(*pair.ends[1], digest); }));
  ASSERT_TRUE(pair.drive([&] { return all_flushed(a); }));
  pair.ends[1].reset();
  for (int i = 0; i < 1000; ++i) nudge(a);
  for (int i = 0; i < 10; ++i) nap(a);
  EXPECT_TRUE(a.status().ok());
  ASSERT_FALSE(a.progress_source()->has_news());
  pollfd one{a.progress_source()->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&one, 1, 0), 0) << "each nap ends at once";
}

TEST_F(VerbsFaults, ADeadPortIsNotAskedForInEveryRound) {
  Pair pair(backend(2), 1024);
  ASSERT_TRUE(pair.ready);
  Connection& a = *pair.ends[0];
  fabric.set_port(0, false);
  for (const std::uint64_t digest : {1U, 2U}) ASSERT_TRUE(send_word(a, digest));
  fabric.exceed_retries(0);
  for (const std::uint64_t digest : {1U, 2U})
    ASSERT_TRUE(pair.drive([&] { return receive_word(*pair.ends[1], digest); }));
  constexpr int kRounds = 1000;
  int asked = 0;
  for (int i = 0; i < kRounds; ++i) {
    fabric.before("ibv_query_port", [&] { ++asked; });
    nudge(a);
    fabric.forget_unmet();
  }
  EXPECT_LT(asked, kRounds / 10);
}

TEST_F(VerbsFaults, APlaceThatWasAcquiredCanBeCommittedThoughThePairBrokeMeanwhile) {
  Pair pair(backend(1), 1024);
  ASSERT_TRUE(pair.ready);
  Connection& a = *pair.ends[0];
  fabric.hold(0);
  ASSERT_TRUE(send_word(a, 1));
  std::byte* const place = a.acquire(4);
  ASSERT_NE(place, nullptr);
  fabric.exceed_retries(0);
  nudge(a);
  std::memcpy(place, "word", 4);
  a.commit(4, 2);
  fabric.go_on(0);
  for (const std::uint64_t digest : {1U, 2U})
    EXPECT_TRUE(pair.drive([&] { return receive_word(*pair.ends[1], digest); }));
}

TEST_F(VerbsFaults, WhoWentInOrderIsNotOutOfReachLater) {
  Pair pair(backend(1, {.patience_s = 1}), 1024, 2);
  ASSERT_TRUE(pair.ready);
  Connection& a = *pair.ends[0];
  for (const std::uint64_t digest : {1U, 2U}) ASSERT_TRUE(send_word(*pair.ends[1], digest));
  pair.ends[1].reset();
  // Its credits go to nobody.
  for (const std::uint64_t digest : {1U, 2U})
    ASSERT_TRUE(eventually([&] { return nudge(a), receive_word(a, digest); }));
  EXPECT_FALSE(within(1.5, [&] { return nap(a), nudge(a), !a.status().ok(); }))
      << a.status().text();
}

TEST_F(VerbsFaults, MoreCreditsThanAQueuePairHoldsAreNamed) {
  Ranks ranks(backend(1));
  for (const std::uint32_t credits : {3300U, 5000U, 65536U}) {
    const auto opened =
        ranks.transports[0]->open({.peer = 1, .lane = 0, .slot_bytes = 64, .credits = credits},
                                  ranks.transports[1]->descriptor());
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.status().text(), testing::HasSubstr("COLL_CREDITS")) << credits;
  }
}

TEST_F(VerbsFaults, APeerThatWentWhileConnectingDoesNotEndNapsOverAndOver) {
  Ranks ranks(backend(1));
  const auto spec = [](Rank peer) {
    return ConnectionSpec{.peer = peer, .lane = 0, .slot_bytes = 1024, .credits = 2};
  };
  std::unique_ptr<Connection> ends[] = {ranks.open(0, spec(1)), ranks.open(1, spec(0))};
  ASSERT_TRUE(eventually([&] { return ranks.poll(), ends[1]->ready(); }));
  ASSERT_FALSE(ends[0]->ready());
  ends[1].reset();
  ASSERT_TRUE(eventually([&] {
    ranks.transports[0]->poll();
    return ends[0]->ready() || !ends[0]->status().ok();
  }));
  for (int i = 0; i < 10; ++i) nap(*ends[0]);
  ASSERT_FALSE(ends[0]->progress_source()->has_news());
  pollfd one{ends[0]->progress_source()->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&one, 1, 0), 0) << "each nap ends at once";
}

TEST_F(VerbsFaults, WhatConnectionsThatEndedLeaveInACompletionQueueDoesNotFillIt) {
  constexpr std::uint32_t kCredits = 64;
  Ranks ranks(backend(1));
  const auto spec = [](Rank peer) {
    return ConnectionSpec{.peer = peer, .lane = 0, .slot_bytes = 64, .credits = kCredits};
  };
  for (int turn = 0; turn < 100; ++turn) {
    const std::unique_ptr<Connection> ends[] = {ranks.open(0, spec(1)), ranks.open(1, spec(0))};
    ASSERT_TRUE(ranks.settle(*ends[0], *ends[1]));
    // Found by their stamps: nobody has to wait, so nobody takes completions.
    for (std::uint64_t digest = 1; digest < kCredits; ++digest) {
      ASSERT_TRUE(send_word(*ends[1], digest));
      ASSERT_TRUE(receive_word(*ends[0], digest));
    }
  }
}

/// Several pairs over several ports, and posts that fail, too.
TEST_F(VerbsFaults, PostsThatFailAmongTheRestLoseNothing) {
  std::mt19937_64 random(test_seed());
  for (int turn = 0; turn < 12; ++turn) {
    const auto credits = static_cast<std::uint32_t>(1 + random() % 9);
    const auto pairs_per_port = static_cast<std::uint8_t>(1 + random() % 4);
    Pair pair(backend(2, {.pairs = pairs_per_port}), 1024, credits);
    ASSERT_TRUE(pair.ready);
    const std::uint64_t seed = random();
    Exchange a(*pair.ends[0], seed, ~seed, 300), b(*pair.ends[1], ~seed, seed, 300);
    int step = 0;
    EXPECT_TRUE(eventually([&] {
      const int device = static_cast<int>(random() % 4);
      const auto pairs = fabric.pairs();
      switch (random() % 40) {
        case 0:
          fabric.lose_ack(pairs[random() % pairs.size()]);
          break;
        case 1:
          fabric.set_port(device, false);
          break;
        case 2:
          fabric.hold(device);
          break;
        case 3:
          fabric.exceed_retries(device);
          break;
        case 4:
          if (fabric.unmet() == 0)
            fabric.fail("ibv_post_send", ENOMEM, static_cast<int>(random() % 5));
          break;
        case 5:
          nap(*pair.ends[random() % 2]);
          break;
        default:
          break;
      }
      if (++step % 25 == 0)
        for (const int each : {0, 1, 2, 3}) {
          fabric.set_port(each, true);
          fabric.go_on(each);
        }
      a.step();
      if (random() % 3 != 0) b.step();
      const bool ok = pair.ends[0]->status().ok() && pair.ends[1]->status().ok();
      return !ok || (a.done() && b.done());
    })) << "turn "
        << turn << " credits " << credits << " pairs " << int{pairs_per_port};
    fabric.forget_unmet();
    for (const int each : {0, 1, 2, 3}) {
      fabric.set_port(each, true);
      fabric.go_on(each);
    }
    for (auto& end : pair.ends)
      EXPECT_TRUE(end->status().ok()) << "turn " << turn << ": " << end->status().text();
    EXPECT_TRUE(a.good() && b.good()) << turn;
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace coll::test
