// SPDX-License-Identifier: Apache-2.0
// Simulated times against closed forms.
#include "schedule/simulate/simulate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "schedule/proof/verify.hpp"
#include "simulated.hpp"

namespace coll {
namespace {

constexpr Load kOnePass{.bytes = kBytes};

TEST(Simulate, RingAllReduceIsAsTheModelSays) {
  for (const Rank n : {2, 3, 4, 7, 16, 33}) {
    const double part = std::ceil(kBytes / n / 64) * 64;
    const double us = simulated_us(built("ring", Collective::all_reduce, n), ports(n), kOnePass);
    EXPECT_NEAR(us, 2 * (n - 1) * (kAlpha + part * kBeta) + (n - 1) * part * kGamma, us * 0.01)
        << n;
  }
}

TEST(Simulate, BinomialBroadcastIsAsTheModelSays) {
  for (const Rank n : {2, 4, 8, 16, 64}) {
    const double us =
        simulated_us(built("binomial", Collective::broadcast, n, n / 2), ports(n), kOnePass);
    EXPECT_NEAR(us, std::log2(n) * (kAlpha + kBytes * kBeta), 1e-6) << n;
  }
}

TEST(Simulate, RabenseifnersAllReduceIsAsTheModelSays) {
  for (const Rank n : {2, 4, 8, 16, 64}) {
    const double us = simulated_us(built("recursive_halving_doubling", Collective::all_reduce, n),
                                   ports(n), kOnePass);
    const double part = (n - 1.0) / n * kBytes;
    EXPECT_NEAR(us, 2 * std::log2(n) * kAlpha + 2 * part * kBeta + part * kGamma, 1e-6) << n;
  }
}

/// Some ranks cut their messages where numbers wrap around and combine the first part while the
/// second comes, so they are done sooner; that must not get into the way of others.
TEST(Simulate, CirculantAllReduceIsAsTheModelSays) {
  for (Rank n = 2; n <= 130; ++n) {
    const double us =
        simulated_us(built("circulant", Collective::all_reduce, n), ports(n), kOnePass);
    const double part = (n - 1.0) / n * kBytes, rounds = 2 * std::ceil(std::log2(n));
    const double model = rounds * kAlpha + 2 * part * kBeta + part * kGamma;
    EXPECT_NEAR(us, model, 0.01 * model) << n;
  }
}

TEST(Simulate, AChainStreamsItsSlices) {
  constexpr double kSlice = 8192;
  for (const Rank n : {2, 3, 9}) {
    for (const double slices : {1, 5, 64, 1024}) {
      const double us =
          simulated_us(built("chain", Collective::broadcast, n), ports(n),
                       {.bytes = slices * kSlice, .slice_bytes = kSlice, .credits = 64});
      const double expected = (n - 1) * (kAlpha + kSlice * kBeta) + (slices - 1) * kSlice * kBeta;
      EXPECT_NEAR(us, expected, expected * 1e-9) << n << " ranks, " << slices << " slices";
    }
  }
}

TEST(Simulate, TheLastPassIsAsLongAsWhatIsLeft) {
  constexpr double kSlice = 64;  // longer ones would be cut evenly
  for (const Rank n : {2, 3, 9}) {
    for (const double last : {1, 32, 63, 64}) {
      const double bytes = 5 * kSlice + last;
      const Result<Simulated> result =
          simulate(built("chain", Collective::broadcast, n), ports(n, 0, 1),
                   {.bytes = bytes, .slice_bytes = kSlice, .credits = 64, .in_a_row = true});
      ASSERT_TRUE(result.ok());
      EXPECT_NEAR(result->us, (n - 2) * kSlice + bytes, 1e-6) << n << " ranks, " << last;
      EXPECT_NEAR(result->each_us, bytes, 1e-6) << n << " ranks, " << last;
    }
  }
}

TEST(Simulate, CreditsBoundWhatIsOnTheWay) {
  // One message at a time: each slice waits until the one before has been taken.
  const double us =
      simulated_us(built("chain", Collective::broadcast, 2), ports(2),
                   {.bytes = 16 * 8192.0, .slice_bytes = 8192, .message_chunks = 1, .credits = 1});
  EXPECT_NEAR(us, 16 * (kAlpha + 8192 * kBeta), 1e-6);
}

TEST(Simulate, LanesShareALink) {
  const auto schedules = built("chain", Collective::broadcast, 2);
  Load load{.bytes = 64 * 8192.0, .slice_bytes = 8192, .credits = 64};
  const double one = simulated_us(schedules, ports(2), load);
  load.copies = 4;
  EXPECT_NEAR(simulated_us(schedules, ports(2), load), one, one * 1e-9);
}

/// On the streams of a GPU: one message after the other, although each has a link of its own.
TEST(Simulate, ALaneThatCopiesSendsOneMessageAfterTheOther) {
  for (const Rank n : {2, 3, 9}) {
    Network network;
    for (Rank rank = 0; rank < n; ++rank)
      network.links.push_back({"to rank " + std::to_string(rank), kBeta});
    network.route = [](Rank, Rank target) {
      return Route{.alpha_us = kAlpha, .links = {static_cast<std::uint32_t>(target)}};
    };
    network.threads = false;
    const auto linear = built("linear", Collective::broadcast, n);
    const double crossing = kBytes * kBeta;
    EXPECT_NEAR(simulated_us(linear, network, kOnePass), kAlpha + crossing, 1e-6) << n;
    network.lanes_copy = true;
    EXPECT_NEAR(simulated_us(linear, network, kOnePass), kAlpha + (n - 1) * crossing, 1e-6) << n;
    // A message that is passed on leaves when it has come: a ring takes no longer.
    const auto ring = built("ring", Collective::all_gather, n);
    const double us = simulated_us(ring, network, kOnePass);
    network.lanes_copy = false;
    EXPECT_NEAR(us, simulated_us(ring, network, kOnePass), us * 0.01) << n;
  }
}

TEST(Simulate, EveryMessageCrossesASharedLink) {
  // All ranks behind one link: it carries all bytes of all ranks.
  constexpr Rank kRanks = 5;
  Network network = ports(kRanks, 0);
  network.links = {{"hub", kBeta}};
  network.route = [](Rank, Rank) { return Route{.links = {0}}; };
  const Result<Simulated> result =
      simulate(built("pairwise", Collective::all_to_all, kRanks), network, kOnePass);
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->us, (kRanks - 1) * kBytes * kBeta, result->us * 0.01);
  EXPECT_EQ(result->bottleneck, "hub");
  EXPECT_GT(result->busy, 0.98);
  EXPECT_EQ(result->messages, kRanks * (kRanks - 1));
}

TEST(Simulate, ARankIsOneThread) {
  // Nothing but work: what a rank sends and receives, one after the other, and so the ranks of a
  // core.
  constexpr Rank kRanks = 8;
  for (const Rank cores : {8, 4, 2, 1}) {
    Network network;
    network.route = [](Rank, Rank) {
      return Route{.send_us_per_byte = kBeta, .receive_us_per_byte = kBeta};
    };
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      network.core.push_back(rank % static_cast<std::uint32_t>(cores));
    }
    const Load load{.bytes = kBytes, .slice_bytes = 4096, .copies = 2, .in_a_row = true};
    const Result<Simulated> result =
        simulate(built("two_shot", Collective::all_reduce, kRanks), network, load);
    ASSERT_TRUE(result.ok());
    const double crowd = static_cast<double>(kRanks) / cores;
    const double work = 2 * 2 * (kRanks - 1.0) / kRanks * kBytes * kBeta * crowd;
    EXPECT_NEAR(result->us, work, work * 0.02) << cores << " cores";
    EXPECT_NEAR(result->each_us, work, work * 0.02) << cores << " cores";
    EXPECT_EQ(result->bottleneck, "processor");
  }
}

