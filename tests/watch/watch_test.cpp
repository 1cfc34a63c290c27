// SPDX-License-Identifier: Apache-2.0
// Failures that the watch notices, spreads and words.
#include "watch/watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "control/topic_frame.hpp"
#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/meeting_ranks.hpp"
#include "rendezvous/ranks_text.hpp"
#include "sys/net/socket_frame.hpp"
#include "temporary_folder.hpp"
#include "watch/places_report.hpp"
#include "watch/watch_words.hpp"

namespace coll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Call all_reduce(std::uint64_t sequence) {
  return {sequence,      Collective::all_reduce, DataType::float32,
          ReduceOp::sum, CallForm::usual,        kNoRank,
          4096};
}
Call all_gather(std::uint64_t sequence) {
  return {sequence,      Collective::all_gather, DataType::float32,
          ReduceOp::sum, CallForm::usual,        kNoRank,
          4096};
}

std::vector<Member> members_of(Rank size) {
  std::vector<Member> members;
  for (Rank rank = 0; rank < size; ++rank) members.push_back({"host", 1000 + rank});
  return members;
}

Result<std::unique_ptr<Watch>> watch_over(Meeting meeting, const std::vector<Member>& members,
                                          const CallBoard& board) {
  if (meeting.size == 1) return start_watch(nullptr, members, board);
  COLL_ASSIGN(const auto plane, start_control(std::move(meeting), members));
  return start_watch(plane->open_first(), members, board);
}

/// The ranks' watches in one process, by rank.
struct Watched {
  explicit Watched(Rank size) : boards(static_cast<std::size_t>(size)) {
    std::vector<Meeting> meetings = star(size);
    hub = meetings[0].hub;
    for (std::size_t rank = 0; rank < boards.size(); ++rank) {
      auto watch = watch_over(std::move(meetings[rank]), members_of(size), boards[rank]);
      COLL_CHECK(watch.ok(), "starting a watch");
      watches.push_back(*std::move(watch));
    }
  }
  /// The k-th rank that is not the hub.
  [[nodiscard]] std::size_t spoke(int k) const {
    std::size_t rank = 0;
    for (;; ++rank) {
      if (static_cast<Rank>(rank) == hub) continue;
      if (k-- == 0) return rank;
    }
  }
  std::vector<CallBoard> boards;
  std::vector<std::unique_ptr<Watch>> watches;
  Rank hub = 0;
};

