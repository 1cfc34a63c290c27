// SPDX-License-Identifier: Apache-2.0
// Topics of a star that all communicators of a process share a thread for.
#include "control/topic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control/control_plane.hpp"
#include "control/topic_exchange.hpp"
#include "control/topic_frame.hpp"
#include "rendezvous/meeting_ranks.hpp"
#include "sys/net/socket_frame.hpp"

namespace coll::testing {
namespace {

using ::testing::HasSubstr;

using Topics = std::vector<std::unique_ptr<Topic>>;

/// Ranks that have met, with a plane each; here they are in one process.
struct Planes {
  explicit Planes(Rank size) {
    std::vector<Meeting> meetings = star(size);
    hub = meetings[0].hub;
    for (Meeting& meeting : meetings) {
      auto plane = std::make_shared<ControlPlane>(std::move(meeting));
      COLL_CHECK(plane->begin().ok(), "beginning a plane");
      all.push_back(std::move(plane));
    }
  }
  [[nodiscard]] ControlPlane& of(Rank rank) const { return *all[static_cast<std::size_t>(rank)]; }
  /// Every rank's end of a topic of all ranks, in the order of ranks.
  [[nodiscard]] Topics open(std::uint64_t id) const {
    Topics topics;
    for (const auto& plane : all) topics.push_back(plane->open(id, ranks()));
    return topics;
  }
  [[nodiscard]] std::vector<Rank> ranks() const {
    std::vector<Rank> every;
    for (Rank rank = 0; rank < static_cast<Rank>(all.size()); ++rank) every.push_back(rank);
    return every;
  }
  /// A rank that is not the hub.
  [[nodiscard]] Rank spoke() const { return hub == 0 ? 1 : 0; }
  [[nodiscard]] Rank other_spoke() const { return hub == 2 ? 1 : 2; }

  std::vector<std::shared_ptr<ControlPlane>> all;
  Rank hub = 0;
};

void send(Topic& from, Rank to, std::string_view frame) {
  const std::lock_guard lock(from.mutex());
  from.send(to, frame);
}

/// "frame", "closed", or "nothing" for a while.
std::string next(Topic& topic, Clock::duration patience = seconds(10)) {
  const auto one = topic.receive(in(patience));
  return !one ? "nothing" : one->closed ? "closed" : one->frame;
}

int control_threads() {
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    threads += name == "coll-watch" ? 1 : 0;
  }
  return threads;
}

TEST(ControlThread, IsOneForAllStarsAndEndsWithTheLast) {
  EXPECT_EQ(control_threads(), 0);
  {
    const Planes some(3);
    EXPECT_EQ(control_threads(), 1);
    const Planes more(4);
    const Topics topics = more.open(5);
    EXPECT_EQ(control_threads(), 1);
  }
  EXPECT_EQ(control_threads(), 0);
  const Planes again(2);
  EXPECT_EQ(control_threads(), 1);
}

TEST(Topic, FramesReachTheirTopicOnly) {
  const Planes planes(3);
  const Topics one = planes.open(1), two = planes.open(2);
  const auto hub = static_cast<std::size_t>(planes.hub);
  const auto spoke = static_cast<std::size_t>(planes.spoke());
  send(*one[hub], planes.spoke(), "first");
  send(*two[hub], planes.spoke(), "second");
  send(*two[spoke], planes.hub, "back");
  EXPECT_EQ(next(*two[spoke]), "second");
  EXPECT_EQ(next(*one[spoke]), "first");
  EXPECT_EQ(next(*two[hub]), "back");
  EXPECT_EQ(next(*one[hub], milliseconds(0)), "nothing");
  send(*one[spoke], planes.other_spoke(), "there is no way but to the hub");
  const auto other = static_cast<std::size_t>(planes.other_spoke());
  send(*two[hub], planes.other_spoke(), "behind it");
  EXPECT_EQ(next(*two[other]), "behind it");
  EXPECT_EQ(next(*one[other], milliseconds(0)), "nothing");
}

/// The ranks of a topic are numbered anew, in any order.
TEST(Topic, HasRanksOfItsOwn) {
  const Planes planes(4);
  std::vector<Rank> members{planes.other_spoke(), planes.hub, planes.spoke()};
  const auto at_hub = planes.of(planes.hub).open(9, members);
  const auto at_spoke = planes.of(planes.spoke()).open(9, members);
  EXPECT_EQ(at_hub->rank(), 1);
  EXPECT_EQ(at_spoke->rank(), 2);
  EXPECT_EQ(at_spoke->hub(), 1);
  EXPECT_EQ(at_spoke->size(), 3);
  send(*at_spoke, 1, "hello");
  const auto heard = at_hub->receive(in(seconds(10)));
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->from, 2);
}