TEST(Simulate, ACoreGoesFromRankToRankInACircle) {
  // Three ranks of one core pass an empty message on. Rank 0 has the core first; from then on each
  // has it as soon as its message is there, for the one before it has just given it away.
  constexpr double kStep = 2, kHandOver = 10;
  Network network;
  network.route = [](Rank, Rank) { return Route{}; };
  network.core = {0, 0, 0};
  network.step_us = kStep;
  network.hand_over_us = kHandOver;
  EXPECT_NEAR(simulated_us(built("chain", Collective::broadcast, 3), network, {.bytes = 8}),
              3 * kStep + 2 * kHandOver, 1e-9);
  // From the last rank down to the first, the core comes to each after it has been at all others.
  EXPECT_NEAR(simulated_us(built("chain", Collective::reduce, 3), network, {.bytes = 8}),
              2 * kHandOver + kStep + 2 * (2 * kHandOver + kStep), 1e-9);
}

TEST(Simulate, AMessageFindsItsCoreOnItsRounds) {
  // Ranks 1 and 2 share a core, which goes around while they wait: it is at rank 1 at 0, 20, 40
  // and so on, and at rank 2 at 10, 30, 50.
  constexpr double kHandOver = 10;
  Network network;
  network.core = {0, 1, 1};
  network.hand_over_us = kHandOver;
  for (const auto& [alpha, at] : {std::pair(1.0, 20.0), {19.0, 20.0}, {20.0, 20.0}, {21.0, 40.0}}) {
    network.route = [alpha = alpha](Rank, Rank) { return Route{.alpha_us = alpha}; };
    const Result<Simulated> result =
        simulate(built("linear", Collective::broadcast, 3), network, {.bytes = 8});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->rank_us[1], at) << alpha;
  }
}