/// Waits (bounded) for the failure; a success if none comes.
Status await_failure(const Watch& watch, Clock::duration patience = seconds(10)) {
  const auto until = in(patience);
  while (!watch.has_failed() && Clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  return watch.failure();
}

void expect_same_everywhere(const Watched& ranks, const std::set<std::size_t>& except = {}) {
  std::set<std::string> texts;
  for (std::size_t rank = 0; rank < ranks.watches.size(); ++rank) {
    if (except.contains(rank)) continue;
    const Status failure = await_failure(*ranks.watches[rank]);
    EXPECT_FALSE(failure.ok()) << "rank " << rank;
    texts.insert(failure.text());
  }
  EXPECT_EQ(texts.size(), 1U) << ::testing::PrintToString(texts);
}

TEST(Watch, LeavingInOrderIsNoFailureInAnyOrder) {
  for (int round = 0; round < 20; ++round) {
    Watched ranks(4);
    std::vector<std::thread> threads;
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t rank = (i + static_cast<std::size_t>(round)) % 4;
      if (round % 2 == 0) {
        ranks.watches[rank]->leave();
      } else {
        threads.emplace_back([&, rank] { ranks.watches[rank]->leave(); });
      }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(Clock::now() - begin, seconds(1)) << "nobody sits out a time-out";
    for (const auto& watch : ranks.watches) {
      EXPECT_FALSE(watch->has_failed()) << watch->failure().text();
    }
  }
}

/// Its farewell and its end may be there before this rank's watch.
TEST(Watch, AHubThatLeftBeforeThisRankListenedIsNotDead) {
  std::vector<Meeting> meetings = star(2);
  const Rank hub = meetings[0].hub, spoke = 1 - hub;
  const auto plane_of = [&](Rank rank) {
    return *start_control(std::move(meetings[static_cast<std::size_t>(rank)]), members_of(2));
  };
  const auto at_hub = plane_of(hub), at_spoke = plane_of(spoke);
  const CallBoard board;
  auto there = at_spoke->open_first();
  const auto marker = at_spoke->open(1, {0, 1});
  {
    const auto leaving = at_hub->open_first();
    const std::lock_guard lock(leaving->mutex());
    leaving->send(spoke, pack_left({hub, 0}));
  }
  const auto behind = at_hub->open(1, {0, 1});
  behind->tell_all("behind it");
  ASSERT_TRUE(marker->receive(in(seconds(10))));
  const auto watch = start_watch(std::move(there), members_of(2), board);
  ASSERT_TRUE(watch.ok());
  EXPECT_FALSE((*watch)->has_failed()) << (*watch)->failure().text();
  (*watch)->leave();
  EXPECT_FALSE((*watch)->has_failed());
}

/// A rank that ends the communicator without leaving it is not said to be killed.
TEST(Watch, AHangUpIsNoDeathOfAProcess) {
  Watched ranks(3);
  ranks.watches[ranks.spoke(0)].reset();
  const Status failure = await_failure(*ranks.watches[ranks.spoke(1)]);
  EXPECT_EQ(failure.rank(), static_cast<Rank>(ranks.spoke(0)));
  EXPECT_THAT(failure.text(), HasSubstr("is gone from the communicator"));
  EXPECT_THAT(failure.text(), Not(HasSubstr("killed")));
}

TEST(Watch, AReportReachesAllRanks) {
  for (const bool from_hub : {true, false}) {
    Watched ranks(4);
    const std::size_t reporter = from_hub ? static_cast<std::size_t>(ranks.hub) : ranks.spoke(1);
    const Status failure = failed(Code::aborted, "enough").at_rank(static_cast<Rank>(reporter));
    const Status verdict =
        ranks.watches[reporter]->report(failure.in_call({"barrier #7", 7, Collective::barrier}));
    EXPECT_EQ(verdict.code(), Code::aborted);
    EXPECT_EQ(verdict.rank(), static_cast<Rank>(reporter));
    EXPECT_EQ(verdict.failure()->what, "enough");
    EXPECT_EQ(verdict.failure()->call.text, "barrier #7");
    EXPECT_EQ(verdict.failure()->call.sequence, 7);
    EXPECT_EQ(verdict.failure()->call.collective, Collective::barrier);
    expect_same_everywhere(ranks);
    EXPECT_EQ(await_failure(*ranks.watches[0]).text(), verdict.text());
  }
}

TEST(Watch, ManyFailuresAtOnceGiveOneVerdict) {
  for (int round = 0; round < 20; ++round) {
    Watched ranks(6);
    std::vector<std::thread> threads;
    std::vector<Status> returned(6);
    for (std::size_t rank = 0; rank < 6; ++rank) {
      threads.emplace_back([&, rank] {
        if (rank % 2 == 0) {
          returned[rank] = ranks.watches[rank]->report(
              failed(Code::system, "disk " + std::to_string(rank) + " is on fire"));
        } else {
          returned[rank] = ranks.watches[rank]->report_deadline(all_reduce(rank), 5, "");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    expect_same_everywhere(ranks);
    for (const Status& one : returned) EXPECT_EQ(one.text(), returned[0].text());
  }
}

TEST(Watch, AClosedLinkIsADeathNamedOnAll) {
  for (const bool hub_dies : {true, false}) {
    Watched ranks(5);
    const std::size_t dead = hub_dies ? static_cast<std::size_t>(ranks.hub) : ranks.spoke(2);
    ranks.watches[dead].reset();  // without leaving
    for (std::size_t rank = 0; rank < 5; ++rank) {
      if (rank == dead) continue;
      const Status failure = await_failure(*ranks.watches[rank], seconds(1));
      EXPECT_EQ(failure.code(), Code::peer_lost);
      EXPECT_EQ(failure.rank(), static_cast<Rank>(dead));
      EXPECT_THAT(failure.text(), HasSubstr("rank " + std::to_string(dead) + " (pid " +
                                            std::to_string(1000 + dead) + " on host host)"));
    }
    ranks.watches[dead] = nullptr;
    std::set<std::string> texts;
    for (const auto& watch : ranks.watches) {
      if (watch) texts.insert(watch->failure().text());
    }
    EXPECT_EQ(texts.size(), 1U);
  }
}

TEST(Watch, ADeadlineSaysWhoIsWhere) {
  for (const bool from_hub : {true, false}) {
    Watched ranks(6);
    // Somebody who is in the call asks; one is in another call, one in none, one began nothing.
    const std::size_t asker = from_hub ? static_cast<std::size_t>(ranks.hub) : ranks.spoke(0);
    std::vector<std::size_t> others;
    for (std::size_t rank = 0; rank < 6; ++rank) {
      if (rank != asker) others.push_back(rank);
    }
    for (const std::size_t rank : {asker, others[0], others[1]}) {
      ranks.boards[rank].enter(all_reduce(41));
    }
    ranks.boards[others[2]].enter(all_gather(41));
    const std::uint64_t past = ranks.boards[others[3]].enter(all_reduce(40));
    ranks.boards[others[3]].leave(past);
    const Status verdict = ranks.watches[asker]->report_deadline(all_reduce(41), 12.34, "");
    EXPECT_EQ(verdict.code(), Code::deadline);
    const auto who = [](std::size_t rank) {
      return "rank " + std::to_string(rank) + " (pid " + std::to_string(1000 + rank) +
             " on host host)";
    };
    std::vector<Rank> inside{static_cast<Rank>(asker), static_cast<Rank>(others[0]),
                             static_cast<Rank>(others[1])};
    std::ranges::sort(inside);
    const std::string text = verdict.text();
    EXPECT_THAT(text, HasSubstr("rank " + std::to_string(asker) +
                                " waited 12.3 s in all_reduce #41 f32x4096 sum: "));
    EXPECT_THAT(text, HasSubstr(who(others[2]) + " is in all_gather #41 f32x4096;"));
    EXPECT_THAT(text, HasSubstr(who(others[3]) +
                                " is in no call, the last was all_reduce #40 f32x4096 sum, "));
    EXPECT_THAT(text, HasSubstr(who(others[4]) + " has not called anything yet"));
    EXPECT_THAT(text, HasSubstr(ranks_text(inside) + " are in all_reduce #41 f32x4096 sum"));
    expect_same_everywhere(ranks);
  }
}

TEST(Watch, ADeadlineWithOneRankElsewhereBlamesIt) {
  Watched ranks(3);
  const std::size_t late = ranks.spoke(1);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    if (rank != late) ranks.boards[rank].enter(all_reduce(1));
  }
  const Status verdict = ranks.watches[ranks.spoke(0)]->report_deadline(all_reduce(1), 1, "");
  EXPECT_EQ(verdict.rank(), static_cast<Rank>(late));
}

TEST(Watch, AMismatchNamesBothCallsAlsoOfARankThatHasGoneOn) {
  for (const bool from_hub : {true, false}) {
    Watched ranks(4);
    const std::size_t finder = from_hub ? static_cast<std::size_t>(ranks.hub) : ranks.spoke(0);
    const std::size_t odd = ranks.spoke(2);
    std::uint64_t past = 0;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const std::uint64_t place =
          ranks.boards[rank].enter(rank == odd ? all_gather(41) : all_reduce(41));
      if (rank == odd) past = place;
    }
    ranks.boards[odd].leave(past);
    ranks.boards[odd].enter(all_reduce(42));
    const Status verdict = ranks.watches[finder]->report_mismatch(
        all_reduce(41), static_cast<Rank>(odd), failed(Code::mismatch, "digest 1 is not digest 2"));
    EXPECT_EQ(verdict.code(), Code::mismatch);
    EXPECT_EQ(verdict.rank(), static_cast<Rank>(odd));
    EXPECT_THAT(verdict.text(), HasSubstr("rank " + std::to_string(odd)));
    EXPECT_THAT(verdict.text(), HasSubstr("called all_gather #41 f32x4096;"));
    EXPECT_THAT(verdict.text(), HasSubstr("called all_reduce #41 f32x4096 sum"));
    expect_same_everywhere(ranks);
  }
}

TEST(Watch, ARankThatLeftFailsThoseWhoCallOnIt) {
  for (const bool hub_leaves : {true, false}) {
    Watched ranks(4);
    const std::size_t gone = hub_leaves ? static_cast<std::size_t>(ranks.hub) : ranks.spoke(1);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const std::uint64_t place = ranks.boards[rank].enter(all_reduce(7));
      if (rank == gone) ranks.boards[rank].leave(place);
    }
    ranks.watches[gone]->leave();
    // All are still in #7, of which the rank that left has done its part: that is no failure.
    std::this_thread::sleep_for(milliseconds(400));
    for (const auto& watch : ranks.watches) EXPECT_FALSE(watch->has_failed());
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (rank != gone) ranks.boards[rank].enter(all_reduce(8));
    }
    expect_same_everywhere(ranks, {gone});
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (rank == gone) continue;
      EXPECT_EQ(ranks.watches[rank]->failure().code(), Code::peer_lost);
      EXPECT_EQ(ranks.watches[rank]->failure().rank(), static_cast<Rank>(gone));
      EXPECT_THAT(ranks.watches[rank]->failure().text(), HasSubstr("left the communicator after"));
    }
  }
}

