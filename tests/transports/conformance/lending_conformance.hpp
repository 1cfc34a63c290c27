// SPDX-License-Identifier: Apache-2.0
// The suite of connections that lend. Where the machine lets nothing be lent, the tests send
// instead, which must keep the same promises.
#pragma once
#include "sys/memory/peer_memory.hpp"
#include "transports/conformance/transport_conformance.hpp"

namespace coll::test {

constexpr std::size_t kLoanBytes = 64 << 10;  ///< long enough wherever lending pays

using Payload = std::pmr::vector<std::byte>;  ///< in the backend's memory

class LendingConformance : public TransportConformance {};

inline bool would_lend(Connection& to, const Payload& data) {
  return would_lend(to, data.data(), data.size());
}

/// Lends, or else sends; true once it is done.
inline bool give(Connection& to, const Payload& data, std::uint64_t digest) {
  if (would_lend(to, data)) return to.lending()->lend(data.data(), data.size(), digest);
  return to.send(data.data(), data.size(), digest);
}

inline Payload filled(int value, std::size_t bytes = kLoanBytes) {
  return Payload(bytes, static_cast<std::byte>(value));
}

/// Only with messages that need a slot does a connection learn what its peer can reach.
inline bool acquaint(Pair& pair) {
  std::array<std::byte, 512> word{};
  for (const int from : {0, 1}) {
    if (!pair.drive([&] { return pair.ends[from]->send(word.data(), word.size(), 0); }) ||
        !pair.drive([&] { return pair.ends[1 - from]->receive(word.data(), word.size(), 0); }))
      return false;
  }
  return true;
}

/// A pair of ranks that know each other.
class LendingPair : public Pair {
 public:
  explicit LendingPair(std::uint32_t credits = 4) : Pair(Test::GetParam(), kLoanBytes, credits) {
    ready = ready && acquaint(*this);
    if (!ready) return;
    EXPECT_EQ(would_lend(*ends[0], filled(0)), Test::GetParam().lends);
  }

  /// `done`, within a hundred turns of both ends.
  template <class Done>
  bool soon(Done done) {
    for (int turn = 0; turn < 100; ++turn) {
      if (done()) return true;
      nudge(*ends[0]);
      nudge(*ends[1]);
    }
    return false;
  }

 private:
  using Test = TransportConformance;
};

TEST_P(LendingConformance, ALoanLastsUntilItsReceiverIsDone) {
  for (const bool peeks : {true, false}) {
    LendingPair pair;
    ASSERT_TRUE(pair.ready);
    Payload lent = filled(1);
    ASSERT_TRUE(pair.drive([&] { return give(*pair.ends[0], lent, 1); }));
    const auto keeps = [&] {
      return !pair.soon([&] { return all_flushed(*pair.ends[0]) == GetParam().lends; });
    };
    if (GetParam().lends) {
      EXPECT_TRUE(keeps()) << "nobody has asked for it yet";
    }
    // Nor does it wait for what is sent afterwards and not read.
    const auto send_more = [&] { return pair.ends[0]->send(bytes_of("more"), 4, 2); };
    const bool more = send_more();
    Payload got = filled(2);
    if (peeks) {
      const std::byte* place = nullptr;
      ASSERT_TRUE(pair.drive([&] { return (place = pair.ends[1]->peek(got.size(), 1)); }));
      if (GetParam().lends) {
        EXPECT_TRUE(keeps()) << "it is being looked at";
      }
      std::copy_n(pair.ends[1]->peek(got.size(), 1), got.size(), got.data());
      pair.ends[1]->release();
    } else {
      ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), 1); }));
    }
    EXPECT_EQ(got, filled(1));
    EXPECT_TRUE(pair.drive([&] { return all_flushed(*pair.ends[0]); }));
    EXPECT_TRUE(more || pair.drive(send_more));
    EXPECT_TRUE(pair.drive([&] { return pair.ends[1]->receive(got.data(), 4, 2); }));
  }
}

