// SPDX-License-Identifier: Apache-2.0
// Links that break, and verbs that fail, at a chosen moment.
#include <gmock/gmock.h>

#include <array>
#include <memory_resource>
#include <thread>

#include "transports/traffic.hpp"
#include "transports/verbs/on_emulated.hpp"

namespace coll::test {
namespace {

using testing::HasSubstr;

// --- links that break

constexpr int kMessages = 300;
constexpr std::array<std::byte, 4> kWord{};

/// Random messages both ways over a pair of ranks, with `trouble(step)` in between. All have to
/// arrive, once, in order.
template <class Trouble>
void talk_through(Pair& pair, int messages, Trouble trouble, int* landings = nullptr) {
  ASSERT_TRUE(pair.ready);
  const std::uint64_t seed = test_seed();
  Exchange a(*pair.ends[0], seed, ~seed, messages);
  Exchange b(*pair.ends[1], ~seed, seed, messages);
  int step = 0;
  EXPECT_TRUE(eventually([&] {
    trouble(step++);
    a.step();
    b.step();
    return a.done() && b.done();
  }));
  for (auto& end : pair.ends) EXPECT_TRUE(end->status().ok()) << end->status().text();
  EXPECT_TRUE(a.good() && b.good());
  if (landings != nullptr) *landings += a.landings() + b.landings();
}

TEST(VerbsRecovery, AMessageWhoseAcknowledgementIsLostArrivesOnce) {
  Pair pair(on_emulated("lost", 1, {}), 32 << 10);
  std::mt19937_64 random(test_seed());
  talk_through(pair, kMessages, [&](int step) {
    const auto pairs = Fabric::now().pairs();
    if (step % 37 == 0) Fabric::now().lose_ack(pairs[random() % pairs.size()]);
  });
}

TEST(VerbsRecovery, APortThatIsDownForAWhileIsWaitedFor) {
  Pair pair(on_emulated("down", 1, {}), 32 << 10);
  talk_through(pair, kMessages, [&](int step) {
    if (step % 50 == 10) Fabric::now().set_port(step % 3 == 0 ? 0 : 1, false);
    if (step % 50 == 40) {
      Fabric::now().set_port(0, true);
      Fabric::now().set_port(1, true);
    }
  });
}

/// Sent again, it might fall into its slot when that belongs to a later message.
TEST(VerbsRecovery, WhatHasArrivedIsNotSentAgain) {
  Pair pair(on_emulated("arrived", 1, {}), 64);
  ASSERT_TRUE(pair.ready);
  Connection& to = *pair.ends[0];
  Fabric::now().lose_ack(Fabric::now().pairs()[0]);
  const std::uint64_t before = Fabric::now().counts().writes;
  ASSERT_TRUE(to.send(kWord.data(), kWord.size(), 1));
  nudge(to);
  ASSERT_FALSE(all_flushed(to)) << "it may have to be sent again";
  ASSERT_TRUE(pair.drive([&] { return all_flushed(to); })) << "the peer has told";
  EXPECT_EQ(Fabric::now().counts().writes - before, 1U);
  std::array<std::byte, 4> got{};
  EXPECT_TRUE(pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), 1); }));
}

/// Its way takes as long as the message's.
TEST(VerbsRecovery, NobodyWaitsForTheAcknowledgementOfWhatLiesInASlot) {
  Pair pair(on_emulated("slow", 1, {}), 64);
  ASSERT_TRUE(pair.ready);
  Fabric::now().hold(0);
  ASSERT_TRUE(pair.ends[0]->send(kWord.data(), kWord.size(), 1));
  EXPECT_TRUE(all_flushed(*pair.ends[0]));
  Fabric::now().go_on(0);
  std::array<std::byte, 4> got{};
  EXPECT_TRUE(pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), 1); }));
}

TEST(VerbsRecovery, WhoLeavesSendsAgainWhatABrokenPairHasLost) {
  Pair pair(on_emulated("leaves", 1, {}), 64);
  ASSERT_TRUE(pair.ready);
  Fabric::now().set_port(0, false);
  ASSERT_TRUE(pair.ends[0]->send(kWord.data(), kWord.size(), 1));
  ASSERT_TRUE(all_flushed(*pair.ends[0]));
  Fabric::now().exceed_retries(0);
  std::thread leaves([&] { pair.ends[0].reset(); });
  Fabric::now().set_port(0, true);
  std::array<std::byte, 4> got{};
  EXPECT_TRUE(eventually([&] {
    nudge(*pair.ends[1]);
    return pair.ends[1]->receive(got.data(), got.size(), 1);
  })) << pair.ends[1]->status().text();
  leaves.join();
}

