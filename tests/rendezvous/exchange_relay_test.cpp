// SPDX-License-Identifier: Apache-2.0
// Every rank's text to every rank, handed on by relays.
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <map>
#include <mutex>

#include "meeting_ranks.hpp"
#include "rendezvous/control_message.hpp"
#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/exchange/exchange_words.hpp"
#include "rendezvous/handshake.hpp"
#include "sys/net/net_address.hpp"
#include "sys/net/socket_frame.hpp"
#include "sys/proof.hpp"

namespace coll::testing {
namespace {

/// A tree, however few the ranks are; the hub helps after `help_time`.
constexpr Relaying tree(Rank fan_out, milliseconds help_time) {
  return {
      .star_up_to = 1, .fan_out = fan_out, .call_time = milliseconds(300), .help_time = help_time};
}
constexpr auto kNoHelp = seconds(60);

/// Met ranks by their places in the tree: the hub is 0.
struct Tree {
  explicit Tree(Rank size) : met(star(size)), hub(met[0].hub) {}
  [[nodiscard]] Rank rank(Rank place) const {
    return RelayTree(hub, static_cast<Rank>(met.size()), 1).rank_at(place);
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
Outcomes in_a_chain(Tree& ranks, Clock::duration patience, milliseconds help_time,
                    const std::map<Rank, Part>& parts) {
  const auto size = static_cast<Rank>(ranks.met.size());
  Outcomes outcomes;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (Rank place = 0; place < size; ++place) {
    threads.emplace_back([&, place] {
      if (const auto part = parts.find(place); part != parts.end()) {
        return part->second(ranks, place);
      }
      auto texts =
          exchange(ranks.at(place), own_text(ranks.rank(place)), in(patience), tree(1, help_time));
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
                                        in(seconds(20)), tree(fan_out, kNoHelp));
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
  const Outcomes outcomes = in_a_chain(ranks, seconds(20), milliseconds(50),
                                       {{2, [](Tree& all, Rank place) {
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
  const Outcomes outcomes = in_a_chain(ranks, seconds(2), milliseconds(50),
                                       {{1, [](Tree& all, Rank place) {
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
        in_a_chain(ranks, kNoHelp, kNoHelp,
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

NetAddress door_of(const std::string& packet, const Tree& ranks, Rank place) {
  const auto doors = read_doors(packet, static_cast<Rank>(ranks.met.size()));
  if (!doors) return {};
  const std::string& door = (*doors)[static_cast<std::size_t>(ranks.rank(place))];
  const auto address = NetAddress::parse(door.starts_with(':') ? "127.0.0.1" + door : door);
  return address.ok() ? *address : NetAddress();
}

/// Calls at a door with this proof of knowing the job; what the door answers to it.
Result<std::string> call_at(const NetAddress& door, const Claimant& who, const std::string& key,
                            Fd& fd) {
  COLL_ASSIGN(fd, dial(door, in(seconds(10))));
  COLL_ASSIGN(const std::string hello, recv_frame(fd.get(), kHandshakeLimit, in(seconds(10))));
  const auto greeting = read_greeting(hello);
  if (!greeting) return failed(Code::mismatch, "no greeting");
  const std::string nonce(kNonceBytes, 'n');
  const std::string proof = claim_proof(key, greeting->nonce, nonce, who);
  COLL_TRY(send_frame(fd.get(), pack_claim(who, nonce, proof), in(seconds(10))));
  return recv_frame(fd.get(), kHandshakeLimit, in(seconds(10)));
}

/// Many that say nothing, and as many that talk rubbish.
std::vector<Fd> strangers_at(const NetAddress& door) {
  std::vector<Fd> strangers;
  for (int i = 0; i < 40; ++i) {
    auto one = dial(door, in(seconds(10)));
    if (!one.ok()) continue;
    if (i % 2 == 0) (void)send_frame(one->get(), "rubbish", in(seconds(10)));
    strangers.push_back(*std::move(one));
  }
  EXPECT_EQ(strangers.size(), 40U);
  return strangers;
}

TEST(ExchangeByRelays, StrangersAtTheDoorAreDropped) {
  Tree ranks(3);
  const auto relay = [](Tree& all, Rank place) {
    say_text(all, place, 0);
    const std::string packet = next_frame(all.link(place));
    const NetAddress door = door_of(packet, all, 2);
    const auto who = this_claimant(all.rank(place), 3);
    ASSERT_TRUE(who.ok());
    const Meeting& meeting = all.at(place);
    const auto key_for = [&](Rank child) {
      return prove(MessageWriter().u64(meeting.job[0]).u64(meeting.job[1]).bytes(),
                   "relay to rank " + std::to_string(child));
    };
    const std::string key = key_for(all.rank(2));
    // Another key; one for another child; the right one, but of another rank.
    Fd fd;
    EXPECT_FALSE(call_at(door, *who, "another key", fd).ok());
    EXPECT_FALSE(call_at(door, *who, key_for(all.hub), fd).ok());
    auto other = *who;
    other.rank = all.hub;
    EXPECT_FALSE(call_at(door, other, key, fd).ok());
    // Many before its relay, and many while that has not said all.
    const std::vector<Fd> before = strangers_at(door);
    const auto welcome = call_at(door, *who, key, fd);
    ASSERT_TRUE(welcome.ok()) << welcome.status().text();
    EXPECT_TRUE(read_welcome(*welcome));
    const std::vector<Fd> meanwhile = strangers_at(door);
    EXPECT_TRUE(send_frame(fd.get(), packet, in(seconds(10))).ok());
    EXPECT_TRUE(is_go(next_frame(fd.get())));
    EXPECT_TRUE(send_frame(all.link(place), pack_have({}), in(seconds(10))).ok());
    EXPECT_TRUE(is_go(next_frame(all.link(place))));
  };
  const Outcomes outcomes = in_a_chain(ranks, kNoHelp, kNoHelp, {{1, relay}});
  EXPECT_EQ(outcomes.size(), 2U);
  expect_all_texts(outcomes, 3);
}

TEST(ExchangeByRelays, ADoorThatTakesNothingIsLeftToTheHub) {
  // It hangs up on its relay, or never says a word to it.
  for (const bool hangs_up : {false, true}) {
    Tree ranks(3);
    const auto child = [hangs_up](Tree& all, Rank place) {
      const auto listener = listen_everywhere();
      ASSERT_TRUE(listener.ok());
      say_text(all, place, local_address(listener->get()).port());
      if (hangs_up) {
        ASSERT_TRUE(*wait_for(listener->get(), POLLIN, in(seconds(10))));
        EXPECT_TRUE(accept_next(listener->get()).ok());
      }
      EXPECT_TRUE(read_texts(next_frame(all.link(place)), 3));
      EXPECT_TRUE(send_frame(all.link(place), pack_have({}), in(seconds(10))).ok());
      EXPECT_TRUE(is_go(next_frame(all.link(place))));
    };
    const Outcomes outcomes = in_a_chain(ranks, kNoHelp, kNoHelp, {{2, child}});
    EXPECT_EQ(outcomes.size(), 2U);
    expect_all_texts(outcomes, 3);
  }
}

TEST(ExchangeByRelays, ARankThatIsServedTwiceGoesOn) {
  // Place 1 waits for its call to end; meanwhile the hub serves it, and place 2, again.
  Tree ranks(3);
  const auto child = [](Tree& all, Rank place) {
    const auto listener = listen_everywhere();  // nobody opens
    ASSERT_TRUE(listener.ok());
    say_text(all, place, local_address(listener->get()).port());
    EXPECT_TRUE(read_texts(next_frame(all.link(place)), 3));
    EXPECT_TRUE(send_frame(all.link(place), pack_have({}), in(seconds(10))).ok());
    EXPECT_TRUE(is_go(next_frame(all.link(place))));
  };
  for (int round = 0; round < 3; ++round) {
    const Outcomes outcomes =
        in_a_chain(ranks, seconds(20), milliseconds(20 * round), {{2, child}});
    EXPECT_EQ(outcomes.size(), 2U);
    expect_all_texts(outcomes, 3);
  }
}

TEST(ExchangeByRelays, WhatMakesNoSenseFailsOnAll) {
  // A list of ranks that has none such; another word than the one that is due; rubbish.
  for (const std::string& word : {pack_have({7}), pack_have({-1}), pack_text(1, "again"),
                                  std::string("H123"), std::string("?"), std::string()}) {
    Tree ranks(4);
    const Outcomes outcomes =
        in_a_chain(ranks, seconds(20), kNoHelp,
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
