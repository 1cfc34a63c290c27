// SPDX-License-Identifier: Apache-2.0
// Relays and ranks that find each other across two hosts.
#include <gmock/gmock.h>

#include "meeting_ranks.hpp"
#include "rendezvous/exchange/exchange.hpp"
#include "two_hosts.hpp"

namespace coll::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExchangeTwoHosts : public test::TwoHosts {
 protected:
  /// Ranks meet and exchange on their hosts; those of host 1 know the hub by `hub`, which is `own`
  /// to itself. What was logged.
  std::string exchange_on(const std::vector<int>& host_of, const std::string& hub,
                          const std::string& own) {
    at(0);
    const std::string port = std::to_string(free_port());
    const auto size = static_cast<Rank>(host_of.size());
    ::testing::internal::CaptureStderr();
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        const int host = host_of[static_cast<std::size_t>(rank)];
        at(host);
        MeetingPlace place = tcp_place(0);
        place.addresses = {(host == 0 ? "127.0.0.1:" : hub + ":") + port};
        if (rank == 0) place.addresses.push_back(own + ":" + port);
        Result<Meeting> meeting = meet(place, rank, size, in(seconds(20)));
        ASSERT_TRUE(meeting.ok()) << meeting.status().text();
        for (int round = 0; round < 2; ++round) {
          const Relaying chain{.star_up_to = 1, .fan_out = 1, .help_time = seconds(60)};
          const auto texts =
              exchange(*meeting, "from " + std::to_string(rank), in(seconds(60)), chain);
          ASSERT_TRUE(texts.ok()) << texts.status().text();
          for (Rank from = 0; from < size; ++from) {
            EXPECT_EQ((*texts)[static_cast<std::size_t>(from)], "from " + std::to_string(from));
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("found the hub")) << "set COLL_LOG=info, as meson does";
    return said;
  }
};

TEST_F(ExchangeTwoHosts, RelaysReachRanksOfTheirOwnAndTheOther) {
  // In a chain of two hosts' ranks there are calls from each host to each.
  for (const auto& hosts : {std::vector{0, 1, 0, 1, 0, 1}, std::vector{0, 0, 0, 1, 1, 1}}) {
    EXPECT_THAT(exchange_on(hosts, "10.79.0.1", "10.79.0.1"),
                Not(HasSubstr("which this relay could not")));
  }
}

TEST_F(ExchangeTwoHosts, TheHubServesWhomOnlyItCanName) {
  at(1);
  if (!run("ip -6 addr show dev h1 | grep -q fe80")) GTEST_SKIP() << "no IPv6";
  // The hub sees host 1 by a link-local address, which means nothing to others.
  EXPECT_THAT(exchange_on({0, 1, 0, 1}, "[fe80::1%h1]", "[fe80::1%h0]"),
              HasSubstr("it has no door"));
}

}  // namespace
}  // namespace coll::testing
