// SPDX-License-Identifier: Apache-2.0
// How many bytes of a GPU's memory an operation must at least read and write.
#pragma once
#include <cstdint>
#include <vector>

#include "coll_perf/coll_perf_operation.hpp"

namespace perf {

/// What decides the traffic of a call.
struct GpuCall {
  Operation operation = Operation::all_reduce;
  int root = 0;
  std::uint64_t block = 0;  ///< bytes of the call's `count`
  bool in_place = false;
};

/// Bytes that the ranks of one GPU must read and write at least, however they work: each element of
/// an input that somebody needs is read once, each element of an output that is not there yet is
/// written once. As STREAM counts, a copy of b bytes is 2 b. What comes from another GPU is written
/// here and read there.
///
/// With n ranks, k of them on the GPU, B = `block`, and r = 1 if the root is one of the k, else 0:
///
/// | operation                    | read      | written   | in place, read and written         |
/// |------------------------------|-----------|-----------|------------------------------------|
/// | all_reduce                   | k B       | k B       | k B, k B                           |
/// | reduce                       | k B       | r B       | k B, r B                           |
/// | broadcast                    | r B       | k B       | r B, (k - r) B                     |
/// | all_gather                   | k B       | k n B     | k B, k (n - 1) B                   |
/// | reduce_scatter               | k n B     | k B       | k n B, k B                         |
/// | all_to_all                   | k n B     | k n B     | (has none)                         |
/// | gather                       | k B       | r n B     | (k - r) B, r (n - 1) B             |
/// | scatter                      | r n B     | k B       | r (n - 1) B, (k - r) B             |
/// | sendrecv_ring                | k B       | k B       | (has none)                         |
/// | sendrecv, sendrecv_tagged    | p B / 2   | p B / 2   | (has none); p of the k are paired. |
/// | barrier                      | 0         | 0         | (has none)                         |
///
/// Half, because the time of sendrecv is half a round trip. The unequal forms count as the equal
/// ones. In place, one rank alone has all it needs: 0. Sources: what each rank gives and gets is
/// MPI's definition of the operations (MPI 4.1, chapters 3 and 6); counting bytes read plus bytes
/// written is that of STREAM's copy (McCalpin, "Memory bandwidth and machine balance", 1995).
/// Algorithms that keep partial results in memory move more.
///
/// `gpu_of_rank` names a GPU by a number from 0 for each rank. The result is by GPU.
std::vector<std::uint64_t> gpu_traffic(const GpuCall& call, const std::vector<int>& gpu_of_rank);

/// What a call had to move, and how near its time comes to the limit.
struct GpuUse {
  std::uint64_t bytes = 0;  ///< of the GPU that needs longest for them
  double fraction = 0;      ///< the time of a copy that moves them / the call's time; 0: no bytes
};

/// `moved_per_s`: what each GPU's copies move (GpuCopyLimit).
GpuUse gpu_use(const GpuCall& call, const std::vector<int>& gpu_of_rank,
               const std::vector<double>& moved_per_s, double time_s);

}  // namespace perf