TEST(Topic, FramesWaitUntilItIsOpened) {
  const Planes planes(2);
  {
    const auto hubs = planes.of(planes.hub).open(7, {0, 1});
    send(*hubs, planes.spoke(), "early");
    const auto late = planes.of(planes.spoke()).open(7, {0, 1});
    EXPECT_EQ(next(*late), "early");
    send(*hubs, planes.spoke(), "and more");
    EXPECT_EQ(next(*late), "and more");
  }
  // Also that the other end was there, and has gone.
  { const auto gone = planes.of(planes.hub).open(8, {0, 1}); }
  const auto late = planes.of(planes.spoke()).open(8, {0, 1});
  EXPECT_EQ(next(*late), "closed");
}

TEST(Topic, AnEndThatGoesIsNoEndOfOthers) {
  const Planes planes(3);
  Topics kept = planes.open(1), ended = planes.open(2);
  const auto spoke = static_cast<std::size_t>(planes.spoke());
  const auto hub = static_cast<std::size_t>(planes.hub);
  ended[spoke].reset();
  send(*ended[hub], planes.spoke(), "for nobody");
  EXPECT_EQ(next(*ended[hub]), "closed");
  ended[hub].reset();
  send(*kept[hub], planes.spoke(), "still here");
  EXPECT_EQ(next(*kept[spoke]), "still here");
  ended.clear();
  const Topics again = planes.open(3);
  send(*again[spoke], planes.hub, "new");
  EXPECT_EQ(next(*again[hub]), "new");
}

/// The parent may end first, on any rank.
TEST(Topic, OutlivesTheFirstOne) {
  for (const bool hub_first : {true, false}) {
    std::unique_ptr<Topic> at_hub, at_spoke;
    {
      Planes planes(2);
      Topics first = planes.open(ControlPlane::kFirstTopic);
      at_hub = planes.of(planes.hub).open(1, {0, 1});
      at_spoke = planes.of(planes.spoke()).open(1, {0, 1});
      first[static_cast<std::size_t>(hub_first ? planes.hub : planes.spoke())].reset();
    }
    send(*at_hub, at_spoke->rank(), "on");
    EXPECT_EQ(next(*at_spoke), "on");
    EXPECT_EQ(control_threads(), 1);
  }
}

TEST(Topic, ARankThatIsGoneIsGoneFromAllItsTopics) {
  Planes planes(3);
  const Rank victim = planes.spoke(), left = planes.other_spoke();
  const auto with = planes.of(planes.hub).open(2, planes.ranks());
  const auto without = planes.of(planes.hub).open(3, {planes.hub, left});
  const auto alive = planes.of(left).open(3, {planes.hub, left});
  planes.all[static_cast<std::size_t>(victim)].reset();  // its socket closes without a word
  const auto heard = with->receive(in(seconds(10)));
  ASSERT_TRUE(heard && heard->closed);
  EXPECT_EQ(heard->from, victim);
  send(*alive, 0, "not me");
  EXPECT_EQ(next(*without), "not me");
}

/// What a rank does not take waits, and holds up no other.
TEST(Topic, ARankThatTakesNothingHoldsUpNoOther) {
  std::vector<Meeting> meetings = star(3);
  const Rank hub = meetings[0].hub;
  const Rank deaf = hub == 0 ? 1 : 0, other = 3 - hub - deaf;
  const auto plane_of = [&](Rank rank) {
    auto plane =
        std::make_shared<ControlPlane>(std::move(meetings[static_cast<std::size_t>(rank)]));
    COLL_CHECK(plane->begin().ok(), "beginning a plane");
    return plane;
  };
  const auto at_hub = plane_of(hub), at_other = plane_of(other);
  const auto busy = at_hub->open(1, {0, 1, 2}), idle = at_hub->open(2, {0, 1, 2});
  const auto far = at_other->open(2, {0, 1, 2});
  const std::string large(std::size_t{16} << 20, 'x');
  send(*busy, deaf, large);
  const auto begin = Clock::now();
  for (int round = 0; round < 20; ++round) {
    send(*far, hub, "ping");
    EXPECT_EQ(next(*idle), "ping");
    send(*idle, other, "pong");
    EXPECT_EQ(next(*far), "pong");
  }
  EXPECT_LT(Clock::now() - begin, seconds(2));
}