TEST(Simulate, CallsInARowOverlapWhereNobodyWaitsForAResult) {
  // Rank 0 of a broadcast need not wait: one call begins while the one before is on its way.
  const auto broadcast = built("binomial", Collective::broadcast, 8);
  const Result<Simulated> one_way = simulate(broadcast, ports(8), {.bytes = 8, .in_a_row = true});
  ASSERT_TRUE(one_way.ok());
  EXPECT_NEAR(one_way->us, 3 * kAlpha, 0.1);
  EXPECT_LT(one_way->each_us, kAlpha);
  // All need all of all_reduce: a call is as long as its chain of messages.
  const auto all_reduce = built("recursive_doubling", Collective::all_reduce, 8);
  const Result<Simulated> both_ways =
      simulate(all_reduce, ports(8), {.bytes = 8, .in_a_row = true});
  ASSERT_TRUE(both_ways.ok());
  EXPECT_NEAR(both_ways->each_us, both_ways->us, 1e-6);
  // What is lent holds its sender up.
  Network lending = ports(8);
  const auto route = lending.route;
  lending.route = [route](Rank source, Rank target) {
    Route of = route(source, target);
    of.lent_bytes = 8;
    return of;
  };
  const Result<Simulated> lent = simulate(broadcast, lending, {.bytes = 8, .in_a_row = true});
  ASSERT_TRUE(lent.ok());
  EXPECT_GE(lent->each_us, kAlpha);
}

