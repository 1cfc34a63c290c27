// SPDX-License-Identifier: Apache-2.0
// The lanes of one rank, and what they are for.
#pragma once
#include <string>
#include <vector>

#include "schedule/chunk_map.hpp"
#include "schedule/lane.hpp"

namespace coll {

/// What a schedule is for.
struct CollectiveSpec {
  Collective collective = Collective::barrier;
  Rank ranks = 1;
  Rank root =
      0;  ///< where has_root(collective); send and recv: the peer is the other rank of a pair
  friend bool operator==(const CollectiveSpec&, const CollectiveSpec&) = default;
};

/// One rank's part in a collective, as a value. All ranks' schedules of one (algorithm, spec)
/// belong together.
///
/// It runs in *passes*: each moves a window of the buffers, cut into the chunks of `chunks`,
/// through all steps; every step is one message per direction. All lanes start a pass together only
/// in the model: a lane goes on to its next pass as soon as its own steps are done and credits
/// allow. Passes touch different elements, so only scratch is reused (and stays private to a lane).
struct Schedule {
  std::string algorithm;
  CollectiveSpec spec;
  Rank rank = 0;
  ChunkMap chunks;
  std::uint32_t scratch_chunks = 0;  ///< in units of the longest chunk
  std::vector<Lane> lanes;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace coll
