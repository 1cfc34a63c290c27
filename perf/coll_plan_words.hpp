// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: the words of coll-plan.
#pragma once
#include <fmt/format.h>

#include <string>

#include "planner/algorithm_choice.hpp"

namespace perf {

inline int fail(const coll::Status& status) {
  fmt::print(stderr, "coll-plan: {}\n", status.text());
  return 1;
}

/// Of those that all ranks call.
inline coll::Result<coll::Collective> collective_of(const std::string& name) {
  using namespace coll;
  std::string known;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool pair = collective == Collective::send || collective == Collective::recv;
    if (pair) continue;
    if (name_of(collective) == name) return collective;
    known.append(" ").append(name_of(collective));
  }
  return failed(Code::invalid_argument, "there is no operation \"" + name + "\" to plan",
                "the known ones are:" + known);
}

/// What one link carries, whatever the number of ranks: as nccl-tests' PERFORMANCE.md.
inline double busbw(coll::Collective collective, double ranks, double bytes, double us) {
  using coll::Collective;
  const double algbw = us > 0 ? bytes / us / 1e3 : 0;
  switch (collective) {
    case Collective::all_reduce:
      return algbw * 2 * (ranks - 1) / ranks;
    case Collective::broadcast:
    case Collective::reduce:
      return algbw;
    default:
      return algbw * (ranks - 1) / ranks;
  }
}

inline std::string text_of_bytes(std::uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

}  // namespace perf
