// SPDX-License-Identifier: Apache-2.0
// Memory that devices read where it lies, for as long as it is there.
#include <gmock/gmock.h>

#include <array>
#include <memory_resource>
#include <random>
#include <vector>

#include "transports/traffic.hpp"
#include "transports/transport_backend.hpp"
#include "transports/verbs/on_emulated.hpp"

namespace coll::test {
namespace {

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
  ASSERT_TRUE(to.lending()->lends(block.data, block.bytes, Fetch::never));
  Fabric::now().hold(0);
  ASSERT_TRUE(pair.drive([&] { return to.lending()->lend(block.data, block.bytes, 1); }));
  ASSERT_FALSE(all_flushed(to)) << "the device has not read it";
  Fabric::now().go_on(0);
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
  EXPECT_FALSE(lending.lends(own.data(), own.size(), Fetch::always));
  const Block block(64 << 10);
  EXPECT_FALSE(lending.lends(block.data + 4096, block.bytes, Fetch::always)) << "beyond its end";
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

/// Where the receiver has the message, and not in the connection.
bool lands(Pair& pair, std::byte* into, std::size_t bytes) {
  Landing& landing = *pair.ends[1]->landing();
  landing.expect(landing.next(), into, bytes);
  const std::byte* place = pair.ends[1]->peek(bytes, 1);  // tells the peer
  const std::vector<std::byte> data(bytes, std::byte{1});
  EXPECT_TRUE(pair.drive([&] { return pair.ends[0]->send(data.data(), bytes, 1); }));
  EXPECT_TRUE(pair.drive([&] { return (place = pair.ends[1]->peek(bytes, 1)) != nullptr; }));
  EXPECT_EQ(std::count(place, place + bytes, std::byte{1}), static_cast<std::ptrdiff_t>(bytes));
  pair.ends[1]->release();
  return place == into;
}

TEST(VerbsLanding, OnlyLongMessagesLandAndOnlyInMemoryThatStays) {
  Pair pair(on_emulated("lands", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  std::vector<std::byte> own(64 << 10);
  EXPECT_FALSE(lands(pair, own.data(), own.size()));
  const Block block(64 << 10);
  EXPECT_TRUE(lands(pair, block.data, block.bytes));
  EXPECT_TRUE(lands(pair, block.data + 13, 8192));
  EXPECT_FALSE(lands(pair, block.data, 8191)) << "is copied sooner";
}

TEST(VerbsLanding, MemoryThatMayOnlyBeReadIsLentAndNeverWritten) {
  Pair pair(on_emulated("reads", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  const Block block(64 << 10);
  Fabric::now().fail("ibv_reg_mr", EFAULT);
  EXPECT_FALSE(lands(pair, block.data, block.bytes));
  lend_and_receive(pair, block, std::byte{1});
}

/// The peer learns of places through a connection that may break before it has.
TEST(VerbsLanding, AHintThatIsLostCostsACopy) {
  Pair pair(on_emulated("lost", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  const Block block(64 << 10);
  Landing& landing = *pair.ends[1]->landing();
  Fabric::now().hold(1);
  landing.expect(landing.next(), block.data, block.bytes);
  EXPECT_EQ(pair.ends[1]->peek(block.bytes, 1), nullptr);
  Fabric::now().exceed_retries(1);
  Fabric::now().go_on(1);
  const std::vector<std::byte> data(block.bytes, std::byte{1});
  ASSERT_TRUE(pair.drive([&] { return pair.ends[0]->send(data.data(), data.size(), 1); }));
  const std::byte* place = nullptr;
  ASSERT_TRUE(pair.drive([&] { return (place = pair.ends[1]->peek(block.bytes, 1)) != nullptr; }));
  EXPECT_NE(place, block.data);
  ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->receive(block.data, block.bytes, 1); }));
  EXPECT_EQ(std::count(block.data, block.data + block.bytes, std::byte{1}),
            static_cast<std::ptrdiff_t>(block.bytes));
}

using Bytes = std::pmr::vector<std::byte>;

/// Sends from memory of the program, lent if it can be.
bool pass(Connection& to, const Bytes& data, std::uint64_t digest) {
  if (would_lend(to, data.data(), data.size()))
    return to.lending()->lend(data.data(), data.size(), digest);
  return to.send(data.data(), data.size(), digest);
}

std::byte asked_byte(int round, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(round) * 31 + i * 7);
}
constexpr std::byte kAnswered{0x5a};

/// Asks from a place that also takes the answer, over and over: what all_reduce in place does.
class Asker {
 public:
  explicit Asker(Connection& end) : end_(end), place_(end.slot_bytes()) {}

  void step(int rounds) {
    if (round_ < rounds && !ready_) {
      for (std::size_t i = 0; i < place_.size(); ++i) place_[i] = asked_byte(round_, i);
      end_.landing()->expect(end_.landing()->next(), place_.data(), place_.size(), true);
      ready_ = true;
    }
    const auto digest = static_cast<std::uint64_t>(round_);
    if (ready_ && !asked_) asked_ = pass(end_, place_, digest);
    if (asked_) take_answer(digest);
    nudge(end_);
  }
  [[nodiscard]] bool done(int rounds) const { return round_ == rounds && all_flushed(end_); }
  int landed = 0;
  int wrong = 0;

 private:
  void take_answer(std::uint64_t digest) {
    const std::byte* const got = end_.peek(place_.size(), digest);
    if (got == nullptr) return;
    if (got == place_.data()) ++landed;
    for (std::size_t i = 0; i < place_.size(); ++i)
      wrong += got[i] == (asked_byte(round_, i) ^ kAnswered) ? 0 : 1;
    end_.release();
    ready_ = asked_ = false;
    ++round_;
  }

  Connection& end_;
  Bytes place_;
  int round_ = 0;
  bool ready_ = false;
  bool asked_ = false;
};

class Answerer {
 public:
  explicit Answerer(Connection& end)
      : end_(end), answers_{Bytes(end.slot_bytes()), Bytes(end.slot_bytes())} {}

  void step() {
    // Its answer to the last question but one has been read: the last could be asked only then.
    Bytes& answer = answers_[static_cast<std::size_t>(round_) % 2];
    const auto digest = static_cast<std::uint64_t>(round_);
    if (!computed_) {
      const std::byte* const question = end_.peek(answer.size(), digest);
      if (question != nullptr) {
        for (std::size_t i = 0; i < answer.size(); ++i) answer[i] = question[i] ^ kAnswered;
        end_.release();
        computed_ = true;
      }
    }
    if (computed_ && pass(end_, answer, digest)) {
      computed_ = false;
      ++round_;
    }
    nudge(end_);
  }
  [[nodiscard]] bool done() const { return all_flushed(end_); }

 private:
  Connection& end_;
  std::array<Bytes, 2> answers_;
  int round_ = 0;
  bool computed_ = false;
};

TEST(VerbsLanding, APlaceThatIsLentTakesTheAnswerWhateverBreaks) {
  constexpr int kRounds = 300;
  std::mt19937_64 random(test_seed());
  int landed = 0;
  for (const int ports : {1, 2}) {
    for (const std::uint32_t credits : {1U, 3U}) {
      std::pmr::set_default_resource(RegisteredResource::of_process());
      Pair pair(on_emulated("round trips", ports, {.pairs = 2}), 16384, credits);
      ASSERT_TRUE(pair.ready);
      {
        Asker asker(*pair.ends[0]);
        Answerer answerer(*pair.ends[1]);
        int step = 0;
        EXPECT_TRUE(eventually([&] {
          break_something(random, step++);
          asker.step(kRounds);
          answerer.step();
          const bool failed = !pair.ends[0]->status().ok() || !pair.ends[1]->status().ok();
          return failed || asker.wrong != 0 || (asker.done(kRounds) && answerer.done());
        }));
        for (auto& end : pair.ends) EXPECT_TRUE(end->status().ok()) << end->status().text();
        EXPECT_EQ(asker.wrong, 0);
        landed += asker.landed;
      }
      std::pmr::set_default_resource(nullptr);
      if (testing::Test::HasFailure()) return;
      mend_all();
    }
  }
  EXPECT_GT(landed, 0);
}

TEST(VerbsLending, WhatADeviceHasNoRoomForIsCopied) {
  Pair pair(on_emulated("no_room", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  const Block block(64 << 10);
  Fabric::now().fail("ibv_reg_mr", ENOMEM);
  EXPECT_FALSE(pair.ends[0]->lending()->lends(block.data, block.bytes, Fetch::never));
  EXPECT_FALSE(pair.ends[0]->lending()->lends(block.data, block.bytes, Fetch::never))
      << "not asked again";
  EXPECT_TRUE(pair.ends[0]->status().ok());
}

TEST(VerbsLending, BytesOfTheProgramsMemoryMayPassEachOtherOnTheBusAndThoseOfSlotsMayNot) {
  Pair pair(on_emulated("relaxed", 2, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  const Block block(64 << 10);
  ASSERT_TRUE(pair.ends[0]->lending()->lends(block.data, block.bytes, Fetch::never));
  constexpr int kWritten = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  constexpr int kRelaxed = kWritten | IBV_ACCESS_RELAXED_ORDERING;
  EXPECT_THAT(Fabric::now().access_to(block.data), testing::ElementsAre(kRelaxed, kRelaxed))
      << "at each device";
  std::byte* slot = nullptr;
  ASSERT_TRUE(pair.drive([&] { return (slot = pair.ends[0]->acquire(64)) != nullptr; }));
  EXPECT_THAT(Fabric::now().access_to(slot), testing::ElementsAre(kWritten, kWritten));
}

TEST(VerbsLending, WhatIsWithdrawnIsReadNoMore) {
  Pair pair(on_emulated("withdrawn", 1, {}), 64 << 10);
  ASSERT_TRUE(pair.ready);
  const Block block(64 << 10);
  Connection& to = *pair.ends[0];
  ASSERT_TRUE(to.lending()->lends(block.data, block.bytes, Fetch::never));
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

}  // namespace
}  // namespace coll::test
