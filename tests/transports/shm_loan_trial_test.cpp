// SPDX-License-Identifier: Apache-2.0
// Whether messages are lent or written to slots, by the times that both take.
#include "transports/shm/shm_loan_trial.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "shm_memory.hpp"
#include "sys/memory/peer_memory.hpp"
#include "test_seed.hpp"
#include "transports/shm/shm_connection.hpp"
#include "transports/shm_pair.hpp"

namespace {
std::size_t g_fetches = 0;
}

extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* here, unsigned long count,
                                    const iovec* there, unsigned long there_count,
                                    unsigned long flags) noexcept {
  if (here->iov_len > 16) ++g_fetches;  // not the proof of who a process is
  return ::syscall(SYS_process_vm_readv, pid, here, count, there, there_count, flags);
}

namespace coll::test {
namespace {

constexpr std::size_t kBytes = 10'000;

/// Nanoseconds of a message.
struct Times {
  std::uint64_t write, read;  ///< through a slot
  std::uint64_t fetch;        ///< lent
};

/// A trial of one direction, and what its receiver says.
class Trial : public ShmLoanTrial {
 public:
  using ShmLoanTrial::ShmLoanTrial;
  /// A message goes; the receiver is `behind` by so many.
  void send(const Times& times, const ShmLoanWords& back, std::size_t behind) {
    lent_ += lends() ? 1U : 0U;
    under_way_.push_back(timed());
    sent(kBytes, read_, words_, back);
    if (under_way_.size() <= behind) return;
    const ShmTimed timed = under_way_.front();
    under_way_.pop_front();
    if (timed.trial == 0) return;
    const bool fetched = timed.way == static_cast<std::uint16_t>(ShmWay::lent);
    read_.add(timed, kBytes, fetched ? times.fetch : times.write + times.read);
  }
  [[nodiscard]] const ShmLoanWords& words() const { return words_; }
  /// Those since it was last asked.
  std::size_t lent() { return std::exchange(lent_, 0); }

