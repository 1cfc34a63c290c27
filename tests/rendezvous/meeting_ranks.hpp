// SPDX-License-Identifier: Apache-2.0
// Ranks as threads that only meet, without a communicator.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/rendezvous.hpp"
#include "rendezvous/unique_id.hpp"
#include "sys/clock.hpp"
#include "sys/net/socket.hpp"

namespace coll::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline Deadline in(Clock::duration time) {
  return Clock::now() + time;
}

/// What came of each rank's meeting, in the order of `ranks`.
using Meetings = std::vector<std::optional<Result<Meeting>>>;

struct Comer {
  Rank rank;
  Rank size;
  MeetingPlace place;
  Clock::duration patience = seconds(20);
};

/// All meet at once, each on its own thread.
inline Meetings meet_all(const std::vector<Comer>& comers) {
  Meetings meetings(comers.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < comers.size(); ++i) {
    threads.emplace_back([&, i] {
      const Comer& one = comers[i];
      meetings[i].emplace(meet(one.place, one.rank, one.size, in(one.patience)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return meetings;
}

inline std::vector<Comer> everybody(Rank size, const MeetingPlace& place,
                                    Clock::duration patience = seconds(20)) {
  std::vector<Comer> comers;
  for (Rank rank = 0; rank < size; ++rank) comers.push_back({rank, size, place, patience});
  return comers;
}

inline MeetingPlace unique_place() {
  const Result<UniqueId> id = make_unique_id("");
  COLL_CHECK(id.ok(), "making a unique id");
  Result<MeetingPlace> place = place_of(*id, "");
  COLL_CHECK(place.ok(), "reading a unique id");
  return *std::move(place);
}

/// A port that nobody listens on now.
inline std::uint16_t free_port() {
  const Result<Fd> listener = listen_everywhere();
  COLL_CHECK(listener.ok(), "listening");
  return local_address(listener->get()).port();
}

inline MeetingPlace tcp_place(std::uint16_t port, std::string key = "job") {
  MeetingPlace place;
  place.kind = MeetingPlace::Kind::tcp;
  place.addresses = {"127.0.0.1:" + std::to_string(port)};
  place.key = std::move(key);
  place.source = "test";
  return place;
}

inline MeetingPlace file_place(const std::string& path, std::string key = "job") {
  MeetingPlace place;
  place.kind = MeetingPlace::Kind::file;
  place.path = path;
  place.key = std::move(key);
  place.source = "file " + path;
  return place;
}

/// All met, the star is whole, and texts get around.
inline void expect_whole(Meetings& meetings) {
  std::vector<std::thread> threads;
  const auto size = static_cast<Rank>(meetings.size());
  for (auto& one : meetings) ASSERT_TRUE(one->ok()) << one->status().text();
  std::vector<std::vector<std::string>> seen(meetings.size());
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    Meeting& meeting = **meetings[i];
    EXPECT_EQ(meeting.rank, static_cast<Rank>(i));
    EXPECT_EQ(meeting.size, size);
    EXPECT_EQ(meeting.hub, (*meetings[0])->hub);
    EXPECT_EQ(meeting.job[0], (*meetings[0])->job[0]);
    EXPECT_EQ(meeting.job[1], (*meetings[0])->job[1]);
    EXPECT_NE(meeting.job[0], 0U);
    ASSERT_EQ(meeting.links.size(), meetings.size());
    for (Rank peer = 0; peer < size; ++peer) {
      const bool linked = meeting.is_hub() ? peer != meeting.rank : peer == meeting.hub;
      EXPECT_EQ(static_cast<bool>(meeting.links[static_cast<std::size_t>(peer)]), linked);
    }
    threads.emplace_back([&, i] {
      for (const char* round : {"a", "b"}) {
        const auto texts = exchange(meeting, round + std::to_string(i), in(seconds(10)));
        ASSERT_TRUE(texts.ok()) << texts.status().text();
        seen[i].insert(seen[i].end(), texts->begin(), texts->end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> expected;
  for (const char* round : {"a", "b"}) {
    for (Rank rank = 0; rank < size; ++rank) expected.push_back(round + std::to_string(rank));
  }
  for (const auto& texts : seen) EXPECT_EQ(texts, expected);
}

/// Meets by a unique id; every rank's meeting, in rank order.
inline std::vector<Meeting> star(Rank size) {
  Meetings meetings = meet_all(everybody(size, unique_place()));
  std::vector<Meeting> ranks;
  for (auto& one : meetings) {
    COLL_CHECK(one->ok(), "meeting");
    ranks.push_back(*std::move(*one));
  }
  return ranks;
}

}  // namespace coll::testing
