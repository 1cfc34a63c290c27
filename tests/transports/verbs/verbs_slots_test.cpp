// SPDX-License-Identifier: Apache-2.0
// Messages found in slots before their completions, whatever the order in which a device writes.
#include "transports/verbs/verbs_slots.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "test_seed.hpp"

namespace coll::test {
namespace {

constexpr std::uint32_t kCredits = 2;
constexpr std::uint64_t kSecret = 0x123456789abcdef;

/// A message as it goes out, and the words of the slot that it arrives in.
struct Piece {
  Piece(const VerbsSlots& slots, std::uint64_t message, std::uint32_t bytes, char fill) {
    std::memset(slots.payload_out(message), fill, bytes);
    slots.set_header_out(message, {bytes, static_cast<std::uint32_t>(message), message + 77});
    const VerbsSlots::Whole whole = slots.finish(message, kSecret + message, 0, false);
    out = {reinterpret_cast<std::uint64_t*>(whole.piece.addr), whole.piece.length / 8};
    in = {reinterpret_cast<std::uint64_t*>(slots.address_in() + whole.offset), out.size()};
  }
  std::span<std::uint64_t> out, in;
};

TEST(VerbsSlots, AMessageIsFoundWhenItsLastWordIsThereWhicheverItIs) {
  std::mt19937_64 random(test_seed());
  for (const std::uint32_t bytes : {0U, 1U, 8U, 13U, 64U, 192U}) {
    for (int turn = 0; turn < 50; ++turn) {
      VerbsSlots slots;
      ASSERT_TRUE(slots.allocate(kCredits, 4096).ok());
      // An older one of the same length lies in the slot, and stale bytes where this one goes out.
      const Piece old(slots, 1, bytes, 'a');
      std::ranges::copy(old.out, old.in.begin());
      ASSERT_TRUE(slots.has_stamp(1, bytes, kSecret + 1));
      const std::uint64_t now = 1 + kCredits;
      const Piece piece(slots, now, bytes, 'b');
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < piece.out.size(); ++i)
        if (piece.out[i] != piece.in[i]) order.push_back(i);
      ASSERT_GE(order.size(), 2U);
      std::ranges::shuffle(order, random);
      for (const std::size_t at : order) {
        ASSERT_FALSE(slots.has_stamp(now, bytes, kSecret + now)) << bytes << " bytes";
        piece.in[at] = piece.out[at];
      }
      ASSERT_TRUE(slots.has_stamp(now, bytes, kSecret + now)) << bytes << " bytes";
      EXPECT_EQ(slots.header_in(now).digest, now + 77);
    }
  }
}

TEST(VerbsSlots, ALongMessageWaitsForItsCompletion) {
  VerbsSlots slots;
  ASSERT_TRUE(slots.allocate(kCredits, 4096).ok());
  const Piece piece(slots, 0, VerbsSlots::kStampedBytes + 1, 'a');
  std::ranges::copy(piece.out, piece.in.begin());
  EXPECT_FALSE(slots.has_stamp(0, VerbsSlots::kStampedBytes + 1, kSecret));
}

}  // namespace
}  // namespace coll::test
