// SPDX-License-Identifier: Apache-2.0
// The suite of one thread. A backend's own file includes it and instantiates TransportConformance;
// one that lends instantiates LendingConformance too.
#pragma once
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>

#include "transports/traffic.hpp"
#include "transports/transport_backend.hpp"

namespace coll::test {

class TransportConformance : public testing::TestWithParam<Backend> {
 protected:
  TransportConformance() { std::pmr::set_default_resource(GetParam().memory); }
  ~TransportConformance() override { std::pmr::set_default_resource(nullptr); }
  void SetUp() override {
    if (!GetParam().absent) return;
    if (const std::string why = GetParam().absent(); !why.empty()) GTEST_SKIP() << why;
  }
};

inline const std::byte* bytes_of(const char* text) {
  return reinterpret_cast<const std::byte*>(text);
}
inline std::ptrdiff_t open_files() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

// --- messages

TEST_P(TransportConformance, MessagesArriveWholeAndInOrder) {
  for (const std::uint32_t credits : {1U, 2U, 3U, 8U}) {
    Pair pair(GetParam(), 32 << 10, credits);  // long enough to be fetched
    ASSERT_TRUE(pair.ready);
    const std::uint64_t seed = test_seed() + credits;
    Exchange a(*pair.ends[0], seed, ~seed, GetParam().messages);
    Exchange b(*pair.ends[1], ~seed, seed, GetParam().messages);
    std::mt19937_64 turns(seed);
    EXPECT_TRUE(eventually([&] {
      (turns() % 2 == 0 ? a : b).step();
      return a.done() && b.done();
    }));
    EXPECT_TRUE(a.good() && b.good()) << credits << " credits";
    EXPECT_EQ(a.loans() > 0, GetParam().lends) << credits << " credits";
  }
}

TEST_P(TransportConformance, AnEmptyMessageIsAMessage) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.ready);
  EXPECT_EQ(pair.ends[1]->peek(0, 7), nullptr);
  ASSERT_TRUE(pair.drive([&] { return pair.ends[0]->send(nullptr, 0, 7); }));
  ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->peek(0, 7) != nullptr; }));
  pair.ends[1]->release();
  EXPECT_EQ(pair.ends[1]->peek(0, 7), nullptr);
  ASSERT_TRUE(pair.drive([&] { return pair.ends[0]->send(nullptr, 0, 8); }));
  EXPECT_TRUE(pair.drive([&] { return pair.ends[1]->receive(nullptr, 0, 8); }));
}

TEST_P(TransportConformance, AcquiringAgainGivesTheSamePlace) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.ready);
  for (const std::size_t bytes : {0UL, 1UL, 48UL, 49UL, 1024UL}) {
    std::byte* place = nullptr;
    ASSERT_TRUE(pair.drive([&] { return (place = pair.ends[0]->acquire(bytes)) != nullptr; }));
    EXPECT_EQ(pair.ends[0]->acquire(bytes), place);
    std::fill_n(place, bytes, std::byte{42});
    pair.ends[0]->commit(bytes, bytes);
    const std::byte* found = nullptr;
    ASSERT_TRUE(pair.drive([&] { return (found = pair.ends[1]->peek(bytes, bytes)) != nullptr; }));
    EXPECT_EQ(pair.ends[1]->peek(bytes, bytes), found);
    EXPECT_EQ(std::count(found, found + bytes, std::byte{42}), static_cast<std::ptrdiff_t>(bytes));
    pair.ends[1]->release();
  }
}

TEST_P(TransportConformance, SpentCreditsComeBack) {
  Pair pair(GetParam(), 4096, 2);
  ASSERT_TRUE(pair.ready);
  const std::vector<std::byte> data(4096, std::byte{1});
  for (int round = 0; round < 3; ++round) {
    // The FIFO is bounded: an unread stream comes to a stop, after at least one message.
    ASSERT_TRUE(pair.drive([&] { return pair.ends[0]->acquire(data.size()) != nullptr; }));
    std::uint64_t sent = 0;
    for (int refused = 0; refused < 1000; ++refused) {
      while (sent < 100'000 && pair.ends[0]->acquire(data.size()) != nullptr) {
        std::ranges::copy(data, pair.ends[0]->acquire(data.size()));
        pair.ends[0]->commit(data.size(), ++sent);
        refused = 0;
      }
      nudge(*pair.ends[0]);
    }
    ASSERT_GE(sent, 1U);
    ASSERT_LT(sent, 100'000U);
    std::vector<std::byte> got(data.size());
    for (std::uint64_t message = 1; message <= sent; ++message)
      ASSERT_TRUE(
          pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), message); }));
    EXPECT_EQ(got, data);
  }
}