/// Soon after it is up, a port may have no address yet.
TEST(VerbsRecovery, APairThatCannotBeOpenedYetIsTriedAgain) {
  for (int after = 4; after < 8; ++after) {  // the first four calls begin both ends' anew
    Pair pair(on_emulated("early", 1, {}), 32 << 10);
    talk_through(pair, kMessages, [&](int step) {
      if (step == 10) Fabric::now().set_port(0, false);
      if (step == 40) Fabric::now().exceed_retries(0);
      if (step != 70) return;
      Fabric::now().fail("ibv_modify_qp", ENETUNREACH, after);
      Fabric::now().set_port(0, true);
    });
    if (testing::Test::HasFailure()) return;
    Fabric::now().forget_unmet();
  }
}

TEST(VerbsRecovery, APairThatGaveUpIsBegunAnewWhenThePortIsUp) {
  Pair pair(on_emulated("given_up", 1, {}), 32 << 10);
  talk_through(pair, kMessages, [&](int step) {
    const int device = step / 100 % 2;
    if (step % 100 == 10) Fabric::now().set_port(device, false);
    if (step % 100 == 40) Fabric::now().exceed_retries(device);
    if (step % 100 == 70) Fabric::now().set_port(device, true);
  });
}

TEST(VerbsRecovery, AnotherPortTakesOver) {
  Pair pair(on_emulated("two", 2, {}), 32 << 10);
  std::uint64_t before = 0;
  talk_through(pair, kMessages, [&](int step) {
    if (step == 50) {
      Fabric::now().set_port(0, false);  // and stays so
      before = Fabric::now().counts().writes;
    }
    if (step > 50 && step % 10 == 0) Fabric::now().exceed_retries(0);
  });
  EXPECT_GT(Fabric::now().counts().writes, before);
}

TEST(VerbsRecovery, WhateverBreaksWheneverNothingIsLostOrDoubled) {
  std::mt19937_64 random(test_seed());
  int landings = 0;
  for (const int ports : {1, 2}) {
    for (const std::uint32_t credits : {1U, 2U, 5U}) {
      // A third is lent, and half is expected.
      std::pmr::set_default_resource(RegisteredResource::of_process());
      Pair pair(on_emulated("torture", ports, {.pairs = 2}), 16384, credits);
      talk_through(
          pair, kMessages, [&](int step) { break_something(random, step); }, &landings);
      std::pmr::set_default_resource(nullptr);
      if (testing::Test::HasFailure()) return;
      mend_all();
    }
  }
  EXPECT_GT(landings, 0);
}

TEST(VerbsRecovery, WithoutAnyPortBothEndsFailWhenPatienceIsOver) {
  Pair pair(on_emulated("patience", 2, {.patience_s = 1}), 4096);
  ASSERT_TRUE(pair.ready);
  for (const int device : {0, 1, 2, 3}) Fabric::now().set_port(device, false);
  pair.ends[0]->send(kWord.data(), kWord.size(), 1);
  for (const int device : {0, 1, 2, 3}) Fabric::now().exceed_retries(device);
  pair.ends[0]->send(kWord.data(), kWord.size(), 1);
  for (const int device : {0, 1, 2, 3}) Fabric::now().exceed_retries(device);
  ASSERT_TRUE(pair.drive([&] {
    for (auto& end : pair.ends) end->send(kWord.data(), kWord.size(), 1);
    for (const int device : {0, 1, 2, 3}) Fabric::now().exceed_retries(device);
    return !pair.ends[0]->status().ok() && !pair.ends[1]->status().ok();
  }));
  const Status& status = pair.ends[0]->status();
  EXPECT_EQ(status.code(), Code::unreachable) << status.text();
  EXPECT_EQ(status.rank(), 1);
  EXPECT_THAT(status.text(), AllOf(HasSubstr("emu0:1"), HasSubstr("is down"), HasSubstr("1 s")));
}

TEST(VerbsRecovery, WhoIsGoneInTheMiddleIsLost) {
  Pair pair(on_emulated("gone", 1, {}), 4096);
  ASSERT_TRUE(pair.ready);
  Fabric::now().hold(0);
  pair.ends[0]->send(kWord.data(), kWord.size(), 1);
  pair.ends[1].reset();
  Fabric::now().go_on(0);
  EXPECT_TRUE(eventually([&] {
    nudge(*pair.ends[0]);
    all_flushed(*pair.ends[0]);
    return !pair.ends[0]->status().ok();
  }));
  EXPECT_EQ(pair.ends[0]->status().code(), Code::peer_lost) << pair.ends[0]->status().text();
}

