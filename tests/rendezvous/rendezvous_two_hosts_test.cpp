// SPDX-License-Identifier: Apache-2.0
// Who listens where, and whom other hosts can reach.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <fstream>
#include <set>

#include "communicator/communicator.hpp"
#include "meeting_ranks.hpp"
#include "rendezvous/exchange/relay_door.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/hub_addresses.hpp"
#include "sys/net/socket_frame.hpp"
#include "temporary_folder.hpp"
#include "two_hosts.hpp"

namespace coll::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Hosts = std::set<std::string>;

/// One with a secret, so that what is said once per process is left to the test of that.
MeetingPlace place_at(const std::vector<std::string>& addresses) {
  MeetingPlace place = tcp_place(0);
  place.addresses = addresses;
  place.secret = true;
  return place;
}

class RendezvousTwoHosts : public test::TwoHosts {
 protected:
  std::uint16_t port() {
    at(0);
    return free_port();
  }
  /// Two ranks meet at this place on host 0; where rank 0 listens.
  Hosts hub_at(const MeetingPlace& place) {
    at(0);
    std::thread hub([&] {
      at(0);
      const Result<Meeting> met = meet(place, 0, 2, in(seconds(20)));
      EXPECT_TRUE(met.ok()) << met.status().text();
    });
    Hosts heard;
    while (heard.empty()) heard = heard_here();
    std::string host =
        heard.begin()->starts_with(":") ? "[" + *heard.begin() + "]" : *heard.begin();
    if (host == "[::]" || host == "0.0.0.0") host = "127.0.0.1";
    if (host.starts_with("fe80")) host = "[" + host + "%h0]";
    MeetingPlace there = place;
    there.addresses = {host + place.addresses[0].substr(place.addresses[0].rfind(':'))};
    // Once it greets, it listens everywhere it will.
    const Result<Fd> fd = dial(*NetAddress::parse(there.addresses[0]), in(seconds(10)));
    EXPECT_TRUE(fd.ok() && recv_frame(fd->get(), kHandshakeLimit, in(seconds(10))).ok());
    heard = heard_here();
    EXPECT_TRUE(meet(there, 1, 2, in(seconds(20))).ok());
    hub.join();
    return heard;
  }
  Hosts hub_at(const std::string& host, const std::string& interfaces = "") {
    MeetingPlace place = place_at({host + ":" + std::to_string(port())});
    place.interfaces = interfaces;
    return hub_at(place);
  }
  bool has_ipv6() {
    at(0);
    return run("ip -6 addr show dev h0 | grep -q fe80");
  }
};

