// SPDX-License-Identifier: Apache-2.0
// The schedule: the lanes of one rank, and the operation that they carry out.
#pragma once
#include <string>
#include <vector>

#include "schedule/chunk_map.hpp"
#include "schedule/lane.hpp"

namespace coll {

/// The operation that a schedule carries out.
struct CollectiveSpec {
  Collective collective = Collective::barrier;
  Rank ranks = 1;
  Rank root = 0;  ///< used if has_root(collective); in send and recv: the rank of the peer
  /// Blocks may have different lengths: all_gatherv, reduce_scatterv, all_to_allv, gatherv,
  /// scatterv.
  bool unequal = false;
  /// The order in which a reduction must combine the ranks' inputs.
  SumOrder order = SumOrder::any;
  friend bool operator==(const CollectiveSpec&, const CollectiveSpec&) = default;
};

/// One rank's part in a collective, as a value. The schedules of all ranks for one (algorithm,
/// spec) belong together.
///
/// A schedule runs in *passes*. Each pass moves a window of the buffers, cut into the chunks of
/// `chunks`, through all steps; every step is at most one message per direction. A lane continues
/// with its next pass as soon as its own steps are done and credits allow; only the model starts
/// all lanes of a pass together. Passes touch different elements, so they reuse only scratch, which
/// is private to a lane.
struct Schedule {
  std::string algorithm;
  CollectiveSpec spec;
  Rank rank = 0;
  ChunkMap chunks;
  std::uint32_t scratch_chunks = 0;  ///< scratch memory, in units of the longest chunk
  std::vector<Lane> lanes;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace coll