TEST_P(TransportConformance, BothMaySendFirstWithOneCredit) {
  Pair pair(GetParam(), 64 << 10, 1);
  ASSERT_TRUE(pair.ready);
  std::vector<std::byte> data(64 << 10, std::byte{3});
  std::vector<std::byte> got(data.size());
  for (std::uint64_t round = 0; round < 20; ++round) {
    // Each sends until it is through, and only then receives.
    for (auto& end : pair.ends)
      ASSERT_TRUE(pair.drive([&] { return end->send(data.data(), data.size(), round); }));
    for (auto& end : pair.ends)
      ASSERT_TRUE(pair.drive([&] { return end->receive(got.data(), got.size(), round); }));
  }
}

TEST_P(TransportConformance, AMessageOfAnotherCallIsAMismatchAndStaysUnread) {
  constexpr std::size_t kLong = 64 << 10;
  struct Case {
    std::size_t bytes;
    std::uint64_t digest;
    std::size_t expected;
  };
  for (const Case wrong : {Case{100, 6, 100}, Case{99, 5, 100}, Case{0, 5, 100}, Case{1000, 5, 100},
                           Case{kLong, 6, kLong}, Case{kLong, 5, kLong - 1}}) {
    for (const Taking taking : {Taking::received, Taking::looked_at, Taking::parts}) {
      Pair pair(GetParam(), kLong);
      ASSERT_TRUE(pair.ready);
      Connection& from = *pair.ends[1];
      const std::vector<std::byte> data(kLong);
      std::vector<std::byte> got(kLong);
      ASSERT_TRUE(
          pair.drive([&] { return pair.ends[0]->send(data.data(), wrong.bytes, wrong.digest); }));
      EXPECT_TRUE(pair.drive([&] {
        if (taking == Taking::looked_at) {
          EXPECT_EQ(from.peek(wrong.expected, 5), nullptr);
        } else if (taking == Taking::parts) {
          EXPECT_EQ(from.peek_part(0, wrong.expected / 2, wrong.expected, 5, got.data()), nullptr);
        } else {
          EXPECT_FALSE(from.receive(got.data(), wrong.expected, 5));
        }
        return !from.status().ok();
      }));
      EXPECT_EQ(from.status().code(), Code::mismatch) << from.status().text();
      EXPECT_EQ(from.status().rank(), 0);
      // For good, even for who asks rightly now.
      EXPECT_EQ(from.peek(wrong.bytes, wrong.digest), nullptr);
      EXPECT_FALSE(from.receive(got.data(), wrong.bytes, wrong.digest));
      EXPECT_EQ(from.acquire(8), nullptr);
      EXPECT_FALSE(from.send(data.data(), 8, 5));
      EXPECT_EQ(from.status().code(), Code::mismatch);
    }
  }
}

TEST_P(TransportConformance, BothEndsCanLendOrNeither) {
  Ranks ranks(GetParam());
  const auto spec = [](Rank peer) {
    return ConnectionSpec{.peer = peer, .lane = 0, .slot_bytes = 64, .credits = 1};
  };
  const std::unique_ptr<Connection> ends[] = {ranks.open(0, spec(1)), ranks.open(1, spec(0))};
  ASSERT_TRUE(ends[0] && ends[1]);
  const Lending* const before[] = {ends[0]->lending(), ends[1]->lending()};
  ASSERT_TRUE(ranks.settle(*ends[0], *ends[1]));
  for (const int end : {0, 1}) {
    EXPECT_EQ(before[end] != nullptr, GetParam().can_lend);
    EXPECT_EQ(ends[end]->lending(), before[end]) << "it is asked for once";
  }
}

TEST_P(TransportConformance, BothEndsSayTheSameOfTheirPath) {
  const Ranks ranks(GetParam());
  const auto path = [&](std::size_t from, std::size_t to) {
    return ranks.transports[from]->path(ranks.transports[to]->descriptor());
  };
  EXPECT_EQ(path(0, 1), path(1, 0));
}

// --- opening and closing