TEST_P(LendingConformance, LentMemoryIsFreeForAnythingAfterwards) {
  LendingPair pair;
  ASSERT_TRUE(pair.ready);
  Payload lent = filled(0);
  Payload got = filled(0);
  for (int round = 1; round < 50; ++round) {
    std::ranges::fill(lent, static_cast<std::byte>(round));
    ASSERT_TRUE(pair.drive([&] { return give(*pair.ends[0], lent, 1); }));
    ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), 1); }));
    ASSERT_TRUE(pair.drive([&] { return all_flushed(*pair.ends[0]); }));
    std::ranges::fill(lent, std::byte{0xbd});
    ASSERT_EQ(got, filled(round));
  }
}

/// What is sent later may be read later, or never.
TEST_P(LendingConformance, AMarkIsReachedAlthoughALaterLoanIsUnread) {
  for (const bool message_between : {false, true}) {
    LendingPair pair;
    ASSERT_TRUE(pair.ready);
    if (!GetParam().lends) GTEST_SKIP() << "lends nothing";
    Connection& to = *pair.ends[0];
    Connection& from = *pair.ends[1];
    const Payload earlier = filled(1), later = filled(2);
    ASSERT_TRUE(pair.soon([&] { return give(to, earlier, 1); }));
    if (message_between && !pair.soon([&] { return to.send(bytes_of("more"), 4, 2); }))
      GTEST_SKIP() << "varies its credits";
    const Mark mark = to.mark();
    if (!pair.soon([&] { return give(to, later, 3); })) GTEST_SKIP() << "varies its credits";
    EXPECT_FALSE(to.flushed(mark)) << "nothing was read";
    Payload got = filled(0);
    ASSERT_TRUE(pair.drive([&] { return from.receive(got.data(), got.size(), 1); }));
    EXPECT_TRUE(pair.drive([&] { return to.flushed(mark); }));
    EXPECT_FALSE(all_flushed(to)) << "the later loan was not read";
    if (message_between) {
      ASSERT_TRUE(pair.drive([&] { return from.receive(got.data(), 4, 2); }));
    }
    ASSERT_TRUE(pair.drive([&] { return from.receive(got.data(), got.size(), 3); }));
    EXPECT_TRUE(pair.drive([&] { return all_flushed(to); }));
    EXPECT_TRUE(to.flushed(mark)) << "still";
  }
}

TEST_P(LendingConformance, WhatWasWithdrawnGoesNoFurther) {
  if (!GetParam().lends) GTEST_SKIP() << "lends nothing";
  enum class When : std::uint8_t { before_receive, before_peek, while_peeked, afterwards };
  for (const When when :
       {When::before_receive, When::before_peek, When::while_peeked, When::afterwards}) {
    LendingPair pair;
    ASSERT_TRUE(pair.ready);
    Connection& from = *pair.ends[1];
    Payload lent = filled(1);
    Payload got = filled(2);
    ASSERT_TRUE(pair.drive([&] { return give(*pair.ends[0], lent, 1); }));
    if (when == When::while_peeked) {
      ASSERT_TRUE(pair.drive([&] { return from.peek(got.size(), 1) != nullptr; }));
      EXPECT_TRUE(from.lending()->intact());
    } else if (when == When::afterwards) {
      ASSERT_TRUE(pair.drive([&] { return from.receive(got.data(), got.size(), 1); }));
    }
    pair.ends[0]->lending()->withdraw();
    std::ranges::fill(lent, std::byte{0xbd});
    if (when == When::afterwards) {
      EXPECT_EQ(got, filled(1));
      EXPECT_TRUE(pair.drive([&] { return give(*pair.ends[0], lent, 2); }));
      EXPECT_TRUE(pair.drive([&] { return from.receive(got.data(), got.size(), 2); }));
      continue;
    }
    EXPECT_TRUE(pair.drive([&] {
      if (when == When::before_receive) {
        EXPECT_FALSE(from.receive(got.data(), got.size(), 1));
      } else if (from.peek(got.size(), 1) != nullptr) {
        EXPECT_FALSE(from.lending()->intact());
      }
      return !from.status().ok();
    }));
    EXPECT_EQ(from.status().code(), Code::peer_lost) << from.status().text();
    EXPECT_EQ(from.status().rank(), 0);
    EXPECT_EQ(from.peek(got.size(), 1), nullptr);
  }
}

