// SPDX-License-Identifier: Apache-2.0
// Ways that ranks publish: those between a host's GPUs in a seating, and the way to a rank of a
// duplicate.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "communicator/membership/duplicate_membership.hpp"
#include "communicator/membership/seating.hpp"
#include "rendezvous/control_message.hpp"
#include "topology/read/read_topology.hpp"

namespace coll {
namespace {

DeviceWays some_ways() {
  return {.gpu = {0, 1, 0},
          .gpus = {"GPU0", "GPU3"},
          .links = {{"GPU0 to GPU3", 80}, {"GPU3 to GPU0", 80}, {"PCI, up", 24}, {"PCI, down", 24}},
          .between = {{}, {0}, {1}, {}},
          .up = {{2}, {2}},
          .down = {{3}, {3}}};
}

TEST(PublishedWays, ReadBackAsTheyWereWritten) {
  Seating seating{{{}, {}, {}}, {}, some_ways()};
  seating.ways.gpu[1] = -1;
  MessageWriter out;
  seating.write(out);
  MessageReader in(out.bytes());
  EXPECT_EQ(Seating::read(in), seating);
  EXPECT_TRUE(in.whole());
  EXPECT_TRUE(seating.fits(3));
  seating.ways.gpu.pop_back();
  EXPECT_FALSE(seating.fits(3));
  EXPECT_FALSE((Seating{{}, {}, some_ways()}.fits(3))) << "nobody looked";
}

/// Whatever byte is another, or where it ends: it is refused, or makes sense.
TEST(PublishedWays, AreRefusedWhereTheyMakeNoSense) {
  Seating seating{{{}, {}, {}}, {}, some_ways()};
  MessageWriter out;
  seating.write(out);
  const std::string& good = out.bytes();
  for (std::size_t length = 0; length < good.size(); ++length) {
    MessageReader in(std::string_view(good).substr(0, length));
    EXPECT_FALSE(Seating::read(in)) << length;
  }
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const unsigned change : {1U, 0x80U, 0xffU}) {
      std::string bad = good;
      bad[at] = static_cast<char>(static_cast<unsigned char>(bad[at]) ^ change);
      MessageReader in(bad);
      const auto read = Seating::read(in);
      refused += read ? 0 : 1;
      EXPECT_TRUE(!read || read->ways.sensible()) << at;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(PublishedWays, AreThoseOfEachHost) {
  // Ranks 0, 2, 4 on one host, 1, 3 on another whose first rank saw others.
  std::vector<Reach> reaches;
  for (const Rank host : {0, 1, 0, 1, 0}) reaches.push_back({.host = host, .used = 0, .kinds = {}});
  std::vector<Seating> seatings(5);
  seatings[0] = seatings[1] = {{{}, {}, {}}, {}, some_ways()};
  EXPECT_EQ(ways_by_host(firsts_of_hosts(reaches), seatings),
            (std::vector{some_ways(), DeviceWays{}}));
}

/// Every rank receives them, of each host that is not like the one before.
TEST(PublishedWays, AreShort) {
  const auto topology =
      read_topology_file("package:2 gpu:8 nvlink:switchx18@25GB nic:8@400G pcie:5x16 pciswitch:4");
  ASSERT_TRUE(topology.ok()) << topology.status().text();
  const std::vector<NodeId> gpus = topology->all(NodeKind::gpu);
  std::vector<NodeId> of_rank;
  for (std::size_t rank = 0; rank < 256; ++rank) of_rank.push_back(gpus[rank % 8]);
  Seating seating;
  seating.ways = device_ways(*topology, of_rank, default_cost_model()->constants.link);
  MessageWriter out;
  seating.write(out);
  EXPECT_LT(out.bytes().size(), 2500U);
}

TEST(PublishedWays, ToNoRankAreRefused) {
  const auto way = [](const char* transport, const char* descriptor) {
    return MessageWriter().text(transport).text(descriptor).bytes();
  };
  const std::string tcp = way("tcp", "there"), both = tcp + way("shm", "door");
  const auto finished = [](std::string_view peers) {
    Membership membership;
    membership.paths.resize(2);
    membership.paths[1].name = "shm";
    const Status status = finish_duplicate({"", peers}, 0, membership);
    if (status.ok()) {
      EXPECT_EQ(membership.paths[1].descriptor, "door");
    } else {
      EXPECT_EQ(status.rank(), 1);
    }
    return status.code();
  };
  EXPECT_EQ(finished(both), Code::ok);
  EXPECT_EQ(finished(""), Code::mismatch);
  EXPECT_EQ(finished(tcp), Code::mismatch) << "by another transport";
  EXPECT_EQ(finished(way("shm", "")), Code::mismatch);
  for (std::size_t bytes = 0; bytes < both.size(); ++bytes)
    EXPECT_EQ(finished(std::string_view(both).substr(0, bytes)), Code::mismatch) << bytes;
}

}  // namespace
}  // namespace coll