TEST(Watch, ARankThatLeftIsNotMissedBySendsAmongOthers) {
  Watched ranks(4);
  const std::size_t gone = ranks.spoke(1);
  const std::size_t a = ranks.spoke(0);
  const std::size_t b = ranks.spoke(2);
  ranks.watches[gone]->leave();
  ranks.boards[a].enter({1, Collective::recv, DataType::uint8, ReduceOp::sum, CallForm::usual,
                         static_cast<Rank>(b), 1});
  ranks.boards[b].enter({1, Collective::recv, DataType::uint8, ReduceOp::sum, CallForm::usual,
                         static_cast<Rank>(gone), 1});
  const Status failure = await_failure(*ranks.watches[b], seconds(5));
  EXPECT_EQ(failure.rank(), static_cast<Rank>(gone)) << "b calls on the rank that left";
  expect_same_everywhere(ranks, {gone});
}

TEST(Watch, OneRankAloneNeedsNoThread) {
  Watched ranks(1);
  EXPECT_FALSE(ranks.watches[0]->has_failed());
  ranks.boards[0].enter(all_reduce(1));
  const Status verdict = ranks.watches[0]->report_deadline(all_reduce(1), 1, "");
  EXPECT_EQ(verdict.code(), Code::deadline);
  EXPECT_TRUE(ranks.watches[0]->has_failed());
  EXPECT_EQ(ranks.watches[0]->report(failed(Code::aborted, "late")).text(), verdict.text());
  ranks.watches[0]->leave();
}

