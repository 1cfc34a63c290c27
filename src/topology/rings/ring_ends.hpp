// SPDX-License-Identifier: Apache-2.0
// Which GPUs rings over several NICs enter and leave a host by.
#pragma once
#include <vector>

#include "topology/pair_table.hpp"

namespace coll {

/// Where one ring enters and leaves: GPUs as places in the group, the NIC as a row of `distances`.
struct RingEnds {
  int first = 0;
  int last = 0;
  int out = 0;  ///< the NIC that it leaves by
  friend bool operator==(const RingEnds&, const RingEnds&) = default;
};

/// For each NIC a first and a last GPU, such that as few rings as possible share one: none, where
/// there are no more NICs than GPUs. Near ones before far ones; but a ring rather shares a GPU than
/// goes to another NUMA node for one of its own. `distances`: a row for each NIC, a Distance for
/// each GPU. The first GPU is never the last one, if there are two. So where a NUMA node has one
/// GPU, the last one is on another. A ring leaves by the NIC it enters by, unless that is on
/// another NUMA node than its last GPU and there are NICs nearer to that: then by the one of the
/// nearest that the fewest rings leave by.
std::vector<RingEnds> ring_ends(const std::vector<std::vector<int>>& distances, int gpus);

}  // namespace coll
