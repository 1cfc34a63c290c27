// SPDX-License-Identifier: Apache-2.0
// The proof that schedules also work for blocks of unequal lengths.
#pragma once
#include <span>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace coll {

/// A block of an operation on unequal blocks: what rank `from` gives for rank `to`. A collective
/// that gives a block to all ranks, or combines all ranks' blocks, leaves `from` or `to` out.
struct BlockName {
  Rank from = kNoRank;
  Rank to = kNoRank;
  friend bool operator==(const BlockName&, const BlockName&) = default;
};

/// The block that a rank has at index `block` of its input or output. Only for operations that have
/// a block for each rank: all_gather, reduce_scatter, all_to_all, gather, scatter.
BlockName block_name(const CollectiveSpec& spec, Rank rank, Space space, std::uint32_t block);

/// Proves that every step knows the lengths of its chunks from the blocks of the user's buffers
/// that it names, and that both ends of every message name the same blocks. Scratch of a
/// reduce_scatter stands for the rank's own block. Then a set of schedules
/// that is right for equal blocks (verify.hpp) is right for blocks of any lengths: a chunk's length
/// is the only thing that changes.
///
/// Ends may also leave out messages that are empty for both. What is left is a part of the proved
/// run, in its order: it waits for nothing that the whole did not wait for.
Status verify_block_lengths(std::span<const Schedule> schedules);

}  // namespace coll
