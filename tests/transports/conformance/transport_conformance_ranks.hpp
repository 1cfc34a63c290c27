// SPDX-License-Identifier: Apache-2.0
// The part of the suite with ranks as threads and as processes; included by
// transport_conformance.hpp.
#pragma once
#include <csignal>
#include <thread>

#include "transports/conformance/transport_conformance.hpp"
#include "transports/lone_rank.hpp"
#include "transports/traffic.hpp"
#include "transports/transport_backend.hpp"

namespace coll::test {

/// Few enough for a machine that is so busy that every turn waits for the scheduler.
constexpr int kMessages = 200;
constexpr std::size_t kTalkBytes = 32 << 10;  ///< long enough to be lent

/// Both ways at once, then a strict ping-pong.
inline bool talk(const Backend& backend, Rank rank, std::uint64_t job, Table& table,
                 std::uint64_t seed, int messages) {
  LoneRank self(backend, rank, job, table,
                {.peer = 0, .lane = 0, .slot_bytes = kTalkBytes, .credits = 3});
  if (!self.ready) return false;
  const std::uint64_t mine = seed + static_cast<std::uint64_t>(rank);
  const std::uint64_t other = seed + static_cast<std::uint64_t>(1 - rank);
  Exchange both(*self.end, mine, other, messages);
  bool good = eventually([&] {
    both.step();
    return both.done();
  });
  good = good && both.good();
  Traffic ball(seed + 2, kTalkBytes);
  for (int turn = 0; good && turn < messages / 4; ++turn) {
    auto got = Traffic::Got::nothing;
    good = eventually([&] {
      nudge(*self.end);
      if (turn % 2 == rank) return ball.send(*self.end) || !self.end->status().ok();
      got = ball.receive(*self.end);
      return got != Traffic::Got::nothing || !self.end->status().ok();
    });
    good = good && self.end->status().ok() && (turn % 2 == rank || got == Traffic::Got::right);
    ball.next();
  }
  good = good && eventually([&] {
           nudge(*self.end);
           return all_flushed(*self.end);
         });
  return good && table.meet(rank);
}

TEST_P(TransportConformance, TwoThreadsTalk) {
  const std::uint64_t job = fresh_job();
  const std::uint64_t seed = test_seed();
  Table table;
  bool good[2] = {false, false};
  std::thread other([&] { good[1] = talk(GetParam(), 1, job, table, seed, kMessages); });
  good[0] = talk(GetParam(), 0, job, table, seed, kMessages);
  if (!good[0]) table.leave(0);
  other.join();
  EXPECT_TRUE(good[0]);
  EXPECT_TRUE(good[1]);
}

TEST_P(TransportConformance, TwoProcessesTalk) {
  if (!GetParam().crosses_processes) GTEST_SKIP() << "ranks of one process only";
  const std::uint64_t job = fresh_job();
  const std::uint64_t seed = test_seed();
  Table table;
  const pid_t child = in_child([&] {
    table.leave(0);
    return talk(GetParam(), 1, job, table, seed, kMessages);
  });
  table.leave(1);
  EXPECT_TRUE(talk(GetParam(), 0, job, table, seed, kMessages));
  table.leave(0);
  EXPECT_EQ(status_of(child), 0);
}

TEST_P(TransportConformance, DeathOfThePeerIsBounded) {
  if (!GetParam().crosses_processes) GTEST_SKIP() << "ranks of one process only";
  for (const Rank survivor : {0, 1}) {
    const std::uint64_t job = fresh_job();
    Table table;
    const ConnectionSpec spec{.peer = 0, .lane = 0, .slot_bytes = kTalkBytes, .credits = 2};
    const std::vector<std::byte> last(kTalkBytes, std::byte{7});
    const pid_t child = in_child([&] {
      table.leave(survivor);
      LoneRank self(GetParam(), 1 - survivor, job, table, spec);
      if (!self.ready) return false;
      bool sent = false;
      eventually([&] {
        nudge(*self.end);
        sent = sent || self.end->send(last.data(), last.size(), 1);
        return sent && all_flushed(*self.end);
      });
      table.meet(1 - survivor);
      for (;;) ::pause();
    });
    table.leave(1 - survivor);
    LoneRank self(GetParam(), survivor, job, table, spec);
    EXPECT_TRUE(self.ready);
    EXPECT_TRUE(table.meet(survivor));
    if (self.ready && !GetParam().outlives_sender) {
      EXPECT_TRUE(eventually([&] {
        nudge(*self.end);
        return self.end->peek(last.size(), 1) != nullptr;
      }));
    }
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(status_of(child)));
    if (!self.ready) continue;
    Connection& end = *self.end;
    std::vector<std::byte> got(last.size());
    EXPECT_TRUE(eventually([&] {
      nudge(end);
      return end.receive(got.data(), got.size(), 1);
    })) << end.status().text();
    EXPECT_EQ(got, last);
    for (int turn = 0; turn < 1000; ++turn) {
      EXPECT_EQ(end.peek(1, 1), nullptr);
      end.send(bytes_of("?"), 1, 1);
      nudge(end);
    }
    if (GetParam().sees_death) {
      EXPECT_TRUE(eventually([&] {
        nudge(end);
        end.peek(1, 1);
        return !end.status().ok();
      }));
      EXPECT_EQ(end.status().code(), Code::peer_lost) << end.status().text();
      EXPECT_EQ(end.status().rank(), 1 - survivor);
    } else {
      EXPECT_TRUE(end.status().ok());
    }
  }
}

}  // namespace coll::test
