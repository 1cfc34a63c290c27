// SPDX-License-Identifier: Apache-2.0
// What a rank makes of what others say of themselves.
#include "communicator/membership/membership.hpp"

#include <gtest/gtest.h>

#include "communicator/membership/card.hpp"
#include "fake_hosts.hpp"
#include "rendezvous/control_message.hpp"
#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/meeting_ranks.hpp"
#include "sys/machine/memory_costs.hpp"

namespace coll::testing {
namespace {

Result<Membership> agree(Meeting& meeting, const SharedSettings& settings = {}) {
  auto choices = transport_choices("tcp");
  return agree_on_membership(meeting, *choices, "", settings, in(seconds(100)));
}

/// A table that knows one recipe for broadcasts of 1 KiB among so many ranks.
FoundTuning table_of(Rank ranks, const std::string& recipe) {
  FoundTuning tuning;
  tuning.file = recipe + ".json";
  tuning.table.points = {
      {Collective::broadcast, 1024, {ranks, "", "", 0}, "2026", {{*read_recipe(recipe), 1, 0}}}};
  return tuning;
}

/// What each rank plans for a broadcast of 1 KiB, if they have these tables; `warning`
/// gets what was said on standard error.
std::vector<std::string> planned(const std::vector<FoundTuning>& tables,
                                 std::string* warning = nullptr) {
  std::vector<Meeting> meetings = star(static_cast<Rank>(tables.size()));
  std::vector<std::string> names(tables.size());
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < tables.size(); ++r) {
    ranks.emplace_back([&, r] {
      SharedSettings settings;
      settings.tuning = tables[r];
      const Result<Membership> member = agree(meetings[r], settings);
      ASSERT_TRUE(member.ok()) << member.status().text();
      const CollectiveSpec spec{Collective::broadcast, static_cast<Rank>(tables.size()), 0};
      const Result<Plan> plan = make_plan(member->world, {spec, size_class(1024)});
      ASSERT_TRUE(plan.ok()) << plan.status().text();
      names[r] = Recipe{std::string(plan->algorithm->name), plan->demanded}.text();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (warning != nullptr) *warning = said;
  return names;
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

/// No trouble, then the first rank that shares memory with it, and the offers it uses.
std::string choice(Rank host, std::uint32_t used, std::uint32_t leaves = 0) {
  return MessageWriter().u8(1).rank(host).u32(used).u32(leaves).bytes();
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
  // One kernel moves all they say.
  EXPECT_EQ(zero->world.view.path.alpha_us, kLoopbackPath.alpha_us);
}

TEST(Membership, WhatItsTransportSaysOfAPathCounts) {
  const TransportChoice wire{
      "tcp", [](const TransportSpec& spec) {
        Result<std::unique_ptr<Transport>> made = make_tcp_transport(spec);
        EXPECT_TRUE(made.ok()) << made.status().text();
        return Result<std::unique_ptr<Transport>>(std::make_unique<OverTheWire>(*std::move(made)));
      }};
  std::vector<Meeting> meetings = star(2);
  std::thread other(
      [&] { EXPECT_TRUE(agree_on_membership(meetings[1], {wire}, "", {}, in(seconds(20))).ok()); });
  const auto zero = agree_on_membership(meetings[0], {wire}, "", {}, in(seconds(20)));
  other.join();
  ASSERT_TRUE(zero.ok()) << zero.status().text();
  EXPECT_EQ(zero->world.view.path.alpha_us, kTcpPath.alpha_us);
}

TEST(Membership, APathThatLeavesTheKernelIsSlowForAll) {
  std::string card;
  ASSERT_EQ(told({"", choice(1, 1)}, &card).code(), Code::mismatch);
  for (const std::uint32_t leaves : {0U, 1U}) {
    std::vector<Meeting> meetings = star(2);
    std::thread other([&] {
      for (const std::string& text : {card, choice(1, 1, leaves)}) {
        EXPECT_TRUE(exchange(meetings[1], text, in(seconds(20))).ok());
      }
    });
    const Result<Membership> zero = agree(meetings[0]);
    other.join();
    ASSERT_TRUE(zero.ok()) << zero.status().text();
    EXPECT_EQ(zero->world.view.path.alpha_us,
              leaves == 1 ? kTcpPath.alpha_us : kLoopbackPath.alpha_us);
  }
}

TEST(Membership, WhatCopiesCostCountsOnTheSlowestHost) {
  std::string text;
  ASSERT_EQ(told({"", choice(1, 1)}, &text).code(), Code::mismatch);
  const Result<Card> card = read_card(text, 0);
  ASSERT_TRUE(card.ok()) << card.status().text();
  EXPECT_EQ(card->factors,
            copy_factors(memory_costs().copy_us_per_byte, memory_costs().fetch_us_per_byte));
  Card slow = *card;
  slow.factors = {CopyFactors::kMostCopy, CopyFactors::kMostFetch};
  std::vector<Meeting> meetings = star(2);
  std::thread other([&] {
    for (const std::string& published : {write_card(slow), choice(1, 1)}) {
      EXPECT_TRUE(exchange(meetings[1], published, in(seconds(20))).ok());
    }
  });
  const Result<Membership> zero = agree(meetings[0]);
  other.join();
  ASSERT_TRUE(zero.ok()) << zero.status().text();
  EXPECT_EQ(zero->world.view.factors, slow.factors);
  EXPECT_EQ(zero->neighbours.ranks, 1U);

  slow.factors.fetch = CopyFactors::kMostFetch + 1;
  EXPECT_EQ(told({write_card(slow), choice(1, 1)}).code(), Code::mismatch);
}

/// Hosts are what ranks can reach of each other: all have the same host name here.
TEST(Membership, RanksThatShareMemoryShareAHost) {
  constexpr std::size_t kRanks = 5;
  std::vector<Meeting> meetings = star(kRanks);
  const std::vector<TransportChoice> choices = on_hosts({3, 1, 3, 1, 2});
  std::vector<std::optional<Result<Membership>>> members(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      members[rank].emplace(agree_on_membership(meetings[rank], choices, "", {}, in(seconds(20))));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& member : members) {
    ASSERT_TRUE(member->ok()) << member->status().text();
    const Layout& layout = (*member)->world.layout;
    EXPECT_EQ(layout.host, (std::vector<std::int32_t>{0, 1, 0, 1, 2}));
    EXPECT_EQ(layout.members, (std::vector<std::vector<Rank>>{{0, 2}, {1, 3}, {4}}));
    EXPECT_EQ(layout, (*members[0])->world.layout);
  }
}

TEST(Membership, AllRanksPlanByTheTuningTableOfRankZero) {
  using Names = std::vector<std::string>;
  const FoundTuning none, chain = table_of(3, "chain"), linear = table_of(3, "linear");
  const FoundTuning cut = table_of(3, "chain/2x512");
  const std::string untuned = planned({none, none, none})[0];
  std::string warning;
  EXPECT_EQ(planned({chain, chain, chain}, &warning), Names(3, "chain"));
  EXPECT_EQ(warning, "");
  EXPECT_EQ(planned({linear, linear, linear}), Names(3, "linear"));
  EXPECT_EQ(planned({cut, chain, none}), Names(3, "chain/2x512"));
  EXPECT_EQ(planned({chain, linear, none}, &warning), Names(3, "chain"));
  EXPECT_NE(warning.find("ranks 1, 2 have another tuning table than rank 0 (rank 1: linear.json; "
                         "rank 0: chain.json)"),
            std::string::npos)
      << warning;
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
  EXPECT_EQ(planned({none, none, chain}, &warning), Names(3, untuned));
  EXPECT_NE(warning.find("rank 2 has another tuning table than rank 0 (rank 2: chain.json; "
                         "rank 0: none)"),
            std::string::npos)
      << warning;
  // Tables that say nothing of so many ranks are no difference.
  EXPECT_EQ(planned({table_of(4, "chain"), none, table_of(5, "linear")}, &warning),
            Names(3, untuned));
  EXPECT_EQ(warning, "");
}

TEST(Membership, ATuningTableTooLargeToSendIsLeftOutWithAWarning) {
  FoundTuning large = table_of(2, "chain");
  large.table.points[0].timings.resize(20'000, {{std::string(40, 'x')}, 1, 0});
  for (std::size_t i = 0; i < large.table.points[0].timings.size(); ++i)
    large.table.points[0].timings[i].recipe.algorithm += std::to_string(i);
  std::string warning;
  EXPECT_EQ(planned({large, large}, &warning), planned({{}, {}}));
  EXPECT_NE(warning.find("chain.json"), std::string::npos) << warning;
}

TEST(Membership, WhatMakesNoSenseIsAFailureThatNamesTheRank) {
  std::string card;
  ASSERT_EQ(told({"", choice(1, 1)}, &card).code(), Code::mismatch);
  ASSERT_FALSE(card.empty());
  // A card of rank 0's own making is good, also as rank 1's; what follows shows it.
  const Status good = told({card, choice(1, 1)});
  EXPECT_TRUE(good.ok()) << good.text();

  std::string endless = card.substr(0, card.size() / 2);
  endless += std::string(64, '\xff');
  std::string other_version = card;
  other_version[0] = 77;
  const std::vector<std::vector<std::string>> bad = {
      {card.substr(0, card.size() - 1), ""},
      {card + "x", ""},
      {endless, ""},
      {other_version, ""},
      {card, choice(1, 0)},  // no path at all
      {card, choice(1, 2)},  // an offer that rank 0 does not make
      {card, choice(0, 1)},  // shares memory over TCP
      {card, choice(2, 1)},  // with a later rank
      {card, choice(-1, 1)},
      {card, choice(1, 1, 2)},
      {card, choice(1, 1) + "x"},
      {card, choice(1, 1).substr(0, 8)},
      {card, ""},
      {card, MessageWriter().u8(0).text("a failure it is not").bytes()},
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
