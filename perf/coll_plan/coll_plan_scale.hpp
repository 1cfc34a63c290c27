// SPDX-License-Identifier: Apache-2.0
// Times of a call over the number of ranks.
#pragma once
#include <string>
#include <vector>

#include "base/types.hpp"

namespace perf {

/// What `coll-plan scale` was asked for.
struct ScaleOptions {
  std::string topology;
  std::string operation = "all_reduce";
  std::vector<std::uint64_t> bytes{1 << 10, 1 << 20, 64 << 20, 1 << 30};
  std::vector<std::string> algorithms;  ///< empty: those that are ahead somewhere
  coll::Rank most_ranks = 65536;
  std::string picture;  ///< prefix: PREFIX-1MiB.svg …
  bool json = false;
};

/// The exit code.
int plan_scale(const ScaleOptions& options);

}  // namespace perf
