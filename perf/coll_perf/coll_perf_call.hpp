// SPDX-License-Identifier: Apache-2.0
// Calls that are measured: an operation with its buffers laid out, ready to run, and the check of
// its result; and calls that run together.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "coll_perf/coll_perf_buffer.hpp"
#include "coll_perf/coll_perf_session.hpp"
#include "coll_perf/oracle/coll_perf_oracle.hpp"

namespace perf {

struct Point {
  Operation operation = Operation::all_reduce;
  coll_dtype_t type = COLL_FLOAT32;
  coll_op_t redop = COLL_SUM;
  int root = 0;
  Shape shape;
};

class Call {
 public:
  /// Both buffers hold at least `point.shape.bytes`; they and `session` outlive the call.
  Call(const Session& session, const Point& point, bool in_place, Buffers& buffers,
       coll_stream_t stream);

  /// Runs once; with a stream, only gives it to the stream.
  coll_status_t operator()() const { return run_(); }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Fills the buffers so that verify() can tell; `seed` makes other values.
  void prepare(std::uint64_t seed);
  /// After a run, or many: wrong elements of the result, changed ones of an input that is to stay,
  /// and bytes written behind the end. Of this rank.
  std::uint64_t verify();
  /// In-place reductions consume their results: zeros stay zeros, however often.
  void settle();
  /// May a check follow several runs?
  [[nodiscard]] bool repeatable() const { return !consumes_; }
  /// As a part of one call of many.
  [[nodiscard]] coll_part_t part() const { return {send_, recv_, point_.shape.count}; }

 private:
  /// Where this program finds what lies at `send_` and `recv_`.
  [[nodiscard]] unsigned char* sent_on_host() const;
  [[nodiscard]] unsigned char* received_on_host() const;

  const Session& session_;
  Point point_;
  Buffer& input_;
  Buffer& output_;
  bool consumes_;
  bool keeps_input_;
  std::size_t input_used_ = 0;
  std::size_t output_used_ = 0;
  std::vector<Segment> sent_;
  std::vector<Segment> received_;
  unsigned char* send_;
  unsigned char* recv_;
  std::optional<Oracle> oracle_;
  std::function<coll_status_t()> run_;
  std::string name_;
};

/// The calls that are measured together.
class CallSet {
 public:
  enum class Together {
    in_turn,  ///< one alone; or several, each on a stream of its own, so that as many are in flight
    grouped,
    parts,  ///< of one call
  };
  /// A call for each entry of `buffers`, on the session's stream of the same place.
  CallSet(const Session& session, const Point& point, bool in_place,
          std::vector<std::unique_ptr<Buffers>>& buffers, Together together);

  /// One turn: the whole group, or the next call.
  coll_status_t operator()();
  [[nodiscard]] long calls_of_turn() const { return together_ == Together::in_turn ? 1 : count(); }
  /// How many turns run every call once.
  [[nodiscard]] long turns() const { return together_ == Together::in_turn ? count() : 1; }
  [[nodiscard]] const std::string& name() const { return calls_.front()->name(); }
  [[nodiscard]] const Call& first() const { return *calls_.front(); }

  /// As Call's, of all calls.
  void prepare(std::uint64_t seed);
  std::uint64_t verify();
  void settle();

 private:
  [[nodiscard]] long count() const { return static_cast<long>(calls_.size()); }
  [[nodiscard]] coll_status_t run_parts() const;

  std::vector<std::unique_ptr<Call>> calls_;
  Together together_;
  const Session& session_;
  std::vector<coll_part_t> parts_;
  coll_call_t whole_ = COLL_CALL_INIT;
  std::size_t next_ = 0;
};

}  // namespace perf
