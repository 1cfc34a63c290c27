// SPDX-License-Identifier: Apache-2.0
// The calls that are measured together: one alone, a group, or several in flight.
#pragma once
#include <memory>
#include <vector>

#include "coll_perf/coll_perf_call.hpp"

namespace perf {

class CallSet {
 public:
  /// A call for each entry of `buffers`, on the session's stream of the same place: as one group,
  /// or one after another in turn, so that as many are in flight.
  CallSet(const Session& session, const Point& point, bool in_place,
          std::vector<std::unique_ptr<Buffers>>& buffers, bool grouped);

  /// One turn: the whole group, or the next call.
  coll_status_t operator()();
  [[nodiscard]] long calls_of_turn() const { return grouped_ ? count() : 1; }
  /// So many run every call once.
  [[nodiscard]] long turns() const { return grouped_ ? 1 : count(); }
  [[nodiscard]] const std::string& name() const { return calls_.front()->name(); }
  [[nodiscard]] const Call& first() const { return *calls_.front(); }

  /// As Call's, of all calls.
  void prepare(std::uint64_t seed);
  std::uint64_t verify();
  void settle();

 private:
  [[nodiscard]] long count() const { return static_cast<long>(calls_.size()); }
  std::vector<std::unique_ptr<Call>> calls_;
  bool grouped_;
  std::size_t next_ = 0;
};

}  // namespace perf
