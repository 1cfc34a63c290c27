// SPDX-License-Identifier: Apache-2.0
// What holds between each two of a group.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// One number for each ordered pair of members, 0 … members - 1.
class PairTable {
 public:
  explicit PairTable(int members)
      : members_(members),
        values_(static_cast<std::size_t>(members) * static_cast<std::size_t>(members)) {}

  [[nodiscard]] int members() const { return members_; }
  int& at(int from, int to) { return values_[index(from, to)]; }
  [[nodiscard]] int at(int from, int to) const { return values_[index(from, to)]; }

 private:
  [[nodiscard]] std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(members_) +
           static_cast<std::size_t>(to);
  }

  int members_;
  std::vector<int> values_;
};

/// How far each two are from each other, a Distance as a number: the classes that best_ring takes.
PairTable distance_table(const Topology& topology, std::span<const NodeId> gpus);

/// How many links go from one to the other directly; what goes through a fabric of switches shares
/// its ports and is not in it.
PairTable link_table(const Topology& topology, std::span<const NodeId> gpus);

}  // namespace coll
