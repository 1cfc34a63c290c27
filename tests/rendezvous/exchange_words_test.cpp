// SPDX-License-Identifier: Apache-2.0
// What ranks and relays say in an exchange, and the tree that it goes along.
#include "rendezvous/exchange/exchange_words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rendezvous/control_message.hpp"

namespace coll::testing {
namespace {

using ::testing::ElementsAre;

TEST(RelayTree, HasEachRankOnceAndNoneFarFromTheHub) {
  for (const Rank size : {2, 3, 17, 100, 513}) {
    for (const Rank fan_out : {1, 2, 16, size}) {
      for (const Rank hub : {Rank{0}, size / 2, size - 1}) {
        const RelayTree tree(hub, size, fan_out);
        std::set<Rank> seen{hub};
        for (Rank rank = 0; rank < size; ++rank) {
          const std::vector<Rank> children = tree.children(rank);
          EXPECT_LE(children.size(), static_cast<std::size_t>(fan_out));
          for (const Rank child : children) {
            EXPECT_EQ(tree.parent(child), rank);
            EXPECT_TRUE(seen.insert(child).second) << child;
          }
        }
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(size));
        Rank farthest = 0;
        for (Rank rank = 0; rank < size; ++rank) {
          Rank steps = 0;
          for (Rank at = rank; at != hub; at = tree.parent(at)) ++steps;
          farthest = std::max(farthest, steps);
        }
        Rank depth = 0;
        for (std::int64_t level = 1, reached = 1; reached < size; reached += level *= fan_out) {
          ++depth;
        }
        EXPECT_EQ(farthest, depth) << size << " by " << fan_out;
      }
    }
  }
}

TEST(RelayTree, HasItsFirstRelaysFarApart) {
  // Hosts of 64 ranks in a row: no two of the hub's children are on one.
  for (const Rank hosts : {32, 64, 256, 1024}) {
    const RelayTree tree(5, 64 * hosts, 16);
    std::set<Rank> seen{0};
    for (const Rank child : tree.children(5)) {
      EXPECT_TRUE(seen.insert(child / 64).second) << child << " on one of " << hosts << " hosts";
    }
  }
}

TEST(ExchangeWords, AreReadWithCare) {
  EXPECT_FALSE(read_text(""));
  EXPECT_FALSE(read_text("T123"));
  EXPECT_FALSE(read_text("T" + MessageWriter().u32(0x10000).bytes()));
  EXPECT_EQ(read_text(pack_text(80, ""))->port, 80);
  EXPECT_EQ(read_text(pack_text(0, std::string("a\0b", 3)))->text, std::string_view("a\0b", 3));
  const std::vector<std::string> texts = {"one", "two"}, doors = {":80", "10.0.0.1:80"};
  const std::string packet = pack_packet(texts, doors);
  EXPECT_EQ(read_texts(packet, 2), texts);
  EXPECT_EQ(read_doors(packet, 2), doors);
  EXPECT_FALSE(read_texts(packet, 3));
  EXPECT_FALSE(read_doors(packet, 1));
  EXPECT_FALSE(read_doors(pack_packet(texts, {}), 2));
  for (std::size_t length = 0; length < packet.size(); ++length) {
    EXPECT_FALSE(read_texts(packet.substr(0, length), 2)) << length;
  }
  EXPECT_THAT(*read_have(pack_have({1, 0}), 2), ElementsAre(1, 0));
  EXPECT_FALSE(is_go("GG"));
}

}  // namespace
}  // namespace coll::testing