TEST_P(TransportConformance, EitherEndMayComeFirst) {
  for (const Rank first : {0, 1}) {
    Ranks ranks(GetParam());
    const ConnectionSpec spec{.peer = 0, .lane = 3, .slot_bytes = 256, .credits = 2};
    std::unique_ptr<Connection> ends[2];
    for (const Rank rank : {first, 1 - first}) {
      ConnectionSpec mine = spec;
      mine.peer = 1 - rank;
      ends[rank] = ranks.open(rank, mine);
      ASSERT_NE(ends[rank], nullptr);
      for (int turn = 0; turn < 50; ++turn) ranks.poll();
      if (rank == first) {
        EXPECT_FALSE(ends[rank]->ready());
      }
    }
    ASSERT_TRUE(ranks.settle(*ends[0], *ends[1]));
    EXPECT_TRUE(ends[0]->ready() && ends[1]->ready());
    EXPECT_EQ(ends[0]->peer(), 1);
    EXPECT_EQ(ends[0]->slot_bytes(), 256U);
  }
}

TEST_P(TransportConformance, EndsAreDestroyedInAnyOrder) {
  for (const int first : {0, 1}) {
    Pair pair(GetParam());
    ASSERT_TRUE(pair.ready);
    ASSERT_TRUE(pair.drive([&] { return pair.ends[first]->send(bytes_of("bye"), 3, 1); }));
    ASSERT_TRUE(pair.drive([&] { return all_flushed(*pair.ends[first]); }));
    pair.ends[first].reset();
    // What was sent before still arrives; then nothing, or a failure, but no crash.
    std::array<std::byte, 3> got{};
    Connection& left = *pair.ends[1 - first];
    EXPECT_TRUE(eventually([&] {
      nudge(left);
      return left.receive(got.data(), got.size(), 1);
    }));
    for (int turn = 0; turn < 100; ++turn) {
      EXPECT_EQ(left.peek(1, 1), nullptr);
      left.send(bytes_of("?"), 1, 1);
      nudge(left);
    }
  }
}

TEST_P(TransportConformance, AnEndMayGoBeforeItWasReady) {
  Ranks ranks(GetParam());
  const auto spec = [](Rank peer) {
    return ConnectionSpec{.peer = peer, .lane = 0, .slot_bytes = 64, .credits = 1};
  };
  for (const Rank rank : {0, 1}) {
    auto lonely = ranks.open(rank, spec(1 - rank));
    ranks.transports[static_cast<std::size_t>(rank)]->poll();
  }
  // Nor does it harm those who try again.
  auto a = ranks.open(0, spec(1));
  auto b = ranks.open(1, spec(0));
  ASSERT_TRUE(ranks.settle(*a, *b));
  EXPECT_TRUE(b->ready()) << b->status().text();
}

TEST_P(TransportConformance, ManyLanesToManyPeersDoNotMix) {
  constexpr Rank kRanks = 4;
  constexpr std::uint32_t kLanes = 4;
  Ranks ranks(GetParam(), kRanks);
  struct End {
    std::unique_ptr<Connection> connection;
    std::uint64_t out, in;
  };
  std::vector<End> ends;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (Rank peer = 0; peer < kRanks; ++peer) {
      for (std::uint32_t turn = 0; peer != rank && turn < kLanes; ++turn) {
        const std::uint32_t lane = rank < peer ? turn : kLanes - 1 - turn;
        const auto seed = [&](Rank from, Rank to) {
          return test_seed() + lane * 100 + static_cast<std::uint64_t>(from * 10 + to);
        };
        ends.push_back(
            {ranks.open(rank, {.peer = peer, .lane = lane, .slot_bytes = 256, .credits = 2}),
             seed(rank, peer), seed(peer, rank)});
        ASSERT_NE(ends.back().connection, nullptr);
      }
    }
  }
  ASSERT_TRUE(eventually([&] {
    ranks.poll();
    return std::ranges::all_of(ends, [](const End& end) { return end.connection->ready(); });
  }));
  std::vector<Exchange> exchanges;
  for (End& end : ends) exchanges.emplace_back(*end.connection, end.out, end.in, 30);
  EXPECT_TRUE(eventually([&] {
    for (Exchange& exchange : exchanges) exchange.step();
    return std::ranges::all_of(exchanges, &Exchange::done);
  }));
  EXPECT_TRUE(std::ranges::all_of(exchanges, &Exchange::good));
}

