// SPDX-License-Identifier: Apache-2.0
// Verbs over emulated devices: the conformance suite, and links that break at a chosen moment.
#include <gmock/gmock.h>

#include "emulation/verbs/emulated_verbs.hpp"
#include "transports/registered_resource.hpp"
#include "transports/transport_conformance.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace coll::test {
namespace {

using testing::HasSubstr;

/// Rank r on devices r, r + 2, … of a fabric that each test has anew.
class Fabric : public testing::EmptyTestEventListener {
 public:
  static EmulatedVerbs& now() {
    if (fabric == nullptr) {
      // Registered once: whoever runs next gets another one.
      static const bool listens = [] {
        testing::UnitTest::GetInstance()->listeners().Append(new Fabric);
        return true;
      }();
      (void)listens;
      fabric = new EmulatedVerbs(4);
    }
    return *fabric;
  }
  /// Checks that the test left nothing.
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    delete fabric;
    fabric = nullptr;
  }

 private:
  static inline EmulatedVerbs* fabric = nullptr;
};

Backend on_emulated(std::string name, int ports, VerbsOptions options) {
  Backend backend{
      .name = std::move(name), .make = nullptr, .crosses_processes = false, .can_lend = true};
  backend.make = [ports, options](const TransportSpec& spec) {
    const int device = spec.rank % 2;
    return VerbsTransport::make(
        spec, Fabric::now().table(), options,
        ports == 1 ? Fabric::now().rails({device}) : Fabric::now().rails({device, device + 2}));
  };
  return backend;
}

/// With payloads in registered memory.
Backend lending(Backend backend) {
  backend.lends = true;
  backend.memory = RegisteredResource::of_process();
  return backend;
}

INSTANTIATE_TEST_SUITE_P(EmulatedVerbs, TransportConformance,
                         testing::Values(on_emulated("one_port", 1, {}),
                                         on_emulated("two_ports_of_two_pairs", 2, {.pairs = 2}),
                                         lending(on_emulated("lending", 2, {}))),
                         name_of_backend);

// --- links that break

constexpr int kMessages = 300;

/// Random messages both ways over a pair of ranks, with `trouble(step)` in between. All have to
/// arrive, once, in order.
template <class Trouble>
void talk_through(Pair& pair, int messages, Trouble trouble) {
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
  for (const int ports : {1, 2}) {
    for (const std::uint32_t credits : {1U, 2U, 5U}) {
      std::pmr::set_default_resource(RegisteredResource::of_process());  // a third is lent
      Pair pair(on_emulated("torture", ports, {.pairs = 2}), 16384, credits);
      talk_through(pair, kMessages, [&](int step) {
        EmulatedVerbs& fabric = Fabric::now();
        const auto pairs = fabric.pairs();
        const int device = static_cast<int>(random() % 4);
        switch (random() % 40) {
          case 0:
            return fabric.lose_ack(pairs[random() % pairs.size()]);
          case 1:
            return fabric.set_port(device, false);
          case 2:
            return fabric.hold(device);
          case 3:
            return fabric.exceed_retries(device);
          default:
            break;
        }
        if (step % 25 != 0) return;
        for (const int each : {0, 1, 2, 3}) {
          fabric.set_port(each, true);
          fabric.go_on(each);
        }
      });
      std::pmr::set_default_resource(nullptr);
      if (testing::Test::HasFailure()) return;
      for (const int each : {0, 1, 2, 3}) {
        Fabric::now().set_port(each, true);
        Fabric::now().go_on(each);
      }
    }
  }
}

