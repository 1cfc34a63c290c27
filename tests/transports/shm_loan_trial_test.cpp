// SPDX-License-Identifier: Apache-2.0
// Whether messages are lent or written to slots, by the times that both take.
#include "transports/shm/shm_loan_trial.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <vector>

#include "sys/memory/peer_memory.hpp"
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

struct Trial : ShmLoanTrial {
  ShmReadTimes read{};
};

/// So many messages go; the receiver is always a few behind, or says nothing. Those that were lent.
std::size_t lent_of(Trial& trial, std::size_t messages, const Times& times,
                    std::size_t behind = 5) {
  std::deque<ShmTimed> under_way;
  std::size_t lent = 0;
  for (std::size_t message = 0; message < messages; ++message) {
    lent += trial.lends() ? 1U : 0U;
    under_way.push_back(trial.timed());
    trial.sent(kBytes, trial.wants_times() ? times.write : 0, trial.read);
    if (under_way.size() <= behind) continue;
    const ShmTimed timed = under_way.front();
    under_way.pop_front();
    if (timed.trial == 0) continue;
    const bool fetched = timed.way == static_cast<std::uint16_t>(ShmWay::lent);
    trial.read.add(timed, kBytes, fetched ? times.fetch : times.read);
  }
  return lent;
}

constexpr std::size_t kTrial = 100;  ///< messages, and more than a trial takes

TEST(ShmLoanTrial, LendsIfThatTakesClearlyLessTimeOfBothEnds) {
  const std::pair<Times, bool> machines[] = {
      {{.write = 800, .read = 700, .fetch = 900}, true},
      {{.write = 200, .read = 700, .fetch = 900}, false},  // as long
      {{.write = 350, .read = 700, .fetch = 900}, false},  // hardly longer
      {{.write = 400, .read = 700, .fetch = 900}, true},
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

TEST(ShmLoanTrial, ChangesItsMindAfterManyBytes) {
  const Times near{.write = 100, .read = 100, .fetch = 500};
  const Times far{.write = 900, .read = 700, .fetch = 900};
  constexpr std::size_t kAgain = (std::size_t{64} << 20) / kBytes;
  Trial trial;
  lent_of(trial, kTrial, near);
  EXPECT_EQ(lent_of(trial, kTrial, far), 0U) << "not at once";
  const std::size_t lent = lent_of(trial, kAgain, far);
  EXPECT_GT(lent, 0U) << "it tries again";
  EXPECT_LT(lent, 2 * kTrial);
  EXPECT_EQ(lent_of(trial, kTrial, far), kTrial);
  lent_of(trial, kAgain, near);
  EXPECT_EQ(lent_of(trial, kTrial, near), 0U);
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

class LoanTrialOfConnection : public ShmPair {
 protected:
  void SetUp() override {
    if (!can_read_memory_of(memory_proof())) GTEST_SKIP() << "no process may read another one";
  }
  void open(bool crowded) { ShmPair::open(kLongest, crowded); }
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
    const std::byte* got = receiver->peek(bytes, 7);
    EXPECT_EQ(receiver->peek(bytes, 7), got) << "however often it is asked for";
    EXPECT_TRUE(got != nullptr && std::equal(data.begin(), data.end(), got));
    if (slow != Slow::none && lends == (slow == Slow::lent)) {
      const auto end = Clock::now() + std::chrono::microseconds(500);
      while (Clock::now() < end) continue;
    }
    receiver->release();
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

  static constexpr std::size_t kLongest = 64 << 10;
  /// Messages of the longest: more than both trials take.
  static constexpr std::size_t kTries = 400;
};

TEST_F(LoanTrialOfConnection, MessagesArriveWholeAndGoTheFasterWay) {
  for (const Slow slow : {Slow::lent, Slow::unlent}) {
    open(false);
    g_fetches = 0;
    const std::size_t lent = lent_of(kTries, kLongest, Fetch::if_faster, slow);
    EXPECT_GT(lent, 0U);
    EXPECT_LT(lent, kTries);
    EXPECT_EQ(g_fetches, lent) << "each once, however often the receiver asks for it";
    EXPECT_EQ(lent_of(10, kLongest, Fetch::if_faster, slow), slow == Slow::lent ? 0U : 10U);
  }
}

TEST_F(LoanTrialOfConnection, OnlyWhereTheCallerAllowsItAndItMayPay) {
  open(false);
  EXPECT_EQ(lent_of(kTries, kLongest, Fetch::never), 0U);
  EXPECT_EQ(lent_of(kTries, ShmConnection::kCopyingBytes - 1, Fetch::if_faster), 0U);
  EXPECT_EQ(lent_of(10, kLongest, Fetch::always), 10U);
  // Who asks again before sending counts as the last time.
  for (std::size_t message = 0; message < kTries; ++message) {
    std::vector<std::byte> data(kLongest);
    ASSERT_FALSE(sender->lending()->lends(data.data(), kLongest, Fetch::if_faster));
    pass(kLongest, Fetch::never, Slow::none);
  }
  // Ranks that share cores do not wait for each other without need.
  open(true);
  EXPECT_EQ(lent_of(kTries, kLongest, Fetch::if_faster), 0U);
}

}  // namespace
}  // namespace coll::test
