// SPDX-License-Identifier: Apache-2.0
// Who claims a rank, and is let in, refused, or a stranger.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "meeting_ranks.hpp"
#include "rendezvous/handshake.hpp"
#include "sys/net/socket_frame.hpp"
#include "temporary_folder.hpp"

namespace coll::testing {
namespace {

using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Somebody who speaks with a hub word by word.
class Caller {
 public:
  explicit Caller(const MeetingPlace& place) : key_(place.key) {
    const NetAddress address = *NetAddress::parse(place.addresses[0]);
    Result<Fd> fd = dial(address, in(seconds(10)));
    while (!fd.ok()) fd = dial(address, in(seconds(10)));  // the hub does not listen yet
    fd_ = *std::move(fd);
    const auto greeting = recv_frame(fd_.get(), kHandshakeLimit, in(seconds(10)));
    EXPECT_TRUE(greeting.ok()) << greeting.status().text();
    hub_nonce_ = read_greeting(*greeting)->nonce;
  }
  void say(const std::string& frame) {
    EXPECT_TRUE(send_frame(fd_.get(), frame, in(seconds(10))).ok());
  }
  void claim(const Claimant& who) {
    say(pack_claim(who, nonce_, claim_proof(key_, hub_nonce_, nonce_, who)));
  }
  std::string hear() {
    Result<std::string> frame = recv_frame(fd_.get(), kHandshakeLimit, in(seconds(10)));
    EXPECT_TRUE(frame.ok()) << frame.status().text();
    return frame.ok() ? *std::move(frame) : "";
  }
  bool is_welcome() { return read_welcome(hear()).has_value(); }
  std::string refusal() {
    if (!is_welcome()) return "no proof of the hub";
    const auto failure = read_failure(hear());
    return failure ? failure->text() : "no failure";
  }
  /// Once a claim of another size is refused, the hub has read all that came before.
  static void flush(const MeetingPlace& place) {
    Caller other(place);
    other.claim(*this_claimant(1, 77));
    EXPECT_THAT(other.refusal(), HasSubstr("one of 77 ranks"));
  }
  void hang_up() { fd_.reset(); }

 private:
  std::string key_;
  Fd fd_;
  std::string hub_nonce_;
  std::string nonce_ = std::string(kNonceBytes, 'n');
};

/// Rank 0 of a place, waiting for the others on a thread.
class WaitingHub {
 public:
  WaitingHub(const MeetingPlace& place, Rank size, Clock::duration patience = seconds(20))
      : thread_(
            [this, place, size, patience] { met_.emplace(meet(place, 0, size, in(patience))); }) {}
  ~WaitingHub() {
    if (thread_.joinable()) thread_.join();
  }
  std::optional<Result<Meeting>> met() {
    thread_.join();
    return std::move(met_);
  }

