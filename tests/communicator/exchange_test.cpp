// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: every rank's text to every rank, by the hub and by
// relays.
#include "communicator/exchange.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>

#include "communicator/control_message.hpp"
#include "communicator/exchange_words.hpp"
#include "communicator/handshake.hpp"
#include "meeting_ranks.hpp"
#include "sys/net_address.hpp"
#include "sys/proof.hpp"
#include "sys/socket_frame.hpp"

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

/// No star, however few they are.
constexpr Relaying tree(Rank fan_out) {
  return {.star_up_to = 1, .fan_out = fan_out};
}

/// Met ranks by their places in the tree: the hub is 0.
struct Tree {
  explicit Tree(Rank size) : met(star(size)), hub(met[0].hub) {}
  [[nodiscard]] Rank rank(Rank place) const {
    return (place + hub) % static_cast<Rank>(met.size());
  }
  Meeting& at(Rank place) { return met[static_cast<std::size_t>(rank(place))]; }
  /// The socket between this place and the hub.
  int link(Rank place) { return at(place).links[static_cast<std::size_t>(hub)].get(); }
  std::vector<Meeting> met;
  Rank hub;
};

std::string own_text(Rank rank) {
  return "text of rank " + std::to_string(rank);
}

/// What a place does in the place of `exchange`.
using Part = std::function<void(Tree& tree, Rank place)>;
using Outcomes = std::map<Rank, Result<std::vector<std::string>>>;  ///< by place