/// A limit changes no result that is within it, and is not exceeded without being told.
TEST(Simulate, GivesUpOnlyWhatIsCertainToBeAboveTheLimit) {
  constexpr Rank kRanks = 6;
  Network crowded = ports(kRanks);
  crowded.core = {0, 1, 0, 1, 0, 1};
  crowded.hand_over_us = 2;
  // Takes hardly longer than the work of a core.
  Network busy = crowded;
  busy.route = [](Rank, Rank) { return Route{.send_us_per_byte = kBeta}; };
  std::size_t hopeless = 0;
  for (const Network& network : {ports(kRanks), crowded, busy}) {
    for (const Algorithm& algorithm : algorithms()) {
      const CollectiveSpec spec{Collective::all_reduce, kRanks, 0};
      if (!algorithm.supports(spec, Layout::flat(kRanks))) continue;
      const std::vector<Schedule> schedules = build_all(algorithm, spec);
      const Cost cost = algorithm.cost(spec, Layout::flat(kRanks));
      for (const double bytes : {8.0, 65536.0, 8e6}) {
        Load load{.bytes = bytes,
                  .slice_bytes = 16384,
                  .message_chunks = cost.message_chunks,
                  .copies = 2,
                  .effort = 2e3,
                  .in_a_row = true};
        const Result<Simulated> free = simulate(schedules, network, load);
        ASSERT_TRUE(free.ok());
        const double score = free->us * free->each_us * free->each_us;
        for (const double times : {0.001, 0.1, 0.5, 0.9, 0.99, 1.0, 1.5}) {
          load.most_score = times * score;
          const Result<Simulated> limited = simulate(schedules, network, load);
          ASSERT_TRUE(limited.ok());
          const bool gave_up = limited->us == std::numeric_limits<double>::infinity();
          if (gave_up) {
            EXPECT_LT(times, 1) << describe(algorithm, spec) << ' ' << bytes;
            EXPECT_EQ(limited->each_us, limited->us);
            ++hopeless;
          } else {
            EXPECT_EQ(limited->us, free->us) << describe(algorithm, spec) << ' ' << bytes;
            EXPECT_EQ(limited->each_us, free->each_us);
          }
          // Far above the limit, all of them are given up.
          EXPECT_TRUE(gave_up || times > 0.01) << describe(algorithm, spec) << bytes;
        }
      }
    }
  }
  EXPECT_GT(hopeless, 0U);
}

TEST(Simulate, EmptyMessagesTakeAsLongAsTheLongestChainOfThem) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      for (const Rank ranks : {1, 2, 3, 4, 5, 8, 12, 17}) {
        const CollectiveSpec spec{collective_at(i), ranks, ranks - 1};
        if (!algorithm.supports(spec, Layout::flat(ranks))) continue;
        const std::vector<Schedule> schedules = build_all(algorithm, spec);
        const Result<Verified> verified = verify(schedules, 1 << 20);
        ASSERT_TRUE(verified.ok());
        EXPECT_EQ(simulated_us(schedules, ports(ranks, 1, 0, 0), {.credits = 1 << 20}),
                  verified->rounds)
            << describe(algorithm, spec);
      }
    }
  }
}

TEST(Simulate, NoCallIsFasterThanItsBusiestPort) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      for (const Rank ranks : {2, 3, 8, 13}) {
        const CollectiveSpec spec{collective_at(i), ranks, 0};
        if (!algorithm.supports(spec, Layout::flat(ranks))) continue;
        const Cost cost = algorithm.cost(spec, Layout::flat(ranks));
        const Load load{.bytes = 8 << 20,
                        .slice_bytes = 64 << 10,
                        .message_chunks = cost.message_chunks,
                        .copies = 2};
        const double us = simulated_us(build_all(algorithm, spec), ports(ranks), load);
        EXPECT_GE(us, cost.moved() * load.bytes * kBeta * 0.97) << describe(algorithm, spec);
      }
    }
  }
}

TEST(Simulate, AStragglerDelaysThoseWhoNeedIt) {
  constexpr Rank kRanks = 8;
  const auto ring = built("ring", Collective::all_gather, kRanks);
  const double prompt = simulated_us(ring, ports(kRanks), kOnePass);
  Disturbance late;
  late.start_us.assign(kRanks, 0);
  late.start_us[3] = 1000;
  const Result<Simulated> delayed = simulate(ring, ports(kRanks), kOnePass, late);
  ASSERT_TRUE(delayed.ok());
  EXPECT_GE(delayed->us, 1000);
  EXPECT_LE(delayed->us, 1001 + prompt);

  Network network = ports(kRanks);
  network.step_us = 5;
  const double even = simulated_us(ring, network, kOnePass);
  Disturbance slow;
  slow.slowness.assign(kRanks, 1);
  slow.slowness[2] = 11;
  const Result<Simulated> slowed = simulate(ring, network, kOnePass, slow);
  ASSERT_TRUE(slowed.ok());
  EXPECT_GE(slowed->us, even + 49) << "50 us more in a step of rank 2 that its right one waits for";
}