/// All watches of a process have one thread, and it waits for none of them.
TEST(Watch, AHubThatDoesNotAnswerHoldsUpNoOther) {
  std::vector<Meeting> silent = star(2);
  const auto spoke = static_cast<std::size_t>(1 - silent[0].hub);
  const CallBoard board;
  auto waiting = watch_over(std::move(silent[spoke]), members_of(2), board);
  ASSERT_TRUE(waiting.ok());
  Watched others(3);
  std::thread patient([&] {
    const auto begin = Clock::now();
    const Status verdict = (*waiting)->report(failed(Code::aborted, "anybody?"));
    EXPECT_GT(Clock::now() - begin, seconds(1));
    EXPECT_THAT(verdict.text(), HasSubstr("does not answer"));
  });
  const auto begin = Clock::now();
  const Status verdict = others.watches[others.spoke(0)]->report(failed(Code::aborted, "enough"));
  EXPECT_EQ(verdict.failure()->what, "enough");
  expect_same_everywhere(others);
  EXPECT_LT(Clock::now() - begin, milliseconds(900));
  patient.join();
}

/// The hub asks about one call at a time, of a rank that answers late, or never.
TEST(Watch, ADoubtOfAPairOutlastsTheQuestionBeforeIt) {
  for (const bool from_hub : {true, false}) {
    std::vector<Meeting> meetings = star(3);
    const Rank hub = meetings[0].hub;
    const Rank spoke = hub == 0 ? 1 : 0, silent = 3 - hub - spoke;
    const auto pair_with = [](Rank peer, Collective which, std::uint64_t count) {
      return Call{1, which, DataType::float32, ReduceOp::sum, CallForm::usual, peer, count};
    };
    CallBoard boards[2];
    std::vector<std::unique_ptr<Watch>> watches;
    for (const Rank rank : {hub, spoke}) {
      auto watch = watch_over(std::move(meetings[static_cast<std::size_t>(rank)]), members_of(3),
                              boards[rank == hub ? 0 : 1]);
      ASSERT_TRUE(watch.ok());
      watches.push_back(*std::move(watch));
    }
    const Call late = pair_with(silent, Collective::recv, 7);
    const Call received = pair_with(spoke, Collective::recv, 8);
    const Call sent = pair_with(hub, Collective::send, 9);
    boards[0].enter(late);
    boards[0].enter(received);
    boards[1].enter(sent);
    // The second is taken when the first has been.
    for (const Call& call : {late, from_hub ? received : late})
      while (!watches[0]->doubt(call)) std::this_thread::yield();
    if (!from_hub) {
      ASSERT_TRUE(watches[1]->doubt(sent));
    }
    for (const auto& watch : watches)
      EXPECT_EQ(await_failure(*watch).code(), Code::mismatch) << "from the hub: " << from_hub;
  }
}

