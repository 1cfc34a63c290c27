// SPDX-License-Identifier: Apache-2.0
// The shapes of the buffers, as NCCL has them.
#include "schedule/chunk_map.hpp"

#include <gtest/gtest.h>

namespace coll {
namespace {

struct Row {
  Collective collective;
  BlockShape at_root, elsewhere;
  InPlace root_in_place, elsewhere_in_place;
};

/// 5 ranks, root 3; "elsewhere" is rank 2.
const Row kRows[] = {
    {Collective::all_reduce, {1, 1}, {1, 1}, {true, true, 0}, {true, true, 0}},
    {Collective::reduce, {1, 1}, {1, 0}, {true, true, 0}, {}},
    {Collective::broadcast, {1, 1}, {0, 1}, {true, true, 0}, {}},
    {Collective::all_gather, {1, 5}, {1, 5}, {true, true, 3}, {true, true, 2}},
    {Collective::reduce_scatter, {5, 1}, {5, 1}, {true, false, 3}, {true, false, 2}},
    {Collective::all_to_all, {5, 5}, {5, 5}, {}, {}},
    {Collective::gather, {1, 5}, {1, 0}, {true, true, 3}, {}},
    {Collective::scatter, {5, 1}, {0, 1}, {true, false, 3}, {}},
    {Collective::send, {1, 0}, {1, 0}, {}, {}},
    {Collective::recv, {0, 1}, {0, 1}, {}, {}},
    {Collective::barrier, {0, 0}, {0, 0}, {}, {}},
};

void expect_row(const Row& row, Rank rank, const BlockShape& shape, const InPlace& place) {
  const BlockShape blocks = block_shape(row.collective, 5, 3, rank);
  EXPECT_EQ(blocks.input, shape.input) << name_of(row.collective);
  EXPECT_EQ(blocks.output, shape.output) << name_of(row.collective);
  const InPlace found = in_place(row.collective, 5, 3, rank);
  ASSERT_EQ(found.allowed, place.allowed) << name_of(row.collective);
  if (!found.allowed) return;
  EXPECT_EQ(found.input_inside_output, place.input_inside_output) << name_of(row.collective);
  EXPECT_EQ(found.offset_blocks, place.offset_blocks) << name_of(row.collective);
}

TEST(ChunkMap, KnowsTheBuffersOfEveryOperation) {
  static_assert(std::size(kRows) == kCollectives);
  for (const Row& row : kRows) {
    expect_row(row, 3, row.at_root, row.root_in_place);
    expect_row(row, 2, row.elsewhere, row.elsewhere_in_place);
  }
}

TEST(ChunkMap, OneRankIsInPlaceAtTheSamePointer) {
  for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter,
                                      Collective::gather, Collective::scatter}) {
    const InPlace place = in_place(collective, 1, 0, 0);
    EXPECT_TRUE(place.allowed);
    EXPECT_EQ(place.offset_blocks, 0U);
  }
}

TEST(ChunkMap, PartsCoverAWindowInOrderOnGrains) {
  for (const std::uint64_t elements : {0U, 1U, 15U, 16U, 17U, 100U, 1000U}) {
    for (const std::uint32_t parts : {1U, 2U, 3U, 7U}) {
      std::uint64_t next = 0;
      for (std::uint32_t part = 0; part < parts; ++part) {
        const PartRange range = part_range(elements, parts, part, 16);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.begin, range.end);
        EXPECT_TRUE(range.end % 16 == 0 || range.end == elements);
        next = range.end;
      }
      EXPECT_EQ(next, elements);
    }
  }
}

}  // namespace
}  // namespace coll
