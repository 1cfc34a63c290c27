// SPDX-License-Identifier: Apache-2.0
// Both sides copy a lent message.
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "transports/lone_rank.hpp"
#include "transports/shared_copy.hpp"
#include "transports/shm/shm_connection.hpp"

namespace coll::test {
namespace {

TEST_F(SharedCopy, TheSenderCopiesTheBackWhileItWaits) {
  for (const std::size_t bytes : {kLongest, kLongest - 1, kLongest - 4097, kSharedBytes,
                                  kSharedBytes + 1, std::size_t{300'001}}) {
    bytes_read = bytes_written = 0;
    writes = 0;
    const auto lent = lend(bytes);
    std::vector<std::byte> got(bytes);
    EXPECT_FALSE(waits());
    before_read = [&] { EXPECT_FALSE(waits()); };
    EXPECT_TRUE(receive(got));
    EXPECT_EQ(got, lent) << bytes;
    EXPECT_EQ(bytes_read + bytes_written, bytes) << "nothing twice";
    EXPECT_GE(bytes_written, bytes / 2 - kShareUnit);
    EXPECT_EQ(writes > 1, bytes > 4 * kLeastShare * kShareUnit) << "it leaves some to the receiver";
    EXPECT_TRUE(waits());
  }
}

TEST_F(SharedCopy, ASenderThatComesLaterCopiesLess) {
  const auto lent = lend(kLongest);
  std::vector<std::byte> got(kLongest);
  before_read = [&] {
    EXPECT_FALSE(waits());  // says so
    before_read = [&] { EXPECT_FALSE(waits()); };
  };
  EXPECT_TRUE(receive(got));
  EXPECT_EQ(got, lent);
  EXPECT_EQ(bytes_read + bytes_written, kLongest);
  EXPECT_GT(bytes_written, kLongest / 4);
  EXPECT_LT(bytes_written, kLongest / 2);
}

TEST_F(SharedCopy, WhoeverDoesNotHelpIsNotWaitedFor) {
  for (const bool said : {false, true}) {
    const auto lent = lend(kLongest);
    std::vector<std::byte> got(kLongest);
    if (said) (void)waits();
    EXPECT_TRUE(receive(got));
    EXPECT_EQ(got, lent);
    EXPECT_EQ(bytes_written, 0U);
    EXPECT_TRUE(waits());
    EXPECT_EQ(bytes_written, 0U) << "it comes too late";
  }
}

TEST_F(SharedCopy, AReceiverWhoseSenderNeverWaitsSeldomLooks) {
  std::vector<std::byte> got(kLongest);
  for (int message = 0; message < 20; ++message, reads = 0) {
    const auto lent = lend(kLongest);
    if (message == 18) (void)waits();
    EXPECT_TRUE(receive(got) && got == lent);
    EXPECT_EQ(reads > 1, message < 2 || message % 8 == 0 || message >= 18) << message;
  }
}

TEST_F(SharedCopy, TheReceiverWaitsForWhatItsSenderHasBegun) {
  for (int message : {0, 1}) {  // what was said of the first is not of the second
    SCOPED_TRACE(message);
    bytes_written = 0;
    const auto lent = lend(kLongest);
    std::vector<std::byte> got(kLongest);
    EXPECT_FALSE(waits());
    before_read = [&] { EXPECT_FALSE(waits()); };
    int looked = 0;
    before_write = [&] {
      ++looked;
      EXPECT_FALSE(receive(got)) << "the back is missing";
      EXPECT_EQ(bytes_written, 0U);
    };
    EXPECT_TRUE(receive(got));
    EXPECT_EQ(looked, 1);
    EXPECT_EQ(got, lent);
  }
}

/// Its memory is the program's again once `withdraw` has returned.
TEST_F(SharedCopy, AReceiverWhoseCallFailsWaitsForAWriteOfItsPeers) {
  const auto lent = lend(kLongest);
  std::vector<std::byte> got(kLongest);
  EXPECT_FALSE(waits());
  std::atomic<bool> claimed = false, gives_up = false;
  before_read = [&] { EXPECT_TRUE(eventually([&] { return claimed.load(); })); };
  std::thread other([&] {
    before_write = [&] {
      claimed = true;
      EXPECT_TRUE(eventually([&] { return gives_up.load(); }));
    };
    EXPECT_TRUE(eventually([&] {
      (void)waits();
      return bytes_written > 0;
    }));
  });
  EXPECT_TRUE(eventually([&] { return receive(got) || claimed; }));
  EXPECT_FALSE(receive(got));
  EXPECT_EQ(bytes_written, 0U);
  gives_up = true;
  receiver->lending()->withdraw();
  const std::size_t written = bytes_written;
  EXPECT_GT(written, 0U);
  other.join();
  EXPECT_FALSE(waits());
  EXPECT_EQ(bytes_written, written) << "nothing more was claimed";
}

TEST_F(SharedCopy, WhatTheSenderCannotCopyInTheMiddleTheReceiverCopies) {
  const auto lent = lend(kLongest);
  std::vector<std::byte> got(kLongest);
  EXPECT_FALSE(waits());
  before_read = [&] { EXPECT_FALSE(waits()); };
  before_write = [&] { before_write = [&] { write_error = EPERM; }; };
  EXPECT_TRUE(receive(got));
  EXPECT_EQ(got, lent);
  EXPECT_GT(bytes_written, 0U);
  EXPECT_EQ(bytes_read + bytes_written, kLongest);
}

TEST_F(SharedCopy, WhatTheSenderCannotCopyTheReceiverCopies) {
  write_error = EPERM;
  for (int message = 0; message < 3; ++message) {
    bytes_read = 0;
    const auto lent = lend(kLongest);
    std::vector<std::byte> got(kLongest);
    int tried = 0;
    EXPECT_FALSE(waits());
    before_read = [&] { EXPECT_FALSE(waits()); };
    before_write = [&] { ++tried; };
    EXPECT_TRUE(receive(got));
    EXPECT_EQ(got, lent);
    EXPECT_EQ(bytes_read, kLongest);
    EXPECT_EQ(tried, message == 0 ? 1 : 0) << "it tries once";
    EXPECT_TRUE(waits());
  }
}

TEST_F(SharedCopy, OneBufferThatCannotBeWrittenEndsNoHelpForOthers) {
  std::vector<std::byte> got(kLongest);
  for (const int error : {EFAULT, EFAULT, 0}) {
    const auto lent = lend(kLongest);
    EXPECT_FALSE(waits());
    int tried = 0;
    write_error = error;
    const std::function<void()> count = [&] {
      ++tried;
      before_write = count;
    };
    before_write = count;
    const std::function<void()> wait = [&] {
      EXPECT_FALSE(waits());
      before_read = wait;
    };
    before_read = wait;
    EXPECT_TRUE(receive(got) && got == lent);
    before_read = nullptr;
    EXPECT_EQ(tried == 1, error != 0) << tried;
    EXPECT_EQ(bytes_written > 0, error == 0);
  }
}

/// Another process may have its number by now.
TEST_F(SharedCopy, ASenderWritesToNobodyWhoIsNotItsPeer) {
  std::vector<std::byte> got(kLongest);
  for (const bool proved : {false, true}) {
    is_proved = proved;
    const auto lent = lend(kLongest);
    EXPECT_FALSE(waits());
    before_read = [&] { EXPECT_FALSE(waits()); };
    EXPECT_TRUE(receive(got) && got == lent);
    EXPECT_EQ(bytes_written, 0U) << "nor later, once it was not";
  }
  EXPECT_EQ(bytes_read, 2 * kLongest);
}

TEST_F(SharedCopy, ASenderThatWaitsForACreditHelps) {
  std::vector<std::vector<std::byte>> lent;
  for (int i = 0; i < 4; ++i) lent.push_back(lend(kLongest));
  for (const auto& each : lent) {
    bytes_written = 0;
    std::vector<std::byte> got(kLongest);
    // Of the first message only: then there is a credit.
    const auto wait = [&] {
      EXPECT_EQ(sender->acquire(kLongest) == nullptr, &each == lent.data());
    };
    wait();
    before_read = wait;
    EXPECT_TRUE(receive(got));
    EXPECT_EQ(got, each);
    EXPECT_EQ(bytes_written > 0, &each == lent.data());
  }
}

/// On shared cores the sender would take the receiver's.
TEST_F(SharedCopy, RanksThatShareCoresCopyAlone) {
  open(2);
  const auto lent = lend(kLongest);
  std::vector<std::byte> got(kLongest);
  EXPECT_FALSE(waits());
  before_read = [&] { EXPECT_FALSE(waits()); };
  EXPECT_TRUE(receive(got));
  EXPECT_EQ(got, lent);
  EXPECT_EQ(bytes_written, 0U);
}

TEST_F(SharedCopy, WhatHasFailedIsWrittenNoMore) {
  const auto lent = lend(kLongest);
  std::vector<std::byte> got(kLongest);
  EXPECT_FALSE(waits());
  // The sender's call fails while the receiver copies.
  before_read = [&] { sender->lending()->withdraw(); };
  EXPECT_FALSE(receive(got));
  EXPECT_EQ(receiver->status().code(), Code::peer_lost);
  receiver->lending()->withdraw();
  std::ranges::fill(got, std::byte{3});
  EXPECT_FALSE(waits());
  EXPECT_EQ(got, std::vector(kLongest, std::byte{3}));
}

/// Numbers of messages are short: what is left of one long ago must not count.
TEST_F(SharedCopy, AMessageIsNotTakenForAnEarlierOneOfItsNumber) {
  std::byte word{};
  for (int round = 0; round < 2; ++round) {
    const auto lent = lend(round == 0 ? kLongest / 2 : kLongest);
    std::vector<std::byte> got(lent.size());
    EXPECT_FALSE(waits());
    bytes_written = 0;
    before_read = [&] { EXPECT_FALSE(waits()); };
    EXPECT_TRUE(receive(got));
    EXPECT_EQ(got, lent);
    EXPECT_EQ(bytes_written > 0, round == 0) << "the second one is not shared";
    for (int i = 0; i < (1 << 16) - 1; ++i) {
      ASSERT_TRUE(sender->send(&word, 1, 0));
      ASSERT_TRUE(receiver->receive(&word, 1, 0));
    }
  }
}

TEST_F(SharedCopy, TwoThreadsCopyAllThatIsLentBothWays) {
  constexpr int kMessages = 200;
  const std::uint64_t seed = test_seed();
  const auto talk = [&](Connection& end, std::uint64_t out, std::uint64_t in) {
    std::mt19937_64 sent(out), expected(in);
    const auto next = [](std::mt19937_64& from, std::vector<std::byte>& into) {
      into.resize(1 + from() % kLongest);
      for (std::byte& each : into) each = static_cast<std::byte>(from());
    };
    std::vector<std::byte> lent, got, right;
    for (int i = 0; i < kMessages; ++i) {
      next(sent, lent);
      next(expected, right);
      got.assign(right.size(), std::byte{});
      bool gone = false, come = false, back = false;
      const bool done = eventually([&] {
        gone = gone || (lent.size() >= end.lending()->least_loan()
                            ? end.lending()->lend(lent.data(), lent.size(), 1)
                            : end.send(lent.data(), lent.size(), 1));
        come = come || end.receive(got.data(), got.size(), 1);
        back = gone && (back || all_flushed(end));
        return come && back;
      });
      if (!done || got != right) return false;
    }
    return true;
  };
  bool good[2] = {false, false};
  std::thread other([&] { good[1] = talk(*receiver, ~seed, seed); });
  good[0] = talk(*sender, seed, ~seed);
  other.join();
  EXPECT_TRUE(good[0] && good[1]);
}

TEST(SharedCopyOfProcesses, IsWholeAndOutlivesItsSender) {
  if (!why_not().empty()) GTEST_SKIP() << why_not();
  const Backend shm{.name = "shm", .make = make_shm_transport};
  constexpr std::size_t kBytes = 3 * kLongest / 4 + 1;
  constexpr int kShared = 3;  // messages before the sender dies
  const ConnectionSpec spec{.peer = 0, .lane = 0, .slot_bytes = kLongest, .credits = 4};
  const auto filled = [](int message) {
    return std::vector<std::byte>(kBytes, static_cast<std::byte>(message));
  };
  const std::uint64_t job = fresh_job();
  Table table;
  const pid_t child = in_child([&] {
    table.leave(0);
    LoneRank self(shm, 1, job, table, spec);
    if (!self.ready) return false;
    Connection& end = *self.end;
    std::vector<std::byte> word(512);
    bool good = eventually([&] { return end.send(word.data(), word.size(), 0); }) &&
                eventually([&] { return end.receive(word.data(), word.size(), 0); });
    for (int message = 0; good; ++message) {
      const auto lent = filled(message);
      good = eventually([&] { return end.lending()->lend(lent.data(), lent.size(), 1); });
      (void)all_flushed(end);  // says that it waits
      before_write = [&] {
        table.meet(1);  // it has claimed a piece
        if (message == kShared) ::raise(SIGKILL);
      };
      good = good && table.meet(1) && eventually([&] { return all_flushed(end); });
    }
    return false;
  });
  table.leave(1);
  LoneRank self(shm, 0, job, table, spec);
  ASSERT_TRUE(self.ready);
  Connection& end = *self.end;
  std::vector<std::byte> word(512), got(kBytes);
  EXPECT_TRUE(eventually([&] { return end.send(word.data(), word.size(), 0); }));
  EXPECT_TRUE(eventually([&] { return end.receive(word.data(), word.size(), 0); }));
  const auto begin = [&] {
    EXPECT_TRUE(table.meet(0));  // it is lent, and its sender waits
    before_read = [&] { EXPECT_TRUE(table.meet(0)); };
  };
  for (int message = 0; message < kShared; ++message) {
    begin();
    EXPECT_TRUE(eventually([&] { return end.receive(got.data(), got.size(), 1); }));
    EXPECT_EQ(got, filled(message));
  }
  begin();
  EXPECT_FALSE(end.receive(got.data(), got.size(), 1)) << "what the sender claimed is missing";
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  // Like a message that does not come, if it has nothing left to fetch itself.
  EXPECT_FALSE(end.receive(got.data(), got.size(), 1));
  EXPECT_TRUE(end.status().ok() || end.status().code() == Code::peer_lost) << end.status().text();
  end.lending()->withdraw();  // does not wait for a process that is gone
}

}  // namespace
}  // namespace coll::test
