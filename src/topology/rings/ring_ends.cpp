// SPDX-License-Identifier: Apache-2.0
// NICs matched with GPUs, augmenting paths (Kuhn 1955, "The Hungarian method for the assignment
// problem") through nearer classes first.
#include "topology/rings/ring_ends.hpp"

#include <algorithm>

namespace coll {
namespace {

constexpr int kNone = -1;

/// Each NIC gets a GPU within its reach; a GPU serves as few NICs as can be.
class Matching {
 public:
  Matching(const std::vector<std::vector<int>>& distances, int gpus)
      : distances_(distances),
        gpu_of_(distances.size(), kNone),
        nics_of_(static_cast<std::size_t>(gpus)) {}

  /// `banned[nic]` is no GPU for it.
  std::vector<int> find(const std::vector<int>& banned) {
    banned_ = banned;
    // Near to far within the NUMA node, shared by ever more; only then to other nodes.
    for (const auto& [from, to] :
         {std::pair(Distance::self, Distance::node), std::pair(Distance::sys, Distance::unknown)}) {
      reachable_ = static_cast<int>(to);
      for (share_ = 1; share_ <= distances_.size() && can_more(); ++share_)
        for (reach_ = static_cast<int>(from); reach_ <= static_cast<int>(to); ++reach_) augment();
    }
    return gpu_of_;
  }

 private:
  [[nodiscard]] bool reaches(std::size_t nic, std::size_t gpu, int reach) const {
    return distances_[nic][gpu] <= reach && banned_[nic] != static_cast<int>(gpu);
  }
  /// Whether a NIC without a GPU could have one at all by now.
  [[nodiscard]] bool can_more() const {
    for (std::size_t nic = 0; nic < gpu_of_.size(); ++nic)
      for (std::size_t gpu = 0; gpu < nics_of_.size(); ++gpu)
        if (gpu_of_[nic] == kNone && reaches(nic, gpu, reachable_)) return true;
    return false;
  }
  void augment() {
    for (std::size_t nic = 0; nic < gpu_of_.size(); ++nic) {
      if (gpu_of_[nic] != kNone) continue;
      seen_.assign(nics_of_.size(), false);
      place(nic);
    }
  }
  bool place(std::size_t nic) {
    const auto take = [&](std::size_t gpu) {
      gpu_of_[nic] = static_cast<int>(gpu);
      nics_of_[gpu].push_back(nic);
      return true;
    };
    for (int reach = 0; reach <= reach_; ++reach)  // a free one first, the nearest of these
      for (std::size_t gpu = 0; gpu < nics_of_.size(); ++gpu)
        if (distances_[nic][gpu] == reach && reaches(nic, gpu, reach_) &&
            nics_of_[gpu].size() < share_)
          return take(gpu);
    for (std::size_t gpu = 0; gpu < nics_of_.size(); ++gpu) {
      if (seen_[gpu] || !reaches(nic, gpu, reach_)) continue;
      seen_[gpu] = true;
      for (std::size_t at = 0; at < nics_of_[gpu].size(); ++at) {
        const std::size_t other = nics_of_[gpu][at];
        if (!place(other)) continue;
        nics_of_[gpu].erase(std::find(nics_of_[gpu].begin(), nics_of_[gpu].end(), other));
        return take(gpu);
      }
    }
    return false;
  }

  const std::vector<std::vector<int>>& distances_;
  std::vector<int> gpu_of_, banned_;
  std::vector<std::vector<std::size_t>> nics_of_;
  std::vector<bool> seen_;
  std::size_t share_ = 1;
  int reach_ = 0, reachable_ = 0;
};

/// For each ring the NIC that it leaves by.
std::vector<int> leaving_nics(const std::vector<std::vector<int>>& distances,
                              const std::vector<int>& last) {
  constexpr int kWithinNode = static_cast<int>(Distance::node);
  const std::size_t nics = distances.size();
  std::vector<int> out(nics, kNone), leaving(nics, 0);
  const auto leave_by = [&](std::size_t ring, std::size_t nic) {
    out[ring] = static_cast<int>(nic);
    ++leaving[nic];
  };
  const auto far = [&](std::size_t nic, std::size_t ring) {
    return distances[nic][static_cast<std::size_t>(last[ring])];
  };
  for (std::size_t ring = 0; ring < nics; ++ring)
    if (far(ring, ring) <= kWithinNode) leave_by(ring, ring);
  for (std::size_t ring = 0; ring < nics; ++ring) {
    if (out[ring] != kNone) continue;
    std::size_t best = ring;
    for (std::size_t nic = 0; nic < nics; ++nic)
      if (std::pair(far(nic, ring), leaving[nic]) < std::pair(far(best, ring), leaving[best]))
        best = nic;
    leave_by(ring, far(best, ring) < far(ring, ring) ? best : ring);
  }
  return out;
}

}  // namespace

std::vector<RingEnds> ring_ends(const std::vector<std::vector<int>>& distances, int gpus) {
  const std::vector<int> nobody(distances.size(), kNone);
  const std::vector<int> first = Matching(distances, gpus).find(nobody);
  const std::vector<int> last = gpus > 1 ? Matching(distances, gpus).find(first) : first;
  const std::vector<int> out = leaving_nics(distances, last);
  std::vector<RingEnds> ends;
  for (std::size_t nic = 0; nic < first.size(); ++nic)
    ends.push_back({first[nic], last[nic], out[nic]});
  return ends;
}

}  // namespace coll
