// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: the ranks' output, put together line by line.
#pragma once
#include <string>

namespace perf {

/// One stream of one rank: what arrives goes on to a descriptor of ours, each line with a prefix
/// and in one piece, so that ranks' lines do not mix.
class RankOutput {
 public:
  RankOutput(int from, int to, std::string prefix)
      : from_(from), to_(to), prefix_(std::move(prefix)) {}
  /// Reads what is there now; false once the stream has ended.
  bool pump();
  [[nodiscard]] int fd() const { return from_; }

 private:
  void write_line(std::string line);
  int from_;
  int to_;
  std::string prefix_;
  std::string pending_;
};

}  // namespace perf
