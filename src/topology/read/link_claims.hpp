// SPDX-License-Identifier: Apache-2.0
// What a source claims of links between GPUs, and which of it is believed.
#pragma once
#include <map>

#include "topology/topology.hpp"

namespace coll {

/// Claims of one source, gathered in any order, then settled once. A claim is one direction of a
/// pair, as one of its ends tells it; parallel claims add up.
class LinkClaims {
 public:
  struct Claim {
    int count = 0;
    double gbytes_per_s = 0;  ///< of each link
    LinkKind kind = LinkKind::nvlink;
  };
  void claim(NodeId from, NodeId to, LinkKind kind, int count, double gbytes_per_s);
  [[nodiscard]] bool empty() const { return claims_.empty(); }

  /// Adds to the topology the links that can be; warns of the others:
  /// - a link of a GPU to itself is none,
  /// - where one end is silent the other one is believed,
  /// - where both differ the smaller one is.
  void settle(Topology& topology) const;

  /// Two GPUs in one package are joined by more links than GPUs of different packages. If all pairs
  /// claim the same though some share a package (equal `package` texts), it is a default and no
  /// measurement: says so in a warning, forgets the claims, returns true.
  bool drop_if_uniform_across_packages(Topology& topology,
                                       const std::map<NodeId, std::string>& packages);

 private:
  std::map<std::pair<NodeId, NodeId>, Claim> claims_;
};

}  // namespace coll
