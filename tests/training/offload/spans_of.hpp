// SPDX-License-Identifier: Apache-2.0
// Picks from what an optimizer noted of its work.
#pragma once
#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "offload/work_log.hpp"

namespace training::test {

/// Spans of one kind of work, in the order in which they began.
inline std::vector<WorkLog::Span> spans_of(const std::vector<WorkLog::Span>& spans,
                                           WorkLog::Kind kind) {
  std::vector<WorkLog::Span> found;
  std::ranges::copy_if(spans, std::back_inserter(found),
                       [kind](const WorkLog::Span& span) { return span.kind == kind; });
  std::ranges::stable_sort(found, {}, &WorkLog::Span::begin);
  return found;
}

inline std::size_t bytes_of(const std::vector<WorkLog::Span>& spans) {
  return std::accumulate(
      spans.begin(), spans.end(), std::size_t{0},
      [](std::size_t sum, const WorkLog::Span& span) { return sum + span.bytes; });
}

}  // namespace training::test
