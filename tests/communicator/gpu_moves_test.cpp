// SPDX-License-Identifier: Apache-2.0
// Which calls GPUs move, by what all ranks' cards say of theirs.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "communicator/membership/membership_steps.hpp"
#include "transports/shm/shm_connection.hpp"

namespace coll::testing {
namespace {

/// What rank 0 of two that share memory makes of these.
Membership membership_of(GpuMoves zero, GpuMoves one) {
  auto shm = make_shm_transport({.rank = 0, .size = 2, .interface = {}});
  EXPECT_TRUE(shm.ok()) << shm.status().text();
  std::vector<Card> cards(2);
  cards[0].gpu_moves = zero;
  cards[1].gpu_moves = one;
  const Transport::Limits limits = (*shm)->limits();
  for (Card& card : cards)
    card.offers.push_back({"shm", (*shm)->descriptor(), limits.slot_bytes, limits.slice_bytes});
  Membership made;
  made.paths.resize(2);
  made.paths[1] = {shm->get(), (*shm)->descriptor(), "shm"};
  made.transports.push_back(*std::move(shm));
  Reach reach;
  reach.host = 0;
  reach.used = 1;
  reach.kinds.add(made.paths[1].capabilities());
  const Status finished = finish_membership(
      cards, {reach, reach}, {std::vector<Seating>(2), std::vector<Seating>(2)}, 0, made);
  EXPECT_TRUE(finished.ok()) << finished.text();
  return made;
}

/// Plans are the same on all ranks, so the rank whose GPU moves the least counts.
TEST(GpuMoves, AreWhatTheGpusOfAllRanksCanDo) {
  for (const GpuMoves zero : {GpuMoves::nothing, GpuMoves::copies, GpuMoves::everything}) {
    for (const GpuMoves one : {GpuMoves::nothing, GpuMoves::copies, GpuMoves::everything}) {
      const Membership made = membership_of(zero, one);
      EXPECT_EQ(made.gpu_world != nullptr, zero != GpuMoves::nothing && one != GpuMoves::nothing);
      EXPECT_EQ(made.gpu_reduces, zero == GpuMoves::everything && one == GpuMoves::everything);
    }
  }
}

TEST(GpuMoves, ReadBackFromACardAndAreRefusedIfUnknown) {
  for (const unsigned word : {0U, 1U, 2U, 3U, 255U}) {
    Card card;
    card.gpu_moves = static_cast<GpuMoves>(word);
    const Result<Card> back = read_card(write_card(card), 1);
    ASSERT_EQ(back.ok(), word <= 2) << word;
    if (back.ok()) {
      EXPECT_EQ(back->gpu_moves, card.gpu_moves);
    } else {
      EXPECT_EQ(back.status().code(), Code::mismatch);
    }
  }
}

TEST(GpuMoves, ShareAHostWhereTheirRanksAreOfOneDomain) {
  std::vector<Card> cards(6);
  for (const std::size_t r : {0UL, 2UL, 5UL}) cards[r].ipc_domain = "a";
  for (const std::size_t r : {1UL, 4UL}) cards[r].ipc_domain = "b";
  EXPECT_EQ(firsts_of_gpus(cards), (std::vector<Rank>{0, 1, 0, 3, 1, 0}));
  cards[0].ipc_domain = cards[2].ipc_domain = "";
  EXPECT_EQ(firsts_of_gpus(cards), (std::vector<Rank>{0, 1, 2, 3, 1, 5}));
}

}  // namespace
}  // namespace coll::testing