TEST_P(TransportConformance, DifferentSettingsOfTheTwoEndsAreAMismatch) {
  Ranks ranks(GetParam());
  auto a = ranks.open(0, {.peer = 1, .lane = 0, .slot_bytes = 64, .credits = 1});
  auto b = ranks.open(1, {.peer = 0, .lane = 0, .slot_bytes = 128, .credits = 1});
  EXPECT_TRUE(eventually([&] {
    ranks.poll();
    return !a->status().ok() && !b->status().ok();
  }));
  EXPECT_EQ(a->status().code(), Code::mismatch) << a->status().text();
  EXPECT_EQ(b->status().code(), Code::mismatch) << b->status().text();
}

TEST_P(TransportConformance, BadRequestsAreRefused) {
  Ranks ranks(GetParam());
  const ConnectionSpec good{.peer = 0, .lane = 0, .slot_bytes = 64, .credits = 1};
  std::vector<ConnectionSpec> bad(8, good);
  bad[0].peer = 1;  // itself
  bad[1].peer = 2;
  bad[2].peer = -1;
  bad[3].slot_bytes = 0;
  bad[4].slot_bytes = 63;
  bad[5].credits = 0;
  bad[6].slot_bytes = std::size_t{1} << 62;
  bad[6].credits = 4;  // together no bytes at all, as size_t counts
  bad[7].slot_bytes = std::size_t{1} << 30;
  bad[7].credits = 0xffffffff;
  for (const ConnectionSpec& spec : bad) {
    const auto opened = ranks.transports[1]->open(spec, ranks.transports[0]->descriptor());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), Code::invalid_argument) << opened.status().text();
  }
  EXPECT_FALSE(ranks.transports[1]->open(good, "no descriptor at all").ok());
}

TEST_P(TransportConformance, OpeningAgainWhatIsBeingOpenedIsRefused) {
  Ranks ranks(GetParam());
  std::unique_ptr<Connection> ends[2];
  for (const Rank rank : {0, 1}) {
    const ConnectionSpec spec{.peer = 1 - rank, .lane = 3, .slot_bytes = 64, .credits = 1};
    ends[rank] = ranks.open(rank, spec);
    const auto again = ranks.transports[static_cast<std::size_t>(rank)]->open(
        spec, ranks.transports[static_cast<std::size_t>(1 - rank)]->descriptor());
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.status().code(), Code::invalid_usage) << again.status().text();
  }
  EXPECT_TRUE(ranks.settle(*ends[0], *ends[1]));
  EXPECT_TRUE(ends[0]->ready() && ends[1]->ready()) << "the first ones go on";
}

TEST_P(TransportConformance, AcceptanceIsSymmetric) {
  Ranks ranks(GetParam());
  EXPECT_TRUE(ranks.transports[0]->accepts(ranks.transports[1]->descriptor()).ok());
  EXPECT_TRUE(ranks.transports[1]->accepts(ranks.transports[0]->descriptor()).ok());
  for (const char* other : {"", "x", "shm1 a b", "shm1 a b 1 c", "tcp1"}) {
    EXPECT_FALSE(ranks.transports[0]->accepts(other).ok()) << other;
  }
}

TEST_P(TransportConformance, NobodyThereIsUnreachable) {
  Ranks ranks(GetParam());
  const std::string gone = ranks.transports[0]->descriptor();
  ranks.transports[0].reset();
  auto opened =
      ranks.transports[1]->open({.peer = 0, .lane = 0, .slot_bytes = 64, .credits = 1}, gone);
  if (opened.ok()) {
    EXPECT_TRUE(eventually([&] {
      ranks.transports[1]->poll();
      return !(*opened)->status().ok();
    }));
  }
  const Status status = opened.ok() ? (*opened)->status() : opened.status();
  EXPECT_EQ(status.code(), Code::unreachable) << status.text();
  EXPECT_EQ(status.rank(), 0);
}

// --- strangers and descriptors

TEST_P(TransportConformance, StrangersAreHarmless) {
  if (!GetParam().knock) GTEST_SKIP() << "no door";
  Ranks ranks(GetParam());
  std::mt19937_64 random(test_seed());
  std::vector<Fd> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(GetParam().knock(ranks.transports[0]->descriptor()));
    if (!strangers.back()) {
      ranks.poll();
      continue;
    }
    std::vector<std::byte> garbage(i % 3 == 0 ? 0 : random() % 5000);  // a third says nothing
    for (std::byte& value : garbage) value = static_cast<std::byte>(random());
    if (!garbage.empty())
      ::send(strangers.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (i % 5 == 0) strangers.back().reset();
    if (random() % 8 == 0) ranks.poll();
  }
  auto a = ranks.open(0, {.peer = 1, .lane = 0, .slot_bytes = 64, .credits = 1});
  auto b = ranks.open(1, {.peer = 0, .lane = 0, .slot_bytes = 64, .credits = 1});
  ASSERT_TRUE(ranks.settle(*a, *b));
  EXPECT_TRUE(a->ready() && b->ready()) << a->status().text() << b->status().text();
}

