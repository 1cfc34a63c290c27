// SPDX-License-Identifier: Apache-2.0
// Writes what ranks print without making anybody wait for the reader.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace perf {

/// A descriptor with a thread that writes to it: whoever reads us may be slow, stop or go away, and
/// the ranks are watched all the same. Texts are written in the order in which they were put. A
/// copy is the same sink.
class Sink {
 public:
  /// `room` is an eventfd: it becomes readable whenever something was written.
  Sink(int fd, int room);
  /// Until then texts are kept.
  coll::Status start();
  /// Never waits.
  void put(std::string_view text);
  /// False while too much waits to be written: then read no more from the ranks.
  [[nodiscard]] bool has_room() const;
  /// Whether all texts were written, or never will be.
  [[nodiscard]] bool is_empty() const;
  /// Why nothing is taken any more: an errno, 0 if that is not so.
  [[nodiscard]] int error() const;

 private:
  struct State;
  static void write_all(State& state);
  std::shared_ptr<State> state_;  ///< the thread's, too: it may be stuck in a write for ever
};

}  // namespace perf
