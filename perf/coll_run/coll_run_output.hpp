// SPDX-License-Identifier: Apache-2.0
// The ranks' output, put together line by line.
#pragma once
#include <string>
#include <utility>

#include "coll_run/coll_run_sink.hpp"

namespace perf {

/// One stream of one rank: what arrives goes on to a sink, each line with a prefix and in one
/// piece, so that ranks' lines do not mix.
class RankOutput {
 public:
  RankOutput(int from, Sink& to, std::string prefix)
      : from_(from), to_(&to), prefix_(std::move(prefix)) {}
  /// Reads what is there now; false once the stream has ended.
  bool pump();
  /// Reads all that is there now and nothing that comes later; ends the last line.
  void finish();
  [[nodiscard]] int fd() const { return from_; }
  [[nodiscard]] bool has_room() const { return to_->has_room(); }

 private:
  void put_lines(bool last);
  int from_;
  Sink* to_;
  std::string prefix_;
  std::string pending_;
};

}  // namespace perf