// --- verbs that fail

/// Opens both ends of a connection, as far as it goes.
Status opened(const Backend& backend) {
  std::vector<std::unique_ptr<Transport>> transports;
  for (const Rank rank : {0, 1}) {
    auto made = backend.make(spec_of(rank, 2, 5));
    if (!made.ok()) return made.status();
    transports.push_back(*std::move(made));
  }
  std::vector<std::unique_ptr<Connection>> ends;
  for (const Rank rank : {0, 1}) {
    auto end = transports[static_cast<std::size_t>(rank)]->open(
        {.peer = 1 - rank, .lane = 0, .slot_bytes = 4096, .credits = 2},
        transports[static_cast<std::size_t>(1 - rank)]->descriptor());
    if (!end.ok()) return end.status();
    ends.push_back(*std::move(end));
  }
  const auto over = [](const auto& end) { return end->ready() || !end->status().ok(); };
  const bool settled = eventually([&] {
    for (auto& transport : transports) transport->poll();
    return over(ends[0]) && over(ends[1]);
  });
  if (!settled) return failed(Code::deadline, "neither ready nor failed");
  for (auto& end : ends) COLL_TRY(end->status());
  return {};
}

TEST(VerbsFailures, EachVerbThatFailsWhileConnectingIsNamedWithItsDeviceAndCause) {
  struct Case {
    const char* verb;
    int error;
    Code code;
    const char* hint;
  };
  for (const Case& one : {Case{"ibv_get_device_list", ENOSYS, Code::system, ""},
                          Case{"ibv_open_device", ENODEV, Code::system, "/dev/infiniband"},
                          Case{"ibv_open_device", EACCES, Code::system, "/dev/infiniband"},
                          Case{"ibv_query_device", EIO, Code::system, ""},
                          Case{"ibv_alloc_pd", ENOMEM, Code::out_of_resources, "ulimit -l"},
                          Case{"ibv_create_comp_channel", EMFILE, Code::out_of_resources, ""},
                          Case{"ibv_query_port", EIO, Code::system, ""},
                          Case{"ibv_reg_mr", ENOMEM, Code::out_of_resources, "ulimit -l"},
                          Case{"ibv_create_cq", ENOMEM, Code::out_of_resources, "ulimit -l"},
                          Case{"ibv_create_qp", ENOMEM, Code::out_of_resources, "ulimit -l"},
                          Case{"ibv_modify_qp", EINVAL, Code::system, "GID"},
                          Case{"ibv_modify_qp", ETIMEDOUT, Code::system, "port is up"},
                          Case{"ibv_post_recv", ENOMEM, Code::out_of_resources, ""}}) {
    // At every place where it is called.
    int failures = 0;
    for (int after = 0;; ++after) {
      Fabric::now().fail(one.verb, one.error, after);
      const Status status = opened(on_emulated("fails", 1, {}));
      const bool met = Fabric::now().unmet() == 0;
      Fabric::now().forget_unmet();
      if (!met) break;
      ASSERT_LT(after, 50);
      if (status.ok()) continue;
      ++failures;
      if (status.code() == Code::peer_lost) continue;  // its peer's end has it
      EXPECT_EQ(status.code(), one.code) << status.text();
      EXPECT_THAT(status.text(), AllOf(HasSubstr(one.verb), HasSubstr("emu"), HasSubstr(one.hint)));
    }
    EXPECT_GT(failures, 0) << one.verb;
  }
  EXPECT_TRUE(opened(on_emulated("right", 1, {})).ok());
}

TEST(VerbsFailures, APostThatFailsIsRecoveredFrom) {
  Pair pair(on_emulated("post", 1, {}), 4096);
  // So many and no more: to recover takes time, not steps, and would meet the next failure.
  int failures = 20;
  talk_through(pair, kMessages, [&](int step) {
    if (step % 40 == 0 && failures-- > 0) Fabric::now().fail("ibv_post_send", ENOMEM);
  });
  Fabric::now().forget_unmet();
}

TEST(VerbsFailures, AQueueThatCannotBePolledEndsAllConnections) {
  Pair pair(on_emulated("poll", 1, {}), 4096);
  ASSERT_TRUE(pair.ready);
  Fabric::now().fail("ibv_poll_cq", EIO);
  EXPECT_TRUE(pair.drive([&] { return !pair.ends[0]->status().ok(); }));
  EXPECT_THAT(pair.ends[0]->status().text(), HasSubstr("ibv_poll_cq"));
}

}  // namespace
}  // namespace coll::test