TEST_F(RendezvousTwoHosts, TheHubListensAtTheRendezvousOnly) {
  EXPECT_THAT(hub_at("127.0.0.1"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(hub_at("127.0.0.5"), ElementsAre("127.0.0.5"));
  EXPECT_THAT(hub_at("10.79.0.1"), ElementsAre("10.79.0.1"));
  EXPECT_THAT(hub_at("10.79.0.1", "lo"), ElementsAre("10.79.0.1"))
      << "the rendezvous says it, not COLL_INTERFACE";
  for (const std::string& host : hub_at("localhost")) {
    EXPECT_THAT(host, ::testing::AnyOf("127.0.0.1", "::1"));
  }
  if (!has_ipv6()) return;
  EXPECT_THAT(hub_at("[::1]"), ElementsAre("::1"));
  EXPECT_THAT(hub_at("[fe80::1%h0]"), ElementsAre("fe80::1"));
}

TEST_F(RendezvousTwoHosts, SeveralHostsOfARendezvousAreOneHubs) {
  const std::string at_port = ":" + std::to_string(port());
  EXPECT_THAT(
      hub_at(place_at({"10.79.0.1" + at_port, "127.0.0.1" + at_port, "10.79.0.2" + at_port})),
      UnorderedElementsAre("10.79.0.1", "127.0.0.1"));
}

TEST_F(RendezvousTwoHosts, AWildcardAsksForTheInterfaces) {
  EXPECT_THAT(hub_at("0.0.0.0"), ElementsAre(has_ipv6() ? "::" : "0.0.0.0"));
  EXPECT_THAT(hub_at("0.0.0.0", "h0"), IsSupersetOf({"10.79.0.1", "127.0.0.1"}))
      << "who dials it here comes by loopback";
}

// A forwarded address, a service's: other hosts reach it, and this one does not have it.
TEST_F(RendezvousTwoHosts, AnotherHostsAddressWidensTheHubWithAWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(hub_at("192.0.2.1", "h0"), Contains("10.79.0.1"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("192.0.2.1 is not this host"), HasSubstr("COLL_INTERFACE")));
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(hub_at("no-such-host.invalid", "h0"), Contains("10.79.0.1"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no-such-host.invalid"));
}

// Debian writes 127.0.1.1 for the host's own name.
TEST_F(RendezvousTwoHosts, ANameThatIsLoopbackHereOnlyIsAHostsName) {
  const test::TemporaryFolder directory;
  const std::string file = directory.path() + "/hosts";
  std::ofstream(file) << "127.0.0.1 localhost\n127.0.1.1 node0.cluster node0\n";
  std::thread([&] {
    at(0);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0) {
      GTEST_SKIP() << "no right to mount: " << std::strerror(errno);
    }
    const auto hosts_of = [](const std::string& text, const std::string& interfaces) {
      const auto found = hub_addresses({text}, interfaces, "test", in(seconds(10)));
      EXPECT_TRUE(found.ok()) << found.status().text();
      Hosts hosts;
      for (const NetAddress& one : *found) hosts.insert(one.host());
      return hosts;
    };
    EXPECT_THAT(hosts_of("node0:29500", ""), IsEmpty()) << "everywhere";
    EXPECT_THAT(hosts_of("node0:29500", "h0"), IsSupersetOf({"10.79.0.1", "127.0.1.1"}));
    EXPECT_THAT(hosts_of("localhost:29500", ""), ElementsAre("127.0.0.1"));
  }).join();
}

TEST_F(RendezvousTwoHosts, UniqueIdsListenAtTheInterfacesAndLoopback) {
  at(0);
  for (const auto& [interfaces, heard] :
       {std::pair("lo", Hosts{"127.0.0.1"}), {"h0", {"127.0.0.1", "10.79.0.1"}}}) {
    const Result<Door> door = open_door(interfaces);
    ASSERT_TRUE(door.ok()) << door.status().text();
    Hosts here = heard_here();
    here.erase("::1");
    EXPECT_EQ(here, heard) << interfaces;
  }
}

// By whom a relay dials, its door is there: at the hub's host by loopback or any other address.
TEST_F(RendezvousTwoHosts, RelaysDoorsListenWhereRelaysDial) {
  const std::string at_port = ":" + std::to_string(port());
  const std::string loopback = "127.0.0.1" + at_port, own = "10.79.0.1" + at_port;
  const auto door_of_rank1 = [&](const std::string& dialled, int other_host) {
    Meetings meetings(3);
    std::vector<std::thread> ranks;
    for (Rank rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        at(rank == 2 ? other_host : 0);
        MeetingPlace place = place_at({rank == 1 ? dialled : own});
        if (rank == 0) place.addresses.push_back(loopback);
        place.interfaces = "h";
        meetings[static_cast<std::size_t>(rank)].emplace(meet(place, rank, 3, in(seconds(20))));
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_TRUE((*meetings[1])->links[0]);
    at(0);
    RelayDoor door(**meetings[1], 2, seconds(1));
    EXPECT_NE(door.open(), 0);
    return heard_here();
  };
  EXPECT_THAT(door_of_rank1(own, 0), ElementsAre("10.79.0.1"));
  EXPECT_THAT(door_of_rank1(loopback, 0), ElementsAre("127.0.0.1"));
  EXPECT_THAT(door_of_rank1(own, 1), ElementsAre("10.79.0.1"));
  EXPECT_THAT(door_of_rank1(loopback, 1), IsSupersetOf({"10.79.0.1", "127.0.0.1"}));
}

TEST_F(RendezvousTwoHosts, AStrangerReachesNothingOfAJobOnLoopback) {
  at(0);
  MeetingPlace place = tcp_place(port());
  std::vector<std::shared_ptr<Communicator>> members(2);
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      at(0);
      Joining joining;
      joining.place = place;
      joining.rank = rank;
      joining.size = 2;
      joining.transports = *transport_choices("tcp");
      auto made = Communicator::join(joining);
      ASSERT_TRUE(made.ok()) << made.status().text();
      members[static_cast<std::size_t>(rank)] = *std::move(made);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const Hosts heard = heard_here();
  EXPECT_THAT(heard, Contains("127.0.0.1")) << "their data ports";
  for (const std::string& host : heard) EXPECT_THAT(host, ::testing::AnyOf("127.0.0.1", "::1"));
}

TEST_F(RendezvousTwoHosts, RanksOfTwoHostsMeetAtOneAddressAndKnowIt) {
  const std::string where = "10.79.0.1:" + std::to_string(port());
  for (const bool both : {true, false}) {
    Meetings meetings(3);
    std::vector<std::thread> ranks;
    for (Rank rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        at(both && rank == 1 ? 1 : 0);
        meetings[static_cast<std::size_t>(rank)].emplace(
            meet(place_at({where}), rank, 3, in(seconds(20))));
      });
    }
    for (std::thread& rank : ranks) rank.join();
    expect_whole(meetings);
    for (const auto& one : meetings) EXPECT_EQ((*one)->one_network, !both);
  }
}

TEST_F(RendezvousTwoHosts, AHubBeyondLoopbackWithoutASecretWarnsOnce) {
  MeetingPlace open = tcp_place(port()), secret = open, loopback = open;
  open.addresses[0].replace(0, open.addresses[0].rfind(':'), "10.79.0.1");
  secret.addresses = open.addresses;
  secret.secret = true;
  // Once per process, so in one of its own.
  const auto said_at = [&](const std::vector<MeetingPlace>& places) {
    ::testing::internal::CaptureStderr();
    const pid_t child = ::fork();
    if (child == 0) {
      for (const MeetingPlace& place : places) (void)meet(place, 0, 2, in(milliseconds(1)));
      ::_exit(0);
    }
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said_at({loopback, secret}), Not(HasSubstr("secret")));
  const std::string said = said_at({open, open});
  EXPECT_THAT(said, HasSubstr("whoever reaches " + open.addresses[0] + " can pose as a rank"));
  EXPECT_THAT(said, HasSubstr("set COLL_SECRET"));
  EXPECT_EQ(said.find("can pose"), said.rfind("can pose")) << said;
}

}  // namespace
}  // namespace coll::testing