/// A peer that floods a topic which this rank never opens has no more of its memory.
TEST(Topic, FramesThatWaitAreBounded) {
  const Planes planes(2);
  const auto flooding = planes.of(planes.hub).open(4, {0, 1});
  const auto fine = planes.of(planes.hub).open(5, {0, 1});
  const std::string large(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 20; ++i) send(*flooding, planes.spoke(), large);
  send(*fine, planes.spoke(), "");
  const auto there = planes.of(planes.spoke()).open(5, {0, 1});
  EXPECT_EQ(next(*there), "");
  const auto late = planes.of(planes.spoke()).open(4, {0, 1});
  int frames = 0;
  std::string last;
  while ((last = next(*late)) == large) ++frames;
  EXPECT_EQ(last, "closed");
  EXPECT_GT(frames, 4);
  EXPECT_LE(frames, 16);
}

/// A rank whose socket the test writes to by itself, and the hub, which has opened nothing yet.
struct Flooded {
  Flooded() {
    std::vector<Meeting> meetings = star(3);
    rank = meetings[0].hub;
    odd = rank == 0 ? 1 : 0;
    fine = 3 - rank - odd;
    socket = std::move(meetings[at(odd)].links[at(rank)]);
    hub = std::make_shared<ControlPlane>(std::move(meetings[at(rank)]));
    other = std::make_shared<ControlPlane>(std::move(meetings[at(fine)]));
    COLL_CHECK(hub->begin().ok() && other->begin().ok(), "beginning a plane");
  }
  static std::size_t at(Rank one) { return static_cast<std::size_t>(one); }
  static std::uint64_t unopened(std::uint64_t k) { return (std::uint64_t{1} << 40) + k; }
  [[nodiscard]] bool write(std::uint64_t topic, std::string_view text) const {
    return send_frame(socket.get(), *topic_frame(topic, false, text), in(seconds(10))).ok();
  }

  Rank rank = 0, odd = 0, fine = 0;
  Fd socket;
  std::shared_ptr<ControlPlane> hub, other;
};

/// What one peer sends early is not taken from the room of another.
TEST(Topic, AFloodIsTheFloodersOwnEnd) {
  const Flooded ranks;
  const std::string large(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ranks.write(7, large));
  const auto marker = ranks.hub->open(8, {0, 1, 2});
  ASSERT_TRUE(ranks.write(8, "behind it"));
  EXPECT_EQ(next(*marker), "behind it");
  const auto early = ranks.other->open(7, {0, 1, 2});
  send(*early, ranks.rank, "early");
  const auto there = ranks.other->open(8, {0, 1, 2});
  send(*there, ranks.rank, "behind it, too");
  EXPECT_EQ(next(*marker), "behind it, too");
  const auto late = ranks.hub->open(7, {0, 1, 2});
  std::string heard;
  std::optional<Topic::Inbound> end;
  for (int i = 0; i < 30; ++i) {
    const auto one = late->receive(in(milliseconds(i == 0 ? 10000 : 0)));
    if (!one) break;
    if (one->from == ranks.fine) heard += one->frame;
    if (one->closed) end = one;
  }
  EXPECT_EQ(heard, "early");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->from, ranks.odd);
  EXPECT_EQ(end->why, Topic::Ending::senseless);
}

/// Frames that say nothing cost memory, too: whoever sends too many is lost.
TEST(Topic, EmptyFramesAreBounded) {
  const Flooded ranks;
  const auto open = ranks.hub->open(8, {0, 1, 2});
  std::uint64_t sent = 0;
  while (sent < 200000 && ranks.write(Flooded::unopened(sent), "")) ++sent;
  const auto end = open->receive(in(seconds(10)));
  ASSERT_TRUE(end && end->closed);
  EXPECT_EQ(end->from, ranks.odd);
  EXPECT_EQ(end->why, Topic::Ending::senseless);
  EXPECT_GT(sent, 10000U);
  const auto alive = ranks.other->open(8, {0, 1, 2});
  send(*alive, ranks.rank, "not me");
  EXPECT_EQ(next(*open), "not me");
}

