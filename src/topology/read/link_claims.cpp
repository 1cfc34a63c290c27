// SPDX-License-Identifier: Apache-2.0
// Which claims of links are believed.
#include "topology/read/link_claims.hpp"

#include <algorithm>

namespace coll {

void LinkClaims::claim(NodeId from, NodeId to, LinkKind kind, int count, double gbytes_per_s) {
  Claim& sum = claims_[{from, to}];
  sum.kind = kind;
  sum.count += count;
  sum.gbytes_per_s = std::max(sum.gbytes_per_s, gbytes_per_s);
}

void LinkClaims::settle(Topology& topology) const {
  std::vector<Link> links;
  for (const auto& [ends, claim] : claims_) {
    const auto [from, to] = ends;
    const std::string names = label(topology, from) + " and " + label(topology, to);
    if (from == to) {
      topology.warn(label(topology, from) + " claims " + std::to_string(claim.count) +
                    " links to itself: ignored");
      continue;
    }
    const auto reverse = claims_.find({to, from});
    const bool both = reverse != claims_.end();
    if (both && to < from) continue;
    Claim believed = claim;
    // A switch or a processor is told of by the GPU alone.
    const bool peers = topology[to].kind == topology[from].kind;
    if (!both && peers)
      topology.warn("links between " + names + " are told by " + label(topology, from) +
                    " only: taken as going both ways");
    if (both && reverse->second.count != claim.count) {
      believed.count = std::min(claim.count, reverse->second.count);
      topology.warn(names + " disagree on their links (" + std::to_string(claim.count) + " and " +
                    std::to_string(reverse->second.count) + "): " + std::to_string(believed.count) +
                    " assumed");
    }
    if (both) believed.gbytes_per_s = std::min(claim.gbytes_per_s, reverse->second.gbytes_per_s);
    links.push_back({believed.kind, from, to, believed.count, believed.gbytes_per_s});
  }
  topology.connect_all(links);
}

bool LinkClaims::drop_if_uniform_across_packages(Topology& topology,
                                                 const std::map<NodeId, std::string>& packages) {
  bool within = false, across = false, uniform = true;
  const Claim* first = nullptr;
  for (const auto& [ends, claim] : claims_) {
    if (ends.first == ends.second) continue;
    const auto a = packages.find(ends.first), b = packages.find(ends.second);
    if (a == packages.end() || b == packages.end()) return false;
    (a->second == b->second ? within : across) = true;
    if (first == nullptr) first = &claim;
    uniform = uniform && claim.count == first->count && claim.gbytes_per_s == first->gbytes_per_s;
  }
  if (!within || !across || !uniform) return false;
  topology.warn(
      "the table of GPU links says the same of all pairs, within a package and across packages: it "
      "is a default, not the fabric; the links are taken as unknown");
  claims_.clear();
  return true;
}

}  // namespace coll
