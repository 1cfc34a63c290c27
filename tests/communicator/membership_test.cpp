// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: what a rank makes of what others say of themselves.
#include "communicator/membership.hpp"

#include <gtest/gtest.h>

#include "communicator/control_message.hpp"
#include "meeting_ranks.hpp"

namespace coll::testing {
namespace {

Result<Membership> agree(Meeting& meeting) {
  auto choices = transport_choices("tcp");
  return agree_on_membership(meeting, *choices, "", {}, in(seconds(20)));
}

/// What rank 0 makes of a rank 1 that publishes these texts; `heard` gets rank 0's first one.
Status told(const std::vector<std::string>& texts, std::string* heard = nullptr) {
  std::vector<Meeting> meetings = star(2);
  Status outcome;
  std::thread zero([&] {
    outcome = agree(meetings[0]).status();
    meetings[0].links.clear();  // a rank 1 that still waits for an answer gets none
  });
  for (const std::string& text : texts) {
    const auto all = exchange(meetings[1], text, in(seconds(20)));
    if (all.ok() && heard != nullptr && heard->empty()) *heard = all->front();
  }
  zero.join();
  return outcome;
}

/// Not a word of trouble, then the transport to each rank.
std::string choice(const std::vector<std::string>& names) {
  MessageWriter message;
  message.text("");
  for (const std::string& name : names) message.text(name);
  return message.bytes();
}

TEST(Membership, TwoRanksSeeOneWorld) {
  std::vector<Meeting> meetings = star(2);
  std::optional<Result<Membership>> one;
  std::thread other([&] { one.emplace(agree(meetings[1])); });
  const Result<Membership> zero = agree(meetings[0]);
  other.join();
  ASSERT_TRUE(zero.ok() && one->ok()) << zero.status().text() << one->status().text();
  EXPECT_EQ(zero->world.layout.host, (*one)->world.layout.host);
  EXPECT_EQ(zero->pair_names, (std::vector<std::string>{"", "tcp"}));
  EXPECT_EQ((*one)->pair_names, (std::vector<std::string>{"tcp", ""}));
  EXPECT_EQ(zero->members[1].pid, getpid());
}

TEST(Membership, WhatMakesNoSenseIsAFailureThatNamesTheRank) {
  std::string card;
  ASSERT_EQ(told({"", choice({"tcp", ""})}, &card).code(), Code::mismatch);
  ASSERT_FALSE(card.empty());
  // A card of rank 0's own making is good, also as rank 1's; what follows shows it.
  const Status good = told({card, choice({"tcp", ""})});
  EXPECT_TRUE(good.ok()) << good.text();

  std::string endless = card.substr(0, card.size() / 2);
  endless += std::string(64, '\xff');
  std::string other_version = card;
  other_version[0] = 9;
  const std::vector<std::vector<std::string>> bad = {
      {card.substr(0, card.size() - 1), ""},
      {card + "x", ""},
      {endless, ""},
      {other_version, ""},
      {card, choice({"carrier pigeon", ""})},
      {card, choice({"", ""})},
      {card, choice({"tcp"})},
      {card, choice({"tcp", "tcp"})},
      {card, choice({"tcp", "", "tcp"})},
      {card, ""},
  };
  for (const auto& texts : bad) {
    const Status failure = told(texts);
    ASSERT_FALSE(failure.ok());
    EXPECT_EQ(failure.rank(), 1) << failure.text();
    EXPECT_NE(failure.text().find("rank 1"), std::string::npos) << failure.text();
  }
}

}  // namespace
}  // namespace coll::testing