TEST(Watch, GarbageFromARankFailsAllAndNamesIt) {
  std::vector<Meeting> meetings = star(3);
  const auto hub = static_cast<std::size_t>(meetings[0].hub);
  const std::size_t odd = hub == 0 ? 1 : 0;
  const CallBoard board;
  auto watch = watch_over(std::move(meetings[hub]), members_of(3), board);
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(send_frame(meetings[odd].links[hub].get(),
                         *topic_frame(ControlPlane::kFirstTopic, false, "pfoo"), in(seconds(1)))
                  .ok());
  const Status failure = await_failure(**watch);
  EXPECT_EQ(failure.rank(), static_cast<Rank>(odd));
  EXPECT_THAT(failure.text(), HasSubstr("makes no sense"));
}

// --- ranks as processes

/// What a child does as its rank: it returns what to write to the test.
/// `go` waits for the test's `go()`.
using Body = std::function<std::string(Watch&, CallBoard&, const std::function<void()>& go)>;

/// Processes that meet by a file; each writes one line when it is done.
class Processes {
 public:
  Processes(Rank size, const Body& body) {
    int go[2];
    COLL_CHECK(pipe(go) == 0, "pipe");
    Fd go_read(go[0]);
    go_ = Fd(go[1]);
    for (Rank rank = 0; rank < size; ++rank) {
      int ends[2];
      COLL_CHECK(pipe(ends) == 0, "pipe");
      const pid_t child = fork();
      if (child == 0) {
        go_.reset();
        run(rank, size, ends[1], go_read.get(), body);
        _exit(0);
      }
      close(ends[1]);
      pids.push_back(child);
      outputs_.emplace_back(ends[0]);
    }
    // All have met, started their watch and entered their first call.
    for (Rank rank = 0; rank < size; ++rank) COLL_CHECK(line(rank) == "ready", "a rank is ready");
  }
  ~Processes() {
    for (const pid_t pid : pids) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  /// Lets the ranks go on where their body waits for it.
  void go() { go_.reset(); }
  /// The next line of a rank, waiting for it (bounded); empty if it ends or takes too long.
  std::string line(Rank rank) {
    std::string text;
    const int fd = outputs_[static_cast<std::size_t>(rank)].get();
    for (;;) {
      pollfd one{fd, POLLIN, 0};
      char byte = 0;
      if (poll(&one, 1, 10000) != 1 || read(fd, &byte, 1) != 1 || byte == '\n') return text;
      text += byte;
    }
  }
  std::vector<pid_t> pids;

 private:
  void run(Rank rank, Rank size, int out, int go, const Body& body) const {
    MeetingPlace place;
    place.kind = MeetingPlace::Kind::file;
    place.path = directory_.path() + "/meet";
    place.key = "job";
    Result<Meeting> meeting = meet(place, rank, size, in(seconds(20)));
    std::vector<Member> members;
    if (meeting.ok()) {
      const auto texts = exchange(*meeting, std::to_string(getpid()), in(seconds(20)));
      if (texts.ok()) {
        for (const std::string& text : *texts) members.push_back({"here", std::stol(text)});
      }
    }
    CallBoard board;
    if (members.empty()) return;
    auto watch = watch_over(*std::move(meeting), members, board);
    if (!watch.ok()) return;
    board.enter(all_reduce(1));
    dprintf(out, "ready\n");
    dprintf(out, "%s\n", body(**watch, board, [go] {
                           char byte = 0;
                           (void)!read(go, &byte, 1);
                         }).c_str());
    (*watch)->leave();
  }
  test::TemporaryFolder directory_;
  Fd go_;
  std::vector<Fd> outputs_;
};

std::string wait_for_failure(Watch& watch, CallBoard& /*board*/,
                             const std::function<void()>& /*go*/) {
  return await_failure(watch, seconds(20)).text();
}

/// Returns when the process has stopped.
void stop(pid_t pid) {
  kill(pid, SIGSTOP);
  int status = 0;
  COLL_CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "stopping a rank");
}