TEST_P(LendingConformance, CreditsBoundLoansToo) {
  constexpr std::uint32_t kCredits = 3;
  LendingPair pair(kCredits);
  ASSERT_TRUE(pair.ready);
  if (!GetParam().lends) GTEST_SKIP() << "lends nothing";
  std::vector<Payload> lent;
  for (int message = 0; message < 100; ++message) lent.push_back(filled(message));
  for (std::size_t round = 0; round < 3; ++round) {
    std::size_t given = 0;
    for (int refused = 0; refused < 100; ++refused) {
      while (given < lent.size() && give(*pair.ends[0], lent[given], given)) ++given;
      nudge(*pair.ends[0]);
    }
    ASSERT_GE(given, 1U);
    ASSERT_LE(given, kCredits);
    Payload got = filled(0);
    for (std::size_t message = 0; message < given; ++message) {
      EXPECT_FALSE(all_flushed(*pair.ends[0])) << "one flush is for all loans";
      ASSERT_TRUE(
          pair.drive([&] { return pair.ends[1]->receive(got.data(), got.size(), message); }));
      ASSERT_EQ(got, lent[message]);
    }
    ASSERT_TRUE(pair.drive([&] { return all_flushed(*pair.ends[0]); }));
  }
}

TEST_P(LendingConformance, ALoanOfAnotherCallIsAMismatchAndStaysUnread) {
  struct Case {
    std::size_t bytes;
    std::uint64_t digest;
  };
  for (const Case expected : {Case{kLoanBytes, 6}, Case{kLoanBytes - 1, 5}, Case{0, 5}}) {
    for (const bool peeks : {true, false}) {
      LendingPair pair;
      ASSERT_TRUE(pair.ready);
      const Payload lent = filled(1);
      Payload got = filled(2);
      ASSERT_TRUE(pair.drive([&] { return give(*pair.ends[0], lent, 5); }));
      EXPECT_TRUE(pair.drive([&] {
        if (peeks) {
          EXPECT_EQ(pair.ends[1]->peek(expected.bytes, expected.digest), nullptr);
        } else {
          EXPECT_FALSE(pair.ends[1]->receive(got.data(), expected.bytes, expected.digest));
        }
        return !pair.ends[1]->status().ok();
      }));
      const Status status = pair.ends[1]->status();
      EXPECT_EQ(status.code(), Code::mismatch) << status.text();
      EXPECT_EQ(status.rank(), 0);
      EXPECT_NE(status.text().find(std::to_string(kLoanBytes)), std::string::npos)
          << "how long it was: " << status.text();
      EXPECT_EQ(pair.ends[1]->peek(kLoanBytes, 5), nullptr) << "for good";
      if (GetParam().lends) {
        EXPECT_FALSE(all_flushed(*pair.ends[0])) << "it was not read";
      }
    }
  }
}

// --- ranks as processes

/// One rank of two that know each other: both have sent and received a word.
struct LendingRank : LoneRank {
  LendingRank(const Backend& backend, Rank rank, std::uint64_t job, Table& table)
      : LoneRank(backend, rank, job, table,
                 {.peer = 0, .lane = 0, .slot_bytes = kLoanBytes, .credits = 4}) {
    std::array<std::byte, 512> word{};
    ready = ready && eventually([&] { return end->send(word.data(), word.size(), 0); }) &&
            until([&] { return end->receive(word.data(), word.size(), 0); });
  }
  /// `done`, with this end moving.
  template <class Done>
  bool until(Done done) {
    return eventually([&] {
      nudge(*end);
      return done();
    });
  }
  bool lends() { return would_lend(*end, filled(0)); }
};

