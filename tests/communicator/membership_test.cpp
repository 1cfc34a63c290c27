// SPDX-License-Identifier: Apache-2.0
// What a rank makes of what others say of themselves.
#include "communicator/membership/membership.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "communicator/membership/reach.hpp"
#include "communicator/membership/seating.hpp"
#include "fake_hosts.hpp"
#include "rendezvous/control_message.hpp"
#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/meeting_ranks.hpp"
#include "sys/machine/core_costs.hpp"
#include "sys/machine/memory_costs.hpp"
#include "transports/fake/fake_transport.hpp"
#include "transports/shm/shm_connection.hpp"

namespace coll::testing {
namespace {

const CostConstants& costs() {
  return default_cost_model()->constants;
}

Result<Membership> agree(Meeting& meeting, const SharedSettings& settings = {}) {
  auto choices = transport_choices("tcp");
  return agree_on_membership(assembly_of(meeting, in(seconds(100))), *choices, "", settings);
}

/// The model says what is cheap at which length; the transport decides it.
TEST(CostModel, HasTheLengthsAtWhichSharedMemoryChanges) {
  EXPECT_EQ(costs().memory.inline_bytes, kInlineBytes);
  EXPECT_EQ(costs().memory.line_bytes, kFirstLineBytes);
  EXPECT_EQ(costs().memory.fetched_bytes, ShmConnection::kCopyingBytes);
  TransportSpec spec;
  spec.rank = 0;
  spec.size = 2;
  const auto shm = make_shm_transport(spec);
  ASSERT_TRUE(shm.ok()) << shm.status().text();
  EXPECT_EQ(World{}.credits, (*shm)->limits().credits);
  EXPECT_EQ(World{}.passing_bytes, (*shm)->limits().slice_bytes);
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

std::uint32_t kinds_of(const PathCapabilities& path) {
  PathKinds kinds;
  kinds.add(path);
  return kinds.bits();
}

/// No trouble, then the first rank that shares memory with it, the offers it uses, the kinds of its
/// paths, the seating of its host, and that of the GPUs which its GPU reaches, if it is another
/// one.
std::string choice(Rank host, std::uint32_t used,
                   std::uint32_t kinds = kinds_of({.medium = PathMedium::kernel}),
                   const Seating& seating = {}) {
  MessageWriter out;
  out.u8(1).rank(host).u32(used).u32(kinds).u8(0).text("");
  seating.write(out);
  out.u8(0);
  return out.bytes();
}

/// What `size` ranks agree on that may use these transports.
std::vector<Membership> agreed_by(std::size_t size, const std::vector<TransportChoice>& choices) {
  std::vector<Meeting> meetings = star(static_cast<Rank>(size));
  std::vector<Membership> members(size);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Result<Membership> member =
          agree_on_membership(assembly_of(meetings[rank], in(seconds(20))), choices, "", {});
      ASSERT_TRUE(member.ok()) << member.status().text();
      members[rank] = *std::move(member);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return members;
}

/// The plans of many calls, as text.
std::string plans_of(const World& world) {
  std::string text;
  for (const Collective collective : {Collective::broadcast, Collective::all_reduce,
                                      Collective::all_gather, Collective::all_to_all}) {
    for (std::uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 8) {
      const CollectiveSpec spec{collective, world.layout.ranks(), 0};
      const Result<Plan> plan = make_plan(world, {spec, size_class(bytes)});
      EXPECT_TRUE(plan.ok()) << plan.status().text();
      if (!plan.ok()) continue;
      text.append(plan->algorithm->name);
      for (const std::uint32_t number : {plan->lanes, plan->slice_bytes, plan->message_chunks,
                                         static_cast<std::uint32_t>(plan->loans)}) {
        text.append(" ").append(std::to_string(number));
      }
      text.append("\n");
    }
  }
  return text;
}

TEST(Membership, TwoRanksSeeOneWorld) {
  std::vector<Meeting> meetings = star(2);
  std::optional<Result<Membership>> one;
  std::thread other([&] { one.emplace(agree(meetings[1])); });
  const Result<Membership> zero = agree(meetings[0]);
  other.join();
  ASSERT_TRUE(zero.ok() && one->ok()) << zero.status().text() << one->status().text();
  EXPECT_EQ(zero->world.layout.host, (*one)->world.layout.host);
  EXPECT_EQ(zero->paths[1].name, "tcp");
  EXPECT_EQ((*one)->paths[0].name, "tcp");
  EXPECT_EQ(zero->paths[0].transport, nullptr);
  EXPECT_EQ(zero->members[1].pid, getpid());
  // One kernel moves all they say.
  EXPECT_EQ(zero->world.path(), costs().kernel);
}

/// Connections have at least two, whatever COLL_CREDITS says.
TEST(Membership, PredictionsCountNoFewerCreditsThanConnectionsHave) {
  for (const std::uint32_t credits : {1U, 3U}) {
    std::vector<Meeting> meetings = star(1);
    SharedSettings settings;
    settings.credits = credits;
    const Result<Membership> alone = agree(meetings[0], settings);
    ASSERT_TRUE(alone.ok()) << alone.status().text();
    EXPECT_EQ(alone->world.credits, std::max(credits, kLeastCredits));
    EXPECT_EQ(alone->credits, alone->world.credits);
  }
}

/// A path is known by what it can do: a transport with another name gets the plans of shared memory
/// if it shares memory, and one called shm does not if it does not.
TEST(Membership, PlansFollowWhatAPathCanDoNotItsName) {
  constexpr std::size_t kRanks = 3;
  const auto shm = make_shm_transport({.rank = 0, .size = 1, .interface = {}});
  ASSERT_TRUE(shm.ok()) << shm.status().text();
  const auto fake = [&](const std::string& name, const PathCapabilities& path) {
    const auto network =
        std::make_shared<FakeNetwork>(FakeScript{.path = path, .limits = (*shm)->limits()});
    return std::vector<TransportChoice>{
        {name, [network](const TransportSpec& spec) -> Result<std::unique_ptr<Transport>> {
           return make_fake_transport(network, spec);
         }}};
  };
  const std::vector<Membership> known = agreed_by(kRanks, *transport_choices("shm"));
  const std::string shared = plans_of(known[0].world);
  struct Case {
    const char* name;
    PathCapabilities path;
    const PathCost& cost;
  };
  for (const Case& each :
       {Case{"other", {.shares_memory = true, .medium = PathMedium::memory}, costs().memory},
        Case{"shm", {.medium = PathMedium::kernel}, costs().kernel},
        Case{"shm", {.medium = PathMedium::network}, costs().network}}) {
    const std::vector<Membership> members = agreed_by(kRanks, fake(each.name, each.path));
    for (const Membership& member : members) {
      ASSERT_EQ(member.members.size(), kRanks) << "it did not agree";
      const bool shares = each.path.shares_memory;
      EXPECT_EQ(member.world.shared_memory, shares);
      EXPECT_EQ(member.world.layout.hosts(), shares ? 1 : static_cast<std::int32_t>(kRanks));
      EXPECT_EQ(member.world.path(), each.cost);
      EXPECT_EQ(plans_of(member.world) == shared, shares);
      EXPECT_EQ(plans_of(member.world), plans_of(members[0].world));
    }
    EXPECT_EQ(members[0].paths[1].name, each.name);
  }
}

/// The costliest path of any rank counts for all, also for ranks that do not use it.
TEST(Membership, AWorldIsAsSlowAsItsCostliestPath) {
  const auto choices = on_hosts({0, 0, 1});
  for (const Membership& member : agreed_by(3, choices)) {
    EXPECT_FALSE(member.world.shared_memory);
    EXPECT_EQ(member.world.path(), costs().kernel);
    EXPECT_EQ(member.world.layout.host, (std::vector<std::int32_t>{0, 0, 1}));
  }
}

TEST(Membership, APathThatLeavesTheKernelIsSlowForAll) {
  std::string card;
  ASSERT_EQ(told({"", choice(1, 1)}, &card).code(), Code::mismatch);
  for (const PathMedium medium : {PathMedium::kernel, PathMedium::network}) {
    std::vector<Meeting> meetings = star(2);
    std::thread other([&] {
      for (const std::string& text : {card, choice(1, 1, kinds_of({.medium = medium}))}) {
        EXPECT_TRUE(exchange(meetings[1], text, in(seconds(20))).ok());
      }
    });
    const Result<Membership> zero = agree(meetings[0]);
    other.join();
    ASSERT_TRUE(zero.ok()) << zero.status().text();
    EXPECT_EQ(zero->world.path(), medium == PathMedium::network ? costs().network : costs().kernel);
  }
}

TEST(Membership, WhatTheSlowestHostMeasuredCountsForAll) {
  std::string text;
  ASSERT_EQ(told({"", choice(1, 1)}, &text).code(), Code::mismatch);
  const Result<Card> card = read_card(text, 0);
  ASSERT_TRUE(card.ok()) << card.status().text();
  const ProbeCost mine = card->measured;
  EXPECT_EQ(mine.copy_us_per_byte, static_cast<float>(memory_costs().copy_us_per_byte));
  EXPECT_EQ(mine.fetch_us_per_byte, static_cast<float>(memory_costs().fetch_us_per_byte));
  EXPECT_EQ(mine.chain_us, static_cast<float>(core_costs().chain_us));
  EXPECT_EQ(mine.line_us, static_cast<float>(core_costs().line_us));
  EXPECT_EQ(write_card(*card), text) << "nothing is lost on a card";
  Card slow = *card;
  slow.measured.copy_us_per_byte = 0.5F;
  slow.measured.fetch_us_per_byte = 2 * mine.fetch_us_per_byte;
  slow.measured.chain_us = 0;  // not known there
  std::vector<Meeting> meetings = star(2);
  std::thread other([&] {
    for (const std::string& published : {write_card(slow), choice(1, 1)}) {
      EXPECT_TRUE(exchange(meetings[1], published, in(seconds(20))).ok());
    }
  });
  const Result<Membership> zero = agree(meetings[0]);
  other.join();
  ASSERT_TRUE(zero.ok()) << zero.status().text();
  const CostView& view = zero->world.view;
  EXPECT_EQ(view.measured.copy_us_per_byte, 0.5);
  EXPECT_EQ(view.measured.fetch_us_per_byte, slow.measured.fetch_us_per_byte);
  EXPECT_EQ(view.measured.chain_us, mine.chain_us);
  EXPECT_EQ(view.factors, copy_factors(costs(), view.measured));
  EXPECT_EQ(zero->neighbours.ranks, 2U) << "they share a kernel, if no memory";

  Card other_copies = slow;
  other_copies.copies = {.within_gbytes_per_s = 1500.5,
                         .to_host_gbytes_per_s = 50,
                         .from_host_gbytes_per_s = 51,
                         .start_us = 2};
  const Result<Card> back = read_card(write_card(other_copies), 1);
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(back->copies, other_copies.copies);
  other_copies.copies.start_us = -1;
  EXPECT_EQ(read_card(write_card(other_copies), 1).status().code(), Code::mismatch);

  slow.measured.line_us = -1;
  EXPECT_EQ(told({write_card(slow), choice(1, 1)}).code(), Code::mismatch);
}

/// Hosts are what ranks can reach of each other: all have the same host name here.
TEST(Membership, RanksThatShareMemoryShareAHost) {
  const std::vector<Membership> members = agreed_by(5, on_hosts({3, 1, 3, 1, 2}));
  for (const Membership& member : members) {
    const Layout& layout = member.world.layout;
    EXPECT_EQ(layout.host, (std::vector<std::int32_t>{0, 1, 0, 1, 2}));
    EXPECT_EQ(layout.members, (std::vector<std::vector<Rank>>{{0, 2}, {1, 3}, {4}}));
    EXPECT_EQ(layout, members[0].world.layout);
  }
}

TEST(Membership, WhatMakesNoSenseIsAFailureThatNamesTheRank) {
  std::string card;
  ASSERT_EQ(told({"", choice(1, 1)}, &card).code(), Code::mismatch);
  ASSERT_FALSE(card.empty());
  // A card of rank 0's own making is good, also as rank 1's; what follows shows it.
  const Status good = told({card, choice(1, 1)});
  EXPECT_TRUE(good.ok()) << good.text();

  Result<Card> other = read_card(card, 0);
  ASSERT_TRUE(other.ok());
  other->settings.order = SumOrder{2};
  EXPECT_EQ(read_card(write_card(*other), 1).status().code(), Code::mismatch);

  std::string endless = card.substr(0, card.size() / 2);
  endless += std::string(64, '\xff');
  std::string other_version = card;
  other_version[0] = 77;
  // By itself: below the rank's second text fails as well.
  for (const std::string& text : {card.substr(0, card.size() - 1), card + "x", endless}) {
    EXPECT_EQ(read_card(text, 1).status().code(), Code::mismatch);
  }
  EXPECT_EQ(read_card(other_version, 1).status().code(), Code::unsupported);
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
      {card, choice(1, 1, 0)},                                          // no kind of path
      {card, choice(1, 1, 2 * kinds_of({true, PathMedium::network}))},  // none that there is
      {card, choice(1, 1).substr(0, choice(1, 1).size() - 1) + "\1"},   // no second seating
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

TEST(Membership, ASeatingReadsBackAsItWasWritten) {
  const Seating seating{{{0, 1, 2, -1}, {0, -1, 5, 3}}, {{{1, 0}, 0, 1}, {{0, 1}, -1, -1}}};
  MessageWriter out;
  seating.write(out);
  MessageReader in(out.bytes());
  EXPECT_EQ(Seating::read(in), seating);
  EXPECT_TRUE(in.whole());
  EXPECT_TRUE(seating.fits(2));
  EXPECT_FALSE(seating.fits(3));
  EXPECT_TRUE(Seating{}.fits(3));
}

/// It counts for its host only. Of other ranks than those it is not used, as all ranks see.
TEST(Membership, ASeatingOfOtherRanksIsAWarning) {
  std::string card;
  ASSERT_EQ(told({"", choice(1, 1)}, &card).code(), Code::mismatch);
  const std::uint32_t kinds = kinds_of({.medium = PathMedium::kernel});
  const Seating one{{{}}, {{{0}, 0, 0}}};
  const auto warned = [&](const Seating& seating) {
    ::testing::internal::CaptureStderr();
    const Status outcome = told({card, choice(1, 1, kinds, seating)});
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(outcome.ok()) << outcome.text();
    return said.find("on the hosts of rank 1 are placed by NUMA node only") != said.npos;
  };
  EXPECT_FALSE(warned(one));
  Seating two_places = one, no_places = one, twice = one, beyond = one, many = one;
  two_places.places.resize(2);
  no_places.places.clear();
  twice.paths[0].order = {0, 0};
  beyond.paths[0].order = {1};
  many.paths.resize(kMostPaths + 1, many.paths[0]);
  for (const Seating& other : {two_places, no_places, twice, beyond}) EXPECT_TRUE(warned(other));
  const Status failure = told({card, choice(1, 1, kinds, many)});
  EXPECT_EQ(failure.code(), Code::mismatch);
  EXPECT_EQ(failure.rank(), 1) << failure.text();
}

/// Rank 1 shares memory with both others, which share none: neither can seat all three.
TEST(Membership, RanksThatShareMemoryInPairsOnlyArePlacedByNumaNode) {
  std::vector<Card> cards(3);
  for (std::size_t r = 0; r < 3; ++r) cards[r].numa = static_cast<std::int32_t>(r);
  const std::vector<Reach> reaches{{.host = 0, .used = 0, .kinds = {}},
                                   {.host = 0, .used = 0, .kinds = {}},
                                   {.host = 1, .used = 0, .kinds = {}}};
  std::vector<Seating> seatings(3);
  seatings[0] = {{{0, 7, 0, 0}, {0, 7, 0, 0}}, {{{1, 0}, 0, 0}}};
  const Layout of_one = layout_of(cards, firsts_of_hosts(reaches), seatings, 1);
  EXPECT_EQ(of_one.numa, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(of_one.hosts(), 1);
  EXPECT_EQ(of_one, layout_of(cards, firsts_of_hosts(reaches), seatings, 2));
}

TEST(Membership, PublishesNoMorePathsThanAPlanHasLanes) {
  EXPECT_EQ(kMostPaths, World{}.max_lanes);
}

TEST(Membership, AnotherOrderOfSumsThanRankZerosIsAWarning) {
  std::string text;
  ASSERT_EQ(told({"", choice(1, 1)}, &text).code(), Code::mismatch);
  Result<Card> card = read_card(text, 0);
  ASSERT_TRUE(card.ok()) << card.status().text();
  for (const SumOrder order : {SumOrder::any, SumOrder::tree}) {
    card->settings.order = order;
    ::testing::internal::CaptureStderr();
    const Status outcome = told({write_card(*card), choice(1, 1)});
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(outcome.ok()) << outcome.text();
    EXPECT_EQ(said.find("rank 1 has other values of") != said.npos, order == SumOrder::tree)
        << said;
  }
}

}  // namespace
}  // namespace coll::testing