TEST(Simulate, OtherTrafficTakesItsPartOfALink) {
  const auto schedules = built("chain", Collective::broadcast, 2);
  const double alone = simulated_us(schedules, ports(2, 0), kOnePass);
  const Disturbance half{.links = {{.link = 0, .busy = 0.5}}};
  const Result<Simulated> shared = simulate(schedules, ports(2, 0), kOnePass, half);
  ASSERT_TRUE(shared.ok());
  EXPECT_NEAR(shared->us, 2 * alone, alone * 1e-9);
}

TEST(Simulate, AFailedLinkIsNamedByThoseWhoWait) {
  const auto ring = built("ring", Collective::all_reduce, 4);
  const Disturbance cut{.links = {{.link = 1, .busy = 1, .from_us = 10}}};
  const Result<Simulated> result = simulate(ring, ports(4), kOnePass, cut);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::unreachable);
  EXPECT_NE(result.status().text().find("rank 2 lane 0"), std::string::npos)
      << result.status().text();
  EXPECT_NE(result.status().text().find("a message of rank 1"), std::string::npos)
      << result.status().text();
  EXPECT_TRUE(simulate(ring, ports(4), kOnePass, {.links = {{1, 1, 1e9}}}).ok());
}

TEST(Simulate, ASetThatWaitsForItselfIsAnError) {
  std::vector<Schedule> schedules;
  for (const Rank rank : {0, 1}) {
    schedules.push_back(start_schedule("stuck", {Collective::barrier, 2, 0}, rank, 1));
    LaneBuilder lane(schedules.back().lanes[0]);
    lane.await(1 - rank);
    lane.signal(1 - rank);
  }
  const Result<Simulated> result = simulate(schedules, ports(2), {});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().text().find("waits for ever for a message of rank 1"),
            std::string::npos)
      << result.status().text();
}

struct Symmetric {
  const char* algorithm;
  Collective collective;
  Symmetry::Kind kind;
};

TEST(Simulate, OneGroupStandsForAllThatAreAlike) {
  using enum Collective;
  constexpr Rank kRanks = 16;
  for (const Symmetric& of :
       {Symmetric{"ring", all_reduce, Symmetry::Kind::shift},
        Symmetric{"ring", all_gather, Symmetry::Kind::shift},
        Symmetric{"pairwise", all_to_all, Symmetry::Kind::shift},
        Symmetric{"two_shot", all_reduce, Symmetry::Kind::shift},
        Symmetric{"recursive_doubling", all_reduce, Symmetry::Kind::exclusive_or},
        Symmetric{"recursive_halving_doubling", all_reduce, Symmetry::Kind::exclusive_or}}) {
    const auto schedules = built(of.algorithm, of.collective, kRanks);
    const Load load{.bytes = kBytes, .slice_bytes = 64 << 10, .message_chunks = 8, .copies = 2};
    const double all = simulated_us(schedules, ports(kRanks), load);
    for (const Rank group : {1, 2, 8, 16}) {
      Network network = ports(group);
      network.route = [group](Rank source, Rank target) {
        return Route{.alpha_us = kAlpha,
                     .links = {static_cast<std::uint32_t>(source % group),
                               static_cast<std::uint32_t>(group + target % group)}};
      };
      const Result<Simulated> part =
          simulate(std::span(schedules).first(static_cast<std::size_t>(group)), network, load, {},
                   {of.kind, group});
      ASSERT_TRUE(part.ok()) << part.status().text();
      EXPECT_NEAR(part->us, all, all * 1e-9) << of.algorithm << ", groups of " << group;
    }
  }
}

}  // namespace
}  // namespace coll
