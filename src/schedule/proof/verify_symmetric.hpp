// SPDX-License-Identifier: Apache-2.0
// Proves schedules of too many ranks to run them all, if all ranks do the same.
//
// A *motion* moves every rank to another rank, and the chunks that belong to ranks along with them.
// It shifts the numbers modulo n, or applies an exclusive or with one number (motion.hpp). The
// proof has three parts.
//
// 1. Every rank's schedule is the schedule of a rank of the first group, moved. The verifier checks
//    this for every rank. It compares repeats of lanes, so the time hardly depends on how many
//    steps they execute. From here on "a rank's step" is a step of the first group and a motion.
//
// 2. The run of one group is the run of all. Lanes are processes of a Kahn network, so all fair
//    runs end alike (symbolic_run.hpp). Choose the run in which all groups take each step together.
//    It exists: moved states are the same states, so if a rank of the first group can take a step,
//    all its images can. None of them takes away what another waits for, because a FIFO has one
//    reader and one writer, and each of them steps once. In that run, at any time, the FIFO from a
//    rank to a rank d groups behind holds what the FIFO to the first group from d groups before
//    holds, moved. So it is enough to keep the FIFOs that the first group writes: its ranks write
//    to them, and read from them what the group d before sends. If nothing moves there any more,
//    nothing moves anywhere. That decides the matching of messages, credits and deadlocks.
//
// 3. The content of a chunk is the set of ranks whose contributions are in it, and the chunk of
//    their inputs. A motion turns it into another set and chunk. The promise of an operation is the
//    same before and after every motion, so if the first group's outputs keep it, all do. A set is
//    stored exactly, as ranges; nothing is hashed or sampled.
//
// Not every regular algorithm has such a symmetry. It is missing where messages are cut because
// ranks wrap around to 0 (bruck, circulant), in sums in rank order (one_shot all_reduce), and in
// trees. For trees the run of all ranks is short enough (verify.hpp).
#pragma once
#include <functional>

#include "schedule/proof/motion.hpp"
#include "schedule/proof/verify.hpp"

namespace coll {

/// verify() for schedules with this symmetry. build(r) returns the schedule of rank r among
/// build(0).spec.ranks ranks, and is called for every rank. Operations with a root have no
/// symmetry. The returned numbers are those of all ranks. The proof does not compare the ranks'
/// bits: same_order_everywhere is false for reductions that several ranks hold.
Result<Verified> verify_symmetric(const std::function<Schedule(Rank rank)>& build,
                                  const Symmetry& symmetry, std::uint32_t credits = 1);

}  // namespace coll