 private:
  std::optional<Result<Meeting>> met_;
  std::thread thread_;
};

/// `size` ranks meet, the last of them once `refused` more have been; all, in that order.
Meetings meet_despite(const std::vector<Comer>& refused, Rank size, const MeetingPlace& place) {
  std::vector<Comer> comers = everybody(size, place);
  comers.insert(comers.end(), refused.begin(), refused.end());
  Meetings meetings(comers.size());
  std::atomic<std::size_t> ended{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < comers.size(); ++i) {
    threads.emplace_back([&, i] {
      const Comer& one = comers[i];
      while (one.rank == size - 1 && one.size == size && ended < refused.size()) {
        std::this_thread::yield();
      }
      meetings[i].emplace(meet(one.place, one.rank, one.size, in(one.patience)));
      ++ended;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return meetings;
}

TEST(Claims, ASecondProcessOfARankIsRefusedAndTheOthersMeet) {
  const MeetingPlace place = tcp_place(free_port());
  Meetings meetings = meet_despite({{2, 4, place}}, 4, place);
  if (!meetings[2]->ok()) std::swap(meetings[2], meetings[4]);  // who came first stays
  ASSERT_FALSE(meetings[4]->ok());
  EXPECT_EQ(meetings[4]->status().code(), Code::invalid_usage);
  EXPECT_THAT(meetings[4]->status().text(),
              AllOf(HasSubstr("two processes claim to be rank 2"), HasSubstr("came first"),
                    HasSubstr("pid " + std::to_string(getpid()) + " on host")));
  meetings.pop_back();
  expect_whole(meetings);
}

TEST(Claims, ASecondHubIsRefusedAndTheFirstMeets) {
  const TemporaryFolder directory;
  MeetingPlace two_ports = tcp_place(free_port());  // the second hub finds one of them free
  two_ports.addresses.push_back("127.0.0.1:" + std::to_string(free_port()));
  for (const MeetingPlace& place :
       {tcp_place(free_port()), two_ports, file_place(directory.path() + "/meet")}) {
    WaitingHub first(place, 3);
    if (place.kind == MeetingPlace::Kind::file) {
      while (!std::filesystem::exists(place.path)) std::this_thread::yield();
    } else {
      const Caller listens(place);
    }
    const Result<Meeting> second = meet(place, 0, 3, in(seconds(20)));
    EXPECT_THAT(second.status().text(), HasSubstr("two processes claim to be rank 0"));
    Meetings meetings = meet_all({{1, 3, place}, {2, 3, place}});
    meetings.insert(meetings.begin(), first.met());
    expect_whole(meetings);
  }
}

TEST(Claims, AnotherSizeIsRefusedAndTheOthersMeet) {
  const MeetingPlace place = tcp_place(free_port());
  Meetings meetings = meet_despite({{2, 8, place}, {5, 8, place}}, 3, place);
  for (const std::size_t other : {std::size_t{3}, std::size_t{4}}) {
    ASSERT_FALSE(meetings[other]->ok());
    EXPECT_EQ(meetings[other]->status().code(), Code::invalid_usage);
    EXPECT_THAT(meetings[other]->status().text(),
                AllOf(HasSubstr("one of 8 ranks"), HasSubstr("as one of 3")));
  }
  meetings.resize(3);
  expect_whole(meetings);
}

TEST(Claims, WhoWasRefusedIsNamedWhereARankIsMissing) {
  const MeetingPlace place = tcp_place(free_port());
  WaitingHub hub(place, 2, seconds(2));
  Caller caller(place);
  caller.claim(*this_claimant(1, 8));
  EXPECT_THAT(caller.refusal(), HasSubstr("one of 8 ranks"));
  EXPECT_THAT(hub.met()->status().text(),
              AllOf(HasSubstr("rank 1 of 2 has not come"), HasSubstr("one of 8 ranks"),
                    HasSubstr("same size")));
}

// Whoever knows the key, as everybody does where it holds no secret, and claims what is taken.
TEST(Claims, WhatIsTakenStaysWithItsHolder) {
  const MeetingPlace place = tcp_place(free_port());
  WaitingHub hub(place, 3);
  const Claimant first = *this_claimant(1, 3);
  Caller holder(place);
  holder.claim(first);
  ASSERT_TRUE(holder.is_welcome());
  holder.say(pack_confirm());
  for (const Rank rank : {0, 1}) {
    Caller other(place);
    other.claim(*this_claimant(rank, 3));
    EXPECT_THAT(other.refusal(),
                HasSubstr("two processes claim to be rank " + std::to_string(rank)));
  }
  std::optional<Result<Meeting>> last;
  std::thread rank2([&] { last.emplace(meet(place, 2, 3, in(seconds(20)))); });
  EXPECT_TRUE(read_start(holder.hear()).has_value());
  rank2.join();
  EXPECT_TRUE(last->ok()) << last->status().text();
  EXPECT_TRUE(hub.met()->ok());
}

TEST(Claims, ARankWhoseConnectionBrokeGetsInAgain) {
  const MeetingPlace place = tcp_place(free_port());
  WaitingHub hub(place, 2);
  const Claimant me = *this_claimant(1, 2);
  Caller first(place);
  first.claim(me);
  ASSERT_TRUE(first.is_welcome());
  // The same process once more; the hub has not seen the first connection end.
  Caller again(place);
  again.claim(me);
  ASSERT_TRUE(again.is_welcome());
  again.say(pack_confirm());
  EXPECT_TRUE(read_start(again.hear()).has_value());
  EXPECT_TRUE(hub.met()->ok());
}

TEST(Claims, ANewProcessTakesTheRankOfADeadOne) {
  const MeetingPlace place = tcp_place(free_port());
  WaitingHub hub(place, 2);
  Caller dead(place);
  dead.claim(*this_claimant(1, 2));
  ASSERT_TRUE(dead.is_welcome());
  // Its claim is there before the news that the other is gone.
  Caller restarted(place);
  restarted.claim(*this_claimant(1, 2));
  Caller::flush(place);
  dead.hang_up();
  ASSERT_TRUE(restarted.is_welcome());
  restarted.say(pack_confirm());
  EXPECT_TRUE(read_start(restarted.hear()).has_value());
  EXPECT_TRUE(hub.met()->ok());
}

// As when the rank finds a newer file, or takes another way, while the hub answers its claim.
TEST(Claims, ARankThatTurnsAwayAfterItsClaimIsNotCountedOn) {
  const MeetingPlace place = tcp_place(free_port());
  WaitingHub hub(place, 2);
  Caller caller(place);
  caller.claim(*this_claimant(1, 2));
  ASSERT_TRUE(caller.is_welcome());
  caller.hang_up();
  Meetings meetings(1);
  meetings.push_back(meet(place, 1, 2, in(seconds(20))));
  meetings[0] = hub.met();
  expect_whole(meetings);
}

// A proof comes before its claim is read, so a stranger learns nothing of what would be read.
TEST(Claims, WhatAStrangerClaimsIsNotRead) {
  const MeetingPlace place = tcp_place(free_port());
  WaitingHub hub(place, 2);
  for (const char* text : {"", "no claimant at all"}) {
    Caller stranger(place);
    std::string claim =
        pack_claim({}, std::string(kNonceBytes, 'n'), std::string(kProofBytes, 'p'));
    claim.resize(8 + 4 + kNonceBytes + kProofBytes);  // up to who it is
    stranger.say(claim + text);
    EXPECT_EQ(read_refusal(stranger.hear()), Refused::key);
  }
  EXPECT_TRUE(meet(place, 1, 2, in(seconds(20))).ok());
}

}  // namespace
}  // namespace coll::testing