TEST_P(TransportConformance, ARankOfAnotherJobIsAStranger) {
  Ranks ours(GetParam());
  Ranks theirs(GetParam());
  const ConnectionSpec to_peer{.peer = 1, .lane = 0, .slot_bytes = 64, .credits = 1};
  const ConnectionSpec to_zero{.peer = 0, .lane = 0, .slot_bytes = 64, .credits = 1};
  auto a = ours.open(0, to_peer);
  auto intruder = theirs.transports[1]->open(to_zero, ours.transports[0]->descriptor());
  for (int turn = 0; turn < 200; ++turn) {
    ours.poll();
    theirs.poll();
  }
  EXPECT_FALSE(a->ready());
  EXPECT_TRUE(a->status().ok());
  EXPECT_FALSE(intruder.ok() && (*intruder)->ready());
  auto b = ours.open(1, to_zero);
  ASSERT_TRUE(ours.settle(*a, *b));
  EXPECT_TRUE(a->ready() && b->ready()) << a->status().text();
}

TEST_P(TransportConformance, NoDescriptorLeaks) {
  const auto once = [&] {
    Pair pair(GetParam());
    EXPECT_TRUE(pair.ready);
    auto lonely = pair.ranks.open(1, {.peer = 0, .lane = 9, .slot_bytes = 64, .credits = 1});
    pair.ranks.poll();
  };
  once();  // whatever is opened for good is open now
  const std::ptrdiff_t before = open_files();
  for (int round = 0; round < 10; ++round) once();
  EXPECT_EQ(open_files(), before);
}

TEST_P(TransportConformance, TooFewDescriptorsIsAClearFailure) {
  if (!GetParam().uses_descriptors) GTEST_SKIP() << "needs no descriptors";
  Ranks ranks(GetParam());
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  int failures = 0, last_failures = 0;
  // One more descriptor each time, until there are enough, even if other numbers from the lowest
  // free one on are taken: every place where they can run out.
  const auto run_out = [&] {
    for (rlim_t spare = 0; spare < 32; ++spare) {
      last_failures = 0;
      rlimit few = old;
      few.rlim_cur = static_cast<rlim_t>(::dup(0)) + spare;  // the lowest free number
      ::close(static_cast<int>(few.rlim_cur - spare));
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      const auto make = [&](Rank rank) {
        return ranks.transports[static_cast<std::size_t>(rank)]->open(
            {.peer = 1 - rank, .lane = 0, .slot_bytes = 64, .credits = 1},
            ranks.transports[static_cast<std::size_t>(1 - rank)]->descriptor());
      };
      {
        auto a = make(0);
        auto b = make(1);
        const auto over = [](auto& end) {
          return !end.ok() || (*end)->ready() || !(*end)->status().ok();
        };
        for (int turn = 0; turn < 5000 && !(over(a) && over(b)); ++turn) ranks.poll();
        for (auto* end : {&a, &b}) {
          const Status status = end->ok() ? (**end)->status() : end->status();
          if (status.ok()) continue;
          ++failures;
          ++last_failures;
          EXPECT_EQ(status.code(), Code::out_of_resources) << status.text();
        }
        setrlimit(RLIMIT_NOFILE, &old);
      }
      ranks.poll();
    }
    for (int turn = 0; turn < 100; ++turn) ranks.poll();
    // Else the last caller is kept, for whoever may still await it.
    EXPECT_EQ(last_failures, 0) << "there were never enough descriptors";
  };
  run_out();  // what is kept of a peer is there now
  const std::ptrdiff_t before = open_files();
  run_out();
  EXPECT_EQ(open_files(), before);
  EXPECT_GT(failures, 0);
  auto a = ranks.open(0, {.peer = 1, .lane = 1, .slot_bytes = 64, .credits = 1});
  auto b = ranks.open(1, {.peer = 0, .lane = 1, .slot_bytes = 64, .credits = 1});
  ASSERT_TRUE(ranks.settle(*a, *b));
  EXPECT_TRUE(a->ready() && b->ready());
}

}  // namespace coll::test

#include "transports/conformance/mark_conformance.hpp"
#include "transports/conformance/transport_conformance_ranks.hpp"