TEST(VerbsRecovery, WithoutAnyPortBothEndsFailWhenPatienceIsOver) {
  Pair pair(on_emulated("patience", 2, {.patience_s = 1}), 4096);
  ASSERT_TRUE(pair.ready);
  for (const int device : {0, 1, 2, 3}) Fabric::now().set_port(device, false);
  pair.ends[0]->send(bytes_of("word"), 4, 1);
  for (const int device : {0, 1, 2, 3}) Fabric::now().exceed_retries(device);
  pair.ends[0]->send(bytes_of("word"), 4, 1);
  for (const int device : {0, 1, 2, 3}) Fabric::now().exceed_retries(device);
  ASSERT_TRUE(pair.drive([&] {
    for (auto& end : pair.ends) end->send(bytes_of("word"), 4, 1);
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
  pair.ends[0]->send(bytes_of("word"), 4, 1);
  pair.ends[1].reset();
  Fabric::now().go_on(0);
  EXPECT_TRUE(eventually([&] {
    nudge(*pair.ends[0]);
    all_flushed(*pair.ends[0]);
    return !pair.ends[0]->status().ok();
  }));
  EXPECT_EQ(pair.ends[0]->status().code(), Code::peer_lost) << pair.ends[0]->status().text();
}

// --- memory that is lent

/// A block of coll_mem_alloc, for the time of a test.
struct Block {
  explicit Block(std::size_t size) : arena(*SharedArena::of_this_process()), bytes(size) {
    data = *arena->allocate(bytes);
  }
  ~Block() { EXPECT_TRUE(arena->free(data).ok()); }
  SharedArena* arena;
  std::byte* data;
  std::size_t bytes;
};

/// Lends the block, and waits until it is the owner's again.
void lend_and_receive(Pair& pair, const Block& block, std::byte value) {
  Connection& to = *pair.ends[0];
  std::fill_n(block.data, block.bytes, value);
  ASSERT_TRUE(to.lending()->lends(block.data, block.bytes, false));
  ASSERT_TRUE(pair.drive([&] { return to.lending()->lend(block.data, block.bytes, 1); }));
  ASSERT_TRUE(pair.drive([&] { return all_flushed(to); }));
  std::fill_n(block.data, block.bytes, std::byte{0xbd});
  std::vector<std::byte> got(block.bytes);
  ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), 1); }));
  EXPECT_EQ(std::ranges::count(got, value), static_cast<std::ptrdiff_t>(got.size()));
}

TEST(VerbsLending, OnlyMemoryThatStaysIsLentAndItsOwnerHasItBackOnceItIsWritten) {
  Pair pair(on_emulated("lends", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  Lending& lending = *pair.ends[0]->lending();
  const std::vector<std::byte> own(64 << 10);
  EXPECT_FALSE(lending.lends(own.data(), own.size(), true));
  const Block block(64 << 10);
  EXPECT_FALSE(lending.lends(block.data + 4096, block.bytes, true)) << "beyond its end";
  lend_and_receive(pair, block, std::byte{1});
  EXPECT_TRUE(lending.all_read());
}

TEST(VerbsLending, ABlockThatTookTheAddressesOfAFreedOneIsRegisteredAnew) {
  Pair pair(on_emulated("again", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  std::byte* before = nullptr;
  int registered = 0;
  for (int round = 1; round < 4; ++round) {
    const Block block(64 << 10);
    if (before != nullptr) {
      EXPECT_EQ(block.data, before) << "the arena gives the first place that fits";
    }
    before = block.data;
    Fabric::now().before("ibv_reg_mr", [&] { ++registered; });
    lend_and_receive(pair, block, static_cast<std::byte>(round));
    EXPECT_EQ(registered, round);
    lend_and_receive(pair, block, static_cast<std::byte>(round + 10));
    EXPECT_EQ(registered, round) << "once is enough while it lives";
  }
}

TEST(VerbsLending, WhatADeviceHasNoRoomForIsCopied) {
  Pair pair(on_emulated("no_room", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  const Block block(64 << 10);
  Fabric::now().fail("ibv_reg_mr", ENOMEM);
  EXPECT_FALSE(pair.ends[0]->lending()->lends(block.data, block.bytes, false));
  EXPECT_FALSE(pair.ends[0]->lending()->lends(block.data, block.bytes, false)) << "not asked again";
  EXPECT_TRUE(pair.ends[0]->status().ok());
}

TEST(VerbsLending, WhatIsWithdrawnIsReadNoMore) {
  Pair pair(on_emulated("withdrawn", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  const Block block(64 << 10);
  Connection& to = *pair.ends[0];
  ASSERT_TRUE(to.lending()->lends(block.data, block.bytes, false));
  to.lending()->withdraw();
  EXPECT_TRUE(to.status().ok()) << "there was nothing";
  Fabric::now().hold(0);
  ASSERT_TRUE(pair.drive([&] { return to.lending()->lend(block.data, block.bytes, 1); }));
  EXPECT_FALSE(to.lending()->all_read());
  to.lending()->withdraw();
  std::fill_n(block.data, block.bytes, std::byte{0xbd});
  Fabric::now().go_on(0);
  std::vector<std::byte> got(block.bytes);
  EXPECT_TRUE(pair.drive([&] {
    EXPECT_FALSE(pair.ends[1]->receive(got.data(), got.size(), 1));
    return !pair.ends[1]->status().ok();
  }));
  EXPECT_EQ(pair.ends[1]->status().code(), Code::peer_lost) << pair.ends[1]->status().text();
  EXPECT_FALSE(to.status().ok());
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
  talk_through(pair, kMessages, [&](int step) {
    if (step % 40 == 0) Fabric::now().fail("ibv_post_send", ENOMEM);
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

}  // namespace
}  // namespace coll::test