TEST(Topic, EmptyFramesThatNobodyAsksForAreBounded) {
  const Flooded ranks;
  const auto open = ranks.hub->open(8, {0, 1, 2}), marker = ranks.hub->open(9, {0, 1, 2});
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(ranks.write(8, ""));
  ASSERT_TRUE(ranks.write(9, "behind them"));
  EXPECT_EQ(next(*marker), "behind them");
  int frames = 0;
  std::optional<Topic::Inbound> one;
  while ((one = open->receive(in(seconds(10)))) && !one->closed) ++frames;
  ASSERT_TRUE(one);
  EXPECT_EQ(one->why, Topic::Ending::senseless);
  EXPECT_LT(frames, 100000);
  EXPECT_GT(frames, 1000);
}

TEST(Topic, ANumberInUseIsNotOpenedAgain) {
  const Planes planes(2);
  const auto first = planes.of(planes.hub).open(3, {0, 1});
  const auto peer = planes.of(planes.spoke()).open(3, {0, 1});
  EXPECT_EQ(planes.of(planes.hub).open(3, {0, 1}), nullptr);
  send(*peer, planes.hub, "to the first");
  EXPECT_EQ(next(*first), "to the first");
}

TEST(Topic, ARefusalEndsIt) {
  for (const bool hub_refuses : {true, false}) {
    const Planes planes(2);
    const Rank refusing = hub_refuses ? planes.hub : planes.spoke();
    for (const bool early : {true, false}) {
      const std::uint64_t id = early ? 3 : 4;
      if (early) planes.of(refusing).refuse(id, {0, 1});
      const auto waiting = planes.of(1 - refusing).open(id, {0, 1});
      if (!early) planes.of(refusing).refuse(id, {0, 1});
      EXPECT_EQ(next(*waiting), "closed");
    }
  }
}

TEST(Topic, NamesAreNotGivenTwice) {
  const Planes planes(3);
  std::set<std::uint64_t> names{ControlPlane::kFirstTopic};
  for (int round = 0; round < 10; ++round) {
    for (const auto& plane : planes.all) EXPECT_TRUE(names.insert(plane->new_topic()).second);
  }
  // Each has a secret name, the same for all ranks.
  std::set<std::array<std::uint64_t, 2>> jobs;
  for (const std::uint64_t name : names) {
    EXPECT_TRUE(jobs.insert(planes.of(0).job_of(name)).second);
    EXPECT_EQ(planes.of(1).job_of(name), planes.of(0).job_of(name));
  }
}

TEST(TopicExchange, BringsEveryTextToEveryRank) {
  const Planes planes(5);
  const Topics topics = planes.open(6);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 5; ++rank) {
    ranks.emplace_back([&, rank] {
      for (const std::string& round : {std::string("a"), std::string(70000, 'b')}) {
        const auto texts = exchange(*topics[rank], round + std::to_string(rank), in(seconds(20)));
        ASSERT_TRUE(texts.ok()) << texts.status().text();
        for (std::size_t from = 0; from < 5; ++from) {
          EXPECT_EQ((*texts)[from], round + std::to_string(from));
        }
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(TopicExchange, WhoDoesNotComeIsNamedOnAll) {
  for (const bool goes : {false, true}) {
    const Planes planes(4);
    Topics topics = planes.open(6);
    const auto absent = static_cast<std::size_t>(planes.spoke());
    if (goes) topics[absent].reset();
    std::vector<Status> outcomes(4);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (rank == absent) continue;
      ranks.emplace_back([&, rank] {
        outcomes[rank] = exchange(*topics[rank], "text", in(milliseconds(300))).status();
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (rank == absent) continue;
      EXPECT_EQ(outcomes[rank].code(), goes ? Code::peer_lost : Code::deadline);
      EXPECT_EQ(outcomes[rank].rank(), planes.spoke());
      EXPECT_THAT(outcomes[rank].text(), HasSubstr("rank " + std::to_string(absent)));
    }
  }
}

}  // namespace
}  // namespace coll::testing