TEST(WatchProcesses, AKilledRankIsNamedWithinASecond) {
  for (const Rank victim : {2, 0}) {  // 0 is the hub
    Processes ranks(4, wait_for_failure);
    const pid_t pid = ranks.pids[static_cast<std::size_t>(victim)];
    const auto begin = Clock::now();
    kill(pid, SIGKILL);
    std::set<std::string> texts;
    for (Rank rank = 0; rank < 4; ++rank) {
      if (rank != victim) texts.insert(ranks.line(rank));
    }
    EXPECT_LT(Clock::now() - begin, seconds(1));
    ASSERT_EQ(texts.size(), 1U) << ::testing::PrintToString(texts);
    EXPECT_THAT(*texts.begin(), HasSubstr("peer lost: rank " + std::to_string(victim) + " (pid " +
                                          std::to_string(pid) + " on host here) is gone"));
  }
}

TEST(WatchProcesses, TwoKilledAtOnceGiveOneVerdict) {
  Processes ranks(6, wait_for_failure);
  kill(ranks.pids[2], SIGKILL);
  kill(ranks.pids[5], SIGKILL);
  std::set<std::string> texts;
  for (const Rank rank : {0, 1, 3, 4}) texts.insert(ranks.line(rank));
  EXPECT_EQ(texts.size(), 1U) << ::testing::PrintToString(texts);
}

TEST(WatchProcesses, AStoppedRankIsSaidNotToAnswer) {
  Processes ranks(4, [](Watch& watch, CallBoard& /*board*/, const auto& go) {
    go();
    return watch.report_deadline(all_reduce(1), 0.3, "").text();
  });
  stop(ranks.pids[3]);
  ranks.go();
  std::set<std::string> texts;
  for (const Rank rank : {0, 1, 2}) texts.insert(ranks.line(rank));
  kill(ranks.pids[3], SIGCONT);
  ASSERT_EQ(texts.size(), 1U) << ::testing::PrintToString(texts);
  EXPECT_THAT(*texts.begin(), HasSubstr("rank 3 (pid " + std::to_string(ranks.pids[3]) +
                                        " on host here) does not answer; ranks 0-2 are in"));
}

TEST(WatchProcesses, AStoppedHubIsSaidNotToAnswer) {
  Processes ranks(3, [](Watch& watch, CallBoard& /*board*/, const auto& go) {
    go();
    return watch.report_deadline(all_reduce(1), 0.3, "").text();
  });
  stop(ranks.pids[0]);
  ranks.go();
  for (const Rank rank : {1, 2}) {
    const auto begin = Clock::now();
    const std::string text = ranks.line(rank);
    EXPECT_LT(Clock::now() - begin, seconds(5));
    EXPECT_THAT(text, HasSubstr("the hub, rank 0 (pid " + std::to_string(ranks.pids[0]) +
                                " on host here), does not answer"));
  }
  kill(ranks.pids[0], SIGCONT);
}