 private:
  ShmReadTimes read_{};
  ShmLoanWords words_{};
  std::deque<ShmTimed> under_way_;
  std::size_t lent_ = 0;
};

/// So many messages go in a direction whose other one is silent: those that were lent.
std::size_t lent_of(Trial& trial, std::size_t messages, const Times& times,
                    std::size_t behind = 5) {
  static const ShmLoanWords silent{};
  for (std::size_t message = 0; message < messages; ++message) trial.send(times, silent, behind);
  return trial.lent();
}

constexpr std::size_t kTrial = 120;  ///< messages, and more than a trial takes

TEST(ShmLoanTrial, LendsIfThatTakesClearlyLessTimeOfBothEnds) {
  const std::pair<Times, bool> machines[] = {
      {{.write = 800, .read = 700, .fetch = 900}, true},
      {{.write = 200, .read = 700, .fetch = 900}, false},  // as long
      {{.write = 290, .read = 700, .fetch = 900}, false},  // hardly longer
      {{.write = 310, .read = 700, .fetch = 900}, true},
      {{.write = 900, .read = 100, .fetch = 800}, true},  // the sender's time counts
      {{.write = 100, .read = 900, .fetch = 800}, true},  // and the receiver's
      {{.write = 100, .read = 100, .fetch = 800}, false},
  };
  for (const auto& [times, lends] : machines) {
    for (const std::size_t behind : {0U, 1U, 8U}) {
      Trial trial;
      EXPECT_GT(lent_of(trial, kTrial, times, behind), 0U) << "it tries";
      EXPECT_EQ(lent_of(trial, kTrial, times, behind), lends ? kTrial : 0)
          << times.write << ' ' << times.read << ' ' << times.fetch;
    }
  }
}

/// Whatever either direction would choose alone, and however far its receiver is behind.
TEST(ShmLoanTrial, BothDirectionsOfAnExchangeChooseTheSame) {
  std::mt19937_64 random(test_seed());
  std::size_t lending = 0, decided = 0, against_one = 0;
  for (int machine = 0; machine < 400; ++machine) {
    const auto some = [&] { return 50 + random() % 2000; };
    const Times here{some(), some(), 2 * some()}, there{some(), some(), 2 * some()};
    const auto slots = static_cast<double>(here.write + here.read + there.write + there.read);
    const auto loans = static_cast<double>(here.fetch + there.fetch);
    const std::size_t here_behind = random() % 6, there_behind = random() % 6;
    Trial one(true), other(false);
    for (std::size_t message = 0; message < kTrial; ++message) {
      one.send(here, other.words(), here_behind);
      other.send(there, one.words(), there_behind);
    }
    ASSERT_EQ(one.lends(), other.lends()) << machine;
    lending += one.lends() ? 1U : 0U;
    if (std::abs(loans / slots - 0.9) < 0.02) continue;  // the costs are rounded
    ++decided;
    EXPECT_EQ(one.lends(), loans < 0.9 * slots) << loans << " of " << slots;
    const bool alone =
        static_cast<double>(here.fetch) < 0.9 * static_cast<double>(here.write + here.read);
    against_one += alone != one.lends() ? 1U : 0U;
  }
  EXPECT_GT(lending, 100U);
  EXPECT_LT(lending, 300U);
  EXPECT_GT(decided, 300U);
  EXPECT_GT(against_one, 20U);
}

/// Whatever happens to either, as while it tries how to write slots, and whatever their times are.
TEST(ShmLoanTrial, BothDirectionsGoTheSameWayAllTheTime) {
  std::mt19937_64 random(test_seed());
  const auto some = [&] { return 50 + random() % 1000; };
  Times here, there;
  Trial one(true), other(false);
  std::size_t apart = 0, lent = 0, sent = 0, pause_of_one = 0, pause_of_other = 0;
  for (std::size_t message = 0; message < (std::size_t{4} << 30) / kBytes; ++message) {
    if (random() % 5000 == 0) pause_of_one = random() % 700;
    if (random() % 5000 == 0) pause_of_other = random() % 700;
    if (message % 20'000 == 0) {  // to lend is better or worse, by turns
      const std::uint64_t times = message % 40'000 == 0 ? 1 : 4;
      here = {100 + some(), 100 + some(), times * some()};
      there = {100 + some(), 100 + some(), times * some()};
    }
    const bool both = pause_of_one == 0 && pause_of_other == 0;
    if (pause_of_one > 0) {
      --pause_of_one;
    } else {
      one.send(here, other.words(), random() % 3);
    }
    if (pause_of_other > 0) {
      --pause_of_other;
    } else {
      other.send(there, one.words(), random() % 3);
    }
    if (!both) continue;
    ++sent;
    lent += one.lends() ? 1U : 0U;
    apart += one.lends() != other.lends() ? 1U : 0U;
  }
  EXPECT_GT(lent, sent / 10);
  EXPECT_LT(lent, sent - sent / 10);
  EXPECT_LT(apart, sent / 200) << "of " << sent
                               << ": only where one is in a trial that the other "
                                  "has come to late, or that it was too late to take part in";
}

TEST(ShmLoanTrial, ChangesItsMindAfterManyBytes) {
  const Times near{.write = 100, .read = 100, .fetch = 500};
  const Times far{.write = 900, .read = 700, .fetch = 900};
  constexpr std::size_t kAgain = (std::size_t{32} << 20) / kBytes;
  Trial trial;
  lent_of(trial, kTrial, near);
  EXPECT_EQ(lent_of(trial, kTrial, far), 0U) << "not at once";
  const std::size_t lent = lent_of(trial, kAgain, far);
  EXPECT_GT(lent, 0U) << "it tries again";
  EXPECT_LT(lent, 3 * kTrial);
  EXPECT_EQ(lent_of(trial, kTrial, far), kTrial);
  lent_of(trial, kAgain, near);
  EXPECT_EQ(lent_of(trial, kTrial, near), 0U);
}

/// A trial costs some messages the slower way.
TEST(ShmLoanTrial, TriesMoreRarelyWhileItIsRight) {
  const Times near{.write = 100, .read = 100, .fetch = 500};
  Trial trial;
  const std::size_t many = (std::size_t{1} << 30) / kBytes;
  const std::size_t first = lent_of(trial, many, near), later = lent_of(trial, many, near);
  EXPECT_GT(first, later);
  EXPECT_GT(later, 0U);
}

TEST(ShmLoanTrial, LendsNothingIfTheReceiverSaysNothing) {
  Trial trial;
  const Times any{.write = 1000, .read = 1000, .fetch = 1};
  constexpr std::size_t kSilent = 1'000'000;  // messages behind
  const std::size_t lent = lent_of(trial, 2000, any, kSilent);
  EXPECT_GT(lent, 0U);
  EXPECT_LT(lent, kTrial);
  EXPECT_EQ(lent_of(trial, kTrial, any, kSilent), 0U);
}

/// The leader may never send such messages, or not any more.
TEST(ShmLoanTrial, WhoSendsAloneDecidesAloneUntilTheLeaderSaysSomething) {
  const Times near{.write = 100, .read = 100, .fetch = 500};
  const Times far{.write = 900, .read = 700, .fetch = 900};
  constexpr std::size_t kAtFirst = (std::size_t{16} << 20) / kBytes, kLater = 16 * kAtFirst;
  for (const bool lends : {true, false}) {
    const Times& times = lends ? far : near;
    Trial leader(true), other(false);
    EXPECT_EQ(lent_of(other, kAtFirst, times), 0U) << "the leader may still come";
    EXPECT_GT(lent_of(other, kTrial / 2, times), 0U) << "it tries, and waits for nobody";
    EXPECT_EQ(lent_of(other, kTrial, times), lends ? kTrial : 0);
    lent_of(other, 2 * kAtFirst, near);
    EXPECT_EQ(lent_of(other, kTrial, near), 0U) << "and again";
    // The leader says the contrary of what it would find alone.
    const auto both = [&](std::size_t messages) {
      for (std::size_t message = 0; message < messages; ++message) {
        leader.send({.write = 9000, .read = 9000, .fetch = 1000}, other.words(), 5);
        other.send(near, leader.words(), 5);
        if (message <= kTrial) continue;
        ASSERT_EQ(leader.lends(), other.lends());
      }
    };
    both(2 * kTrial);
    ASSERT_TRUE(other.lends());
    const auto alone = [&](std::size_t messages) {
      other.lent();
      for (std::size_t message = 0; message < messages; ++message)
        other.send(near, leader.words(), 5);
      return other.lent();
    };
    EXPECT_EQ(alone(kLater - 2 * kTrial), kLater - 2 * kTrial) << "as the leader said";
    alone(3 * kTrial);
    EXPECT_EQ(alone(kTrial), 0U) << "the leader is silent";
  }
}

/// Each is timed for long.
TEST(ShmLoanTrial, LongMessagesHaveATrialOfTheirOwnWithFewOfThem) {
  using Lengths = std::set<std::size_t>;
  EXPECT_EQ((Lengths{ShmLoanTrial::length_of(1), ShmLoanTrial::length_of((16 << 10) - 1)}),
            Lengths{0});
  EXPECT_EQ((Lengths{ShmLoanTrial::length_of(16 << 10), ShmLoanTrial::length_of((128 << 10) - 1)}),
            Lengths{1});
  EXPECT_EQ((Lengths{ShmLoanTrial::length_of(128 << 10), ShmLoanTrial::length_of(1 << 20)}),
            Lengths{2});
  for (const std::size_t bytes : {64U << 10, 256U << 10}) {
    ShmLoanTrial trial;
    ShmReadTimes read{};
    ShmLoanWords here{}, silent{};
    std::size_t lent = 0;
    for (std::size_t message = 0; message < kTrial; ++message) {
      const ShmTimed timed = trial.timed();
      const bool lends = trial.lends();
      lent += lends ? 1U : 0U;
      trial.sent(bytes, read, here, silent);
      if (timed.trial != 0) read.add(timed, bytes, lends ? 100'000 : 1000);
    }
    EXPECT_FALSE(trial.lends());
    EXPECT_EQ(lent, bytes < (128 << 10) ? 16U : 6U);
  }
}

/// They need no new memory. Until so many bytes that a program makes more than a few calls.
TEST(ShmLoanTrial, TheFirstMessagesThatAreExchangedAreLent) {
  constexpr std::size_t kLong = 64 << 10, kFirst = std::size_t{4} << 20;
  ShmMemory memory(4, kLong);
  ShmSender sender(memory.fifo, 1, std::nullopt, std::nullopt);
  ShmReceiver receiver(memory.fifo);
  for (std::size_t bytes = 0; bytes < kFirst; bytes += kLong) {
    ASSERT_TRUE(sender.has_slot(kLong));
    EXPECT_FALSE(sender.lends_either_way(kLong, false));
    EXPECT_FALSE(sender.lends_either_way((16 << 10) - 1, true));
    ASSERT_TRUE(sender.lends_either_way(kLong, true)) << bytes;
    sender.lend({}, kLong, 7);
    ASSERT_EQ(receiver.next(kLong, 7), ShmReceiver::Next::lent);
    receiver.release();
  }
  EXPECT_FALSE(sender.lends_either_way(kLong, true));
}

class LoanTrialOfConnection : public ShmPair {
 protected:
  void SetUp() override {
    if (!can_read_memory_of(memory_proof())) GTEST_SKIP() << "no process may read another one";
  }
  void open(double ranks_per_core) { ShmPair::open(kLongest, ranks_per_core); }
  /// Which messages the receiver takes long to read.
  enum class Slow { none, lent, unlent };
  /// Sends and receives a message that may go either way. Whether it was lent.
  bool pass(std::size_t bytes, Fetch fetch, Slow slow) {
    std::vector<std::byte> data(bytes);
    for (std::size_t at = 0; at < bytes; at += 61) data[at] = static_cast<std::byte>(random());
    Lending& lending = *sender->lending();
    EXPECT_NE(sender->acquire(bytes), nullptr);
    const bool lends = bytes >= lending.least_loan() && lending.lends(data.data(), bytes, fetch);
    EXPECT_TRUE(lends ? lending.lend(data.data(), bytes, 7) : sender->send(data.data(), bytes, 7));
    const auto dawdle = [&] {
      if (slow == Slow::none || lends != (slow == Slow::lent)) return;
      const auto end = Clock::now() + std::chrono::microseconds(500);
      while (Clock::now() < end) continue;
    };
    if (whole_) {
      std::vector<std::byte> got(bytes);
      dawdle();
      EXPECT_TRUE(receiver->receive(got.data(), bytes, 7));
      EXPECT_EQ(got, data);
    } else {
      const std::byte* got = receiver->peek(bytes, 7);
      EXPECT_EQ(receiver->peek(bytes, 7), got) << "however often it is asked for";
      EXPECT_TRUE(got != nullptr && std::equal(data.begin(), data.end(), got));
      dawdle();
      receiver->release();
    }
    EXPECT_TRUE(all_flushed(*sender));
    return lends;
  }
  std::size_t lent_of(std::size_t messages, std::size_t bytes, Fetch fetch,
                      Slow slow = Slow::none) {
    std::size_t lent = 0;
    for (std::size_t message = 0; message < messages; ++message)
      lent += pass(bytes, fetch, slow) ? 1U : 0U;
    return lent;
  }

  bool whole_ = false;  ///< messages are received to where they belong
  static constexpr std::size_t kShort = ShmConnection::kTriedBytes, kMiddle = 64 << 10,
                               kLongest = 128 << 10;
  /// Messages of these lengths: more than both trials take.
  static constexpr std::size_t kTries = 400;
};

TEST_F(LoanTrialOfConnection, MessagesArriveWholeAndGoTheFasterWay) {
  for (const Fetch fetch : {Fetch::if_faster, Fetch::copied}) {
    for (const Slow slow : {Slow::lent, Slow::unlent}) {
      open(1);
      g_fetches = 0;
      const std::size_t lent = lent_of(kTries, kMiddle, fetch, slow);
      EXPECT_GT(lent, 0U);
      EXPECT_LT(lent, kTries);
      EXPECT_EQ(g_fetches, lent) << "each once, however often the receiver asks for it";
      EXPECT_EQ(lent_of(10, kMiddle, fetch, slow), slow == Slow::lent ? 0U : 10U);
    }
  }
}

/// Each length has a trial of its own.
TEST_F(LoanTrialOfConnection, ShortMessagesThatAreExchangedAreTriedToo) {
  for (const auto& [shorter, longer] : {std::pair{kShort, kMiddle}, {kMiddle, kLongest}}) {
    for (const Slow slow : {Slow::lent, Slow::unlent}) {
      for (const bool whole : {true, false}) {
        open(1);
        whole_ = whole;
        const Slow of_long = slow == Slow::lent ? Slow::unlent : Slow::lent;
        // Of the ways to write slots there may be a trial at any time, which comes first.
        constexpr std::size_t kRounds = 400;
        std::size_t short_lent = 0, long_lent = 0;
        for (std::size_t round = 0; round < 2 * kRounds; ++round) {
          if (round == kRounds) {
            EXPECT_GT(short_lent, 0U) << "it tries";
            EXPECT_LT(short_lent, kRounds);
            short_lent = long_lent = 0;
          }
          short_lent += pass(shorter, Fetch::copied, slow) ? 1U : 0U;
          long_lent += pass(longer, Fetch::if_faster, of_long) ? 1U : 0U;
        }
        EXPECT_EQ(short_lent > kRounds / 4, slow == Slow::unlent) << short_lent;
        EXPECT_EQ(long_lent > kRounds / 4, slow == Slow::lent) << long_lent;
      }
    }
  }
}

TEST_F(LoanTrialOfConnection, OnlyWhereTheCallerAllowsItAndItMayPay) {
  open(1);
  EXPECT_EQ(lent_of(kTries, kLongest, Fetch::never), 0U);
  EXPECT_EQ(lent_of(kTries, ShmConnection::kCopyingBytes - 1, Fetch::if_faster), 0U);
  EXPECT_EQ(lent_of(10, kLongest, Fetch::always), 10U);
  EXPECT_EQ(lent_of(kTries, ShmConnection::kCopyingBytes - 1, Fetch::always), 0U);
  EXPECT_EQ(lent_of(kTries, ShmConnection::kTriedBytes - 1, Fetch::copied), 0U);
  // Who asks again before sending counts as the last time.
  for (std::size_t message = 0; message < kTries; ++message) {
    std::vector<std::byte> data(kLongest);
    ASSERT_FALSE(sender->lending()->lends(data.data(), kLongest, Fetch::if_faster));
    pass(kLongest, Fetch::never, Slow::none);
  }
  // Ranks that share cores do not wait for each other without need.
  open(2);
  EXPECT_EQ(lent_of(kTries, kLongest, Fetch::if_faster), 0U);
  EXPECT_EQ(lent_of(kTries, ShmConnection::kTriedBytes, Fetch::copied), 0U);
}

}  // namespace
}  // namespace coll::test
