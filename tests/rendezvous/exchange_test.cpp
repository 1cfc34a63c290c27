// SPDX-License-Identifier: Apache-2.0
// Every rank's text to every rank, by the hub.
#include "rendezvous/exchange/exchange.hpp"

#include <gtest/gtest.h>

#include "meeting_ranks.hpp"
#include "rendezvous/control_message.hpp"
#include "rendezvous/exchange/exchange_words.hpp"
#include "sys/net/socket_frame.hpp"

namespace coll::testing {
namespace {

TEST(Exchange, ARankThatGoesAwayFailsOnAll) {
  std::vector<Meeting> ranks = star(4);
  const auto gone = static_cast<std::size_t>(ranks[0].hub == 2 ? 3 : 2);
  for (Fd& fd : ranks[gone].links) fd.reset();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == gone) continue;
    threads.emplace_back([&, i] {
      const auto texts = exchange(ranks[i], "x", in(seconds(10)));
      ASSERT_FALSE(texts.ok());
      EXPECT_EQ(texts.status().code(), Code::peer_lost) << texts.status().text();
      EXPECT_EQ(texts.status().rank(), static_cast<Rank>(gone));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// The hub waits for another rank, and has heard this one already.
TEST(Exchange, ARankThatGoesAwayAfterItsTextFailsOnAllAtOnce) {
  std::vector<Meeting> ranks = star(4);
  const auto hub = static_cast<std::size_t>(ranks[0].hub);
  const std::size_t gone = (hub + 1) % 4, silent = (hub + 2) % 4, other = (hub + 3) % 4;
  ASSERT_TRUE(send_frame(ranks[gone].links[hub].get(), pack_text(0, "x"), in(seconds(10))).ok());
  std::vector<std::thread> threads;
  const auto begin = Clock::now();
  for (const std::size_t i : {hub, other}) {
    threads.emplace_back([&, i] {
      const auto texts = exchange(ranks[i], "x", in(seconds(60)));
      ASSERT_FALSE(texts.ok());
      EXPECT_EQ(texts.status().code(), Code::peer_lost) << texts.status().text();
      EXPECT_EQ(texts.status().rank(), static_cast<Rank>(gone));
    });
  }
  ranks[gone].links[hub].reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(Clock::now() - begin, seconds(30));
  EXPECT_TRUE(ranks[silent].links[hub]);
}

TEST(Exchange, ARankThatDoesNotComeIsNamedOnAll) {
  std::vector<Meeting> ranks = star(4);
  const auto late = static_cast<std::size_t>(ranks[0].hub == 2 ? 3 : 2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == late) continue;
    threads.emplace_back([&, i] {
      const auto texts = exchange(ranks[i], "x", in(milliseconds(300)));
      ASSERT_FALSE(texts.ok());
      EXPECT_EQ(texts.status().code(), Code::deadline) << texts.status().text();
      EXPECT_EQ(texts.status().rank(), static_cast<Rank>(late));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// What is the same as in the text before is not sent again.
TEST(Exchange, TextsThatAreAlikeGetAround) {
  const std::vector<std::vector<std::string>> sets = {
      {"host a pid 1 tcp", "host a pid 23 tcp", "host b pid 1 tcp", "host b pid 1 tcp"},
      {"aaaa", "aa", "aaaaaa", "aaaa"},
      {"ab", "abab", "b", ""},
      {"", "", std::string(3, '\0'), std::string(2, '\0')},
  };
  std::vector<Meeting> ranks = star(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (const auto& set : sets) {
        const auto texts = exchange(ranks[i], set[i], in(seconds(10)));
        ASSERT_TRUE(texts.ok()) << texts.status().text();
        EXPECT_EQ(*texts, set);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Exchange, WhatTheHubSaysIsReadWithCare) {
  const auto part = [](std::uint32_t front, std::uint32_t back, std::string_view text) {
    return MessageWriter().u32(front).u32(back).text(text).bytes();
  };
  const std::vector<std::pair<std::string, bool>> answers = {
      {part(0, 0, "one") + part(3, 0, "!"), true},
      {part(1, 0, "one") + part(0, 0, ""), false},                  // the same as nothing
      {part(0, 0, "one") + part(2, 2, ""), false},                  // longer than what was there
      {part(0, 0, "one") + part(~0U, ~0U, ""), false},              //
      {part(0, 0, "one"), false},                                   // one rank too few
      {part(0, 0, "one") + part(0, 0, "") + part(0, 0, ""), false}  // one too many
  };
  const std::string no_doors = MessageWriter().text("").bytes();
  for (const auto& [answer, good] : answers) {
    std::vector<Meeting> ranks = star(2);
    const std::size_t hub = ranks[0].is_hub() ? 0 : 1;
    ASSERT_TRUE(
        send_frame(ranks[hub].links[1 - hub].get(), "A" + no_doors + answer, in(seconds(10))).ok());
    const auto texts = exchange(ranks[1 - hub], "x", in(seconds(10)));
    EXPECT_EQ(texts.ok(), good);
    if (good) {
      EXPECT_EQ(*texts, (std::vector<std::string>{"one", "one!"}));
    } else {
      EXPECT_EQ(texts.status().code(), Code::mismatch) << texts.status().text();
    }
  }
}

TEST(Exchange, LongTextsAndNoneGetAround) {
  std::vector<Meeting> ranks = star(3);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const std::string mine(i * 500000, static_cast<char>('a' + i));
      const auto texts = exchange(ranks[i], mine, in(seconds(10)));
      ASSERT_TRUE(texts.ok()) << texts.status().text();
      for (std::size_t from = 0; from < 3; ++from) {
        EXPECT_EQ((*texts)[from], std::string(from * 500000, static_cast<char>('a' + from)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace coll::testing