TEST(WatchProcesses, ASpinningRankStillAnswers) {
  Processes ranks(2, [](Watch& watch, CallBoard& board, const auto& /*go*/) {
    board.leave(1);
    const auto begin = Clock::now();
    while (!watch.has_failed() && Clock::now() - begin < milliseconds(1500)) {
    }
    if (watch.has_failed()) return watch.failure().text();
    return watch.report_deadline(all_reduce(2), 1.5, "").text();
  });
  const std::string text = ranks.line(0);
  EXPECT_EQ(text, ranks.line(1));
  EXPECT_THAT(text, HasSubstr("are in no call, the last was all_reduce #1 f32x4096 sum"));
}

// --- words

TEST(RanksText, PutsRunsTogether) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1}), "ranks 0, 1");
  EXPECT_EQ(ranks_text({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
  std::vector<Rank> even;
  for (Rank rank = 0; rank < 100; rank += 2) even.push_back(rank);
  EXPECT_EQ(ranks_text(even), "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, … (50 ranks)");
}

TEST(PlacesReport, ASendIsAskedOfItsPeerOnly) {
  Question question;
  question.asker = 0;
  question.call = {5, Collective::send, DataType::float32, ReduceOp::sum, CallForm::usual, 2, 8};
  question.waited_s = 1;
  std::vector<RankPlace> places(4);
  for (RankPlace& one : places) one.place = Whereabouts{};
  places[0].place->reading = {question.call, true, 0, 1, 0};
  places[2].place->reading = {all_reduce(1), true, 2, 1, 1};
  const Status report = places_report(question, places, members_of(4));
  EXPECT_EQ(report.rank(), 2);
  EXPECT_EQ(report.failure()->what,
            "rank 0 waited 1.0 s in send #5 f32x8 peer 2: rank 2 (pid 1002 on host host) is in "
            "all_reduce #1 f32x4096 sum and 2 more; rank 0 is in send #5 f32x8 peer 2");
}

/// Where no rank knows all counts of an operation on unequal blocks, each names its own.
TEST(PlacesReport, CountsThatAreEachRanksOwnDoNotDiffer) {
  const auto differ = [](Collective collective) {
    Question question;
    question.asker = 0;
    question.call = {5, collective, DataType::float32, ReduceOp::sum, CallForm::unequal, 0, 8};
    std::vector<RankPlace> places(2);
    for (RankPlace& one : places) one.place = Whereabouts{};
    places[0].place->counterpart = question.call;
    places[1].place->counterpart = question.call;
    places[1].place->counterpart->count = 9;
    return calls_differ(question, places);
  };
  EXPECT_FALSE(differ(Collective::all_to_all));
  EXPECT_FALSE(differ(Collective::gather));
  EXPECT_FALSE(differ(Collective::scatter));
  EXPECT_TRUE(differ(Collective::all_gather));
  EXPECT_TRUE(differ(Collective::reduce_scatter));
}

/// Of a send only its peer's receive counts, whatever others have with the sender.
TEST(PlacesReport, AnExchangeDiffersFromItsPeersOnly) {
  Question question;
  question.asker = 0;
  question.call = {5, Collective::send, DataType::float32, ReduceOp::sum, CallForm::usual, 1, 8};
  std::vector<RankPlace> places(3);
  for (RankPlace& one : places) one.place = Whereabouts{};
  const auto receives = [](std::uint64_t count) {
    return Call{5, Collective::recv, DataType::float32, ReduceOp::sum, CallForm::usual, 0, count};
  };
  places[2].place->counterpart = receives(9);
  EXPECT_FALSE(calls_differ(question, places));
  places[1].place->counterpart = receives(8);
  EXPECT_FALSE(calls_differ(question, places));
  places[1].place->counterpart = receives(9);
  EXPECT_TRUE(calls_differ(question, places));
}

}  // namespace
}  // namespace coll::testing