/// The receiver stops, and dies, before or while it looks at what was lent to it.
TEST_P(LendingConformance, ALoanToADeadPeerIsNeverReturned) {
  if (!GetParam().crosses_processes) GTEST_SKIP() << "ranks of one process only";
  for (const bool peeks : {false, true}) {
    const std::uint64_t job = fresh_job();
    Table table;
    const pid_t child = in_child([&] {
      table.leave(0);
      LendingRank self(GetParam(), 1, job, table);
      if (!self.ready) return false;
      if (peeks && !self.until([&] { return self.end->peek(kLoanBytes, 1) != nullptr; }))
        return false;
      table.meet(1);
      for (;;) ::pause();
    });
    table.leave(1);
    LendingRank self(GetParam(), 0, job, table);
    const bool lends = self.ready && self.lends();
    const Payload lent = filled(1);
    EXPECT_TRUE(self.ready && self.until([&] { return give(*self.end, lent, 1); }));
    EXPECT_TRUE(table.meet(0));
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(status_of(child)));
    for (int turn = 0; lends && turn < 1000; ++turn) {
      ASSERT_FALSE(all_flushed(*self.end));
      nudge(*self.end);
    }
    if (can_read_memory_of(memory_proof())) {
      EXPECT_TRUE(self.ready && self.end->lending()->all_read()) << "it never will be read";
    }
  }
}

/// The lender dies: its memory is gone, and what is lent cannot be had, but nobody comes to harm.
TEST_P(LendingConformance, ALoanOfADeadPeerComesWholeOrNotAtAll) {
  if (!GetParam().crosses_processes) GTEST_SKIP() << "ranks of one process only";
  const std::uint64_t job = fresh_job();
  Table table;
  const pid_t child = in_child([&] {
    table.leave(0);
    LendingRank self(GetParam(), 1, job, table);
    const Payload lent = filled(7);
    if (!self.ready || !self.until([&] { return give(*self.end, lent, 1); })) return false;
    if (!self.lends() && !self.until([&] { return all_flushed(*self.end); })) return false;
    table.meet(1);
    for (;;) ::pause();
  });
  table.leave(1);
  LendingRank self(GetParam(), 0, job, table);
  EXPECT_TRUE(self.ready && table.meet(0));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  if (!self.ready) return;
  Payload got = filled(0);
  bool came = false;
  EXPECT_TRUE(self.until([&] {
    came = came || self.end->receive(got.data(), got.size(), 1);
    return came || !self.end->status().ok();
  }));
  if (came) {
    EXPECT_EQ(got, filled(7));
  } else {
    EXPECT_EQ(self.end->status().code(), Code::peer_lost) << self.end->status().text();
    EXPECT_EQ(self.end->status().rank(), 1);
  }
}

/// As ranks of two processes, which do not share what they lend.
TEST_P(LendingConformance, ProcessesLendPrivateMemory) {
  if (!GetParam().crosses_processes) GTEST_SKIP() << "ranks of one process only";
  constexpr int kRounds = 50;
  const std::uint64_t job = fresh_job();
  Table table;
  const auto lend_and_scribble = [&](LendingRank& self) {
    Payload lent = filled(0);
    bool good = true;
    for (int round = 1; good && round < kRounds; ++round) {
      std::ranges::fill(lent, static_cast<std::byte>(round));
      good = self.until([&] { return give(*self.end, lent, 1); }) &&
             self.until([&] { return all_flushed(*self.end); });
      std::ranges::fill(lent, std::byte{0xbd});
    }
    return good;
  };
  const pid_t child = in_child([&] {
    table.leave(0);
    LendingRank self(GetParam(), 1, job, table);
    return self.ready && lend_and_scribble(self) && table.meet(1);
  });
  table.leave(1);
  LendingRank self(GetParam(), 0, job, table);
  EXPECT_TRUE(self.ready);
  Payload got = filled(0);
  for (int round = 1; self.ready && round < kRounds; ++round) {
    EXPECT_TRUE(self.until([&] {
      if (round % 2 == 0) return self.end->receive(got.data(), got.size(), 1);
      const std::byte* place = self.end->peek(got.size(), 1);
      if (place == nullptr) return false;
      std::copy_n(place, got.size(), got.data());
      self.end->release();
      return true;
    }));
    EXPECT_EQ(got, filled(round));
    if (HasFailure()) break;
  }
  if (!HasFailure()) table.meet(0);
  table.leave(0);
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace coll::test
