// SPDX-License-Identifier: Apache-2.0
// The proof for so many ranks that all of them together cannot be run, where they all do the same.
//
// A *motion* takes every rank to another one, and with the ranks the chunks that are theirs: by a
// shift of the numbers modulo n, or by an exclusive or with one number (motion.hpp). The proof has
// three parts.
//
// 1. Every rank's schedule is that of a rank of the first group, moved. This is looked at for every
//    rank, repeat by repeat of its lanes, so in a time that hardly depends on how many steps they
//    execute. From here on "a rank's step" is a step of the first group and a motion.
//
// 2. One group's run is the run of all. Lanes are processes of a Kahn network, so all fair runs
//    come to the same end (symbolic_run.hpp); choose the run in which all groups take each step
//    together. It exists: moved states are the same states, so if a rank of the first group can
//    take a step, all its images can, and none of these takes from another what it waits for, as a
//    FIFO has one reader and one writer and each of them steps once. In that run the FIFO from a
//    rank to one d groups behind holds, at any time, what the FIFO to the first group from d groups
//    before holds, moved. So it is enough to keep the former for the first group: its ranks write
//    to it, and read from it what the group d before sends them. If nothing moves there any more,
//    nothing moves anywhere: matching of messages, credits and deadlocks are decided.
//
// 3. What a chunk holds is the set of ranks whose contributions are in it, and which chunk of their
//    inputs that is. A motion takes it to another set and chunk. What an operation promises is the
//    same before and after every motion, so if the first group's outputs hold it, all do. A set is
//    kept as its ranges, exactly; no hash and no sample is involved.
//
// Not every regular algorithm has such a symmetry: messages that are cut where ranks wrap around to
// 0 (bruck, circulant), sums in the order of ranks (one_shot all_reduce) and trees have none. For
// trees the run of all ranks is short enough (verify.hpp).
#pragma once
#include <functional>

#include "schedule/proof/motion.hpp"
#include "schedule/proof/verify.hpp"

namespace coll {

/// verify() for schedules with this symmetry: build(r) is that of rank r among build(0).spec.ranks,
/// and is called for every rank. Operations with a root have none. The numbers are those of all
/// ranks; whether they hold the same bits is not looked at (same_order_everywhere is false for
/// reductions that several ranks hold).
Result<Verified> verify_symmetric(const std::function<Schedule(Rank rank)>& build,
                                  const Symmetry& symmetry, std::uint32_t credits = 1);

}  // namespace coll