/// All places exchange in a chain, each the relay of the next, but those with another part.
Outcomes in_a_chain(Tree& ranks, Clock::duration patience, const std::map<Rank, Part>& parts) {
  const auto size = static_cast<Rank>(ranks.met.size());
  Outcomes outcomes;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (Rank place = 0; place < size; ++place) {
    threads.emplace_back([&, place] {
      if (const auto part = parts.find(place); part != parts.end()) {
        return part->second(ranks, place);
      }
      auto texts = exchange(ranks.at(place), own_text(ranks.rank(place)), in(patience), tree(1));
      const std::lock_guard lock(mutex);
      outcomes.emplace(place, std::move(texts));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void expect_all_texts(const Outcomes& outcomes, Rank size) {
  for (const auto& [place, texts] : outcomes) {
    ASSERT_TRUE(texts.ok()) << place << ": " << texts.status().text();
    ASSERT_EQ(texts->size(), static_cast<std::size_t>(size));
    for (Rank rank = 0; rank < size; ++rank) {
      EXPECT_EQ((*texts)[static_cast<std::size_t>(rank)], own_text(rank)) << place;
    }
  }
}

void say_text(Tree& ranks, Rank place, std::uint16_t port) {
  EXPECT_TRUE(
      send_frame(ranks.link(place), pack_text(port, own_text(ranks.rank(place))), in(seconds(10)))
          .ok());
}

std::string next_frame(int fd) {
  const Result<std::string> frame = recv_frame(fd, kPacketLimit, in(seconds(10)));
  EXPECT_TRUE(frame.ok()) << frame.status().text();
  return frame.ok() ? *frame : "";
}

TEST(ExchangeByRelays, TextsGetAroundAndTheLinksAreFreeAgain) {
  for (const Rank size : {2, 3, 5, 8, 21}) {
    for (const Rank fan_out : {1, 2, 3}) {
      Tree ranks(size);
      std::vector<std::thread> threads;
      for (Rank rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
          for (const std::size_t length : {std::size_t{1}, std::size_t{0}, std::size_t{100000}}) {
            const auto texts = exchange(ranks.met[static_cast<std::size_t>(rank)],
                                        std::string(length, static_cast<char>('a' + rank)),
                                        in(seconds(20)), tree(fan_out));
            ASSERT_TRUE(texts.ok()) << texts.status().text();
            for (Rank from = 0; from < size; ++from) {
              ASSERT_EQ((*texts)[static_cast<std::size_t>(from)],
                        std::string(length, static_cast<char>('a' + from)));
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

TEST(ExchangeByRelays, ARelayThatDiesIsNamedOnAll) {
  Tree ranks(5);
  const Rank relay = ranks.rank(2);
  const Outcomes outcomes =
      in_a_chain(ranks, seconds(20), {{2, [](Tree& all, Rank place) {
                                         say_text(all, place, 0);
                                         next_frame(all.link(place));  // from the hub, at last
                                         all.at(place).links.clear();
                                       }}});
  ASSERT_EQ(outcomes.size(), 4U);
  for (const auto& [place, texts] : outcomes) {
    ASSERT_FALSE(texts.ok()) << place;
    EXPECT_EQ(texts.status().code(), Code::peer_lost) << texts.status().text();
    EXPECT_EQ(texts.status().rank(), relay) << texts.status().text();
  }
}

TEST(ExchangeByRelays, ARelayThatHangsHidesNobody) {
  Tree ranks(5);
  const Rank relay = ranks.rank(1);
  const Outcomes outcomes =
      in_a_chain(ranks, seconds(1), {{1, [](Tree& all, Rank place) {
                                        say_text(all, place, 0);
                                        EXPECT_TRUE(is_packet(next_frame(all.link(place))));
                                        EXPECT_TRUE(read_failure(next_frame(all.link(place))));
                                      }}});
  ASSERT_EQ(outcomes.size(), 4U);
  for (const auto& [place, texts] : outcomes) {
    ASSERT_FALSE(texts.ok()) << place;
    EXPECT_EQ(texts.status().code(), Code::deadline) << texts.status().text();
    EXPECT_EQ(texts.status().rank(), relay) << texts.status().text();
  }
}

TEST(ExchangeByRelays, TheHubSendsToARankWithoutADoor) {
  for (const bool closed : {false, true}) {
    Tree ranks(4);
    const Outcomes outcomes =
        in_a_chain(ranks, seconds(20),
                   {{2, [closed](Tree& all, Rank place) {
                       say_text(all, place, closed ? free_port() : std::uint16_t{0});
                       const std::string packet = next_frame(all.link(place));
                       EXPECT_TRUE(read_texts(packet, 4));
                       // Its own child is left to the hub as well.
                       const std::string have = pack_have({all.rank(3)});
                       EXPECT_TRUE(send_frame(all.link(place), have, in(seconds(10))).ok());
                       EXPECT_TRUE(is_go(next_frame(all.link(place))));
                     }}});
    EXPECT_EQ(outcomes.size(), 3U);
    expect_all_texts(outcomes, 4);
  }
}

/// A relay brings what it has to its child's door, and shows this proof of knowing the job.
Result<std::string> call_at_door(const NetAddress& door, const Claimant& who,
                                 const std::string& key, std::string_view packet, Fd& fd) {
  COLL_ASSIGN(fd, dial(door, in(seconds(10))));
  COLL_ASSIGN(const std::string hello, recv_frame(fd.get(), kHandshakeLimit, in(seconds(10))));
  const auto greeting = read_greeting(hello);
  if (!greeting) return failed(Code::mismatch, "no greeting");
  const std::string nonce(kNonceBytes, 'n');
  COLL_TRY(send_frame(fd.get(),
                      pack_claim(who, nonce, claim_proof(key, greeting->nonce, nonce, who)),
                      in(seconds(10))));
  COLL_ASSIGN(std::string answer, recv_frame(fd.get(), kHandshakeLimit, in(seconds(10))));
  COLL_TRY(send_frame(fd.get(), packet, in(seconds(10))));
  return answer;
}

TEST(ExchangeByRelays, StrangersAtTheDoorAreDropped) {
  Tree ranks(3);
  const auto relay = [](Tree& all, Rank place) {
    say_text(all, place, 0);
    const std::string packet = next_frame(all.link(place));
    const auto doors = read_doors(packet, 3);
    ASSERT_TRUE(doors);
    const std::string& where = (*doors)[static_cast<std::size_t>(all.rank(2))];
    const auto door = NetAddress::parse(where.starts_with(':') ? "127.0.0.1" + where : where);
    ASSERT_TRUE(door.ok()) << door.status().text();
    const std::string lie = pack_packet({"lie", "lie", "lie"}, {});
    const auto who = this_claimant(all.rank(place), 3);
    ASSERT_TRUE(who.ok());
    // Another key; the job's key, but another rank; many that say nothing; some that talk rubbish.
    Fd fd;
    EXPECT_FALSE(call_at_door(*door, *who, "another key", lie, fd).ok());
    const Meeting& meeting = all.at(place);
    const std::string key =
        prove({reinterpret_cast<const char*>(meeting.job), sizeof meeting.job}, "relay");
    auto other = *who;
    other.rank = all.hub;
    EXPECT_FALSE(call_at_door(*door, other, key, lie, fd).ok());
    std::vector<Fd> silent;
    for (int i = 0; i < 40; ++i) {
      auto one = dial(*door, in(seconds(10)));
      ASSERT_TRUE(one.ok());
      if (i % 2 == 0) {
        EXPECT_TRUE(send_frame(one->get(), lie, in(seconds(10))).ok());
      }
      silent.push_back(*std::move(one));
    }
    // It still hears its relay, and believes it.
    const auto welcome = call_at_door(*door, *who, key, packet, fd);
    ASSERT_TRUE(welcome.ok()) << welcome.status().text();
    EXPECT_TRUE(read_welcome(*welcome));
    EXPECT_TRUE(send_frame(all.link(place), pack_have({}), in(seconds(10))).ok());
    EXPECT_TRUE(is_go(next_frame(all.link(place))));
  };
  const Outcomes outcomes = in_a_chain(ranks, seconds(20), {{1, relay}});
  EXPECT_EQ(outcomes.size(), 2U);
  expect_all_texts(outcomes, 3);
}

TEST(ExchangeByRelays, WhatMakesNoSenseFailsOnAll) {
  // A list of ranks that has none such; another word than the one that is due; rubbish.
  for (const std::string& word : {pack_have({7}), pack_have({-1}), pack_text(1, "again"),
                                  std::string("H123"), std::string("?"), std::string()}) {
    Tree ranks(4);
    const Outcomes outcomes =
        in_a_chain(ranks, seconds(20),
                   {{3, [&word](Tree& all, Rank place) {
                       say_text(all, place, 0);
                       next_frame(all.link(place));
                       EXPECT_TRUE(send_frame(all.link(place), word, in(seconds(10))).ok());
                       EXPECT_TRUE(read_failure(next_frame(all.link(place))));
                     }}});
    ASSERT_EQ(outcomes.size(), 3U);
    for (const auto& [place, texts] : outcomes) {
      ASSERT_FALSE(texts.ok()) << place;
      EXPECT_EQ(texts.status().code(), Code::mismatch) << texts.status().text();
      EXPECT_EQ(texts.status().rank(), ranks.rank(3)) << texts.status().text();
    }
  }
}

}  // namespace
}  // namespace coll::testing
