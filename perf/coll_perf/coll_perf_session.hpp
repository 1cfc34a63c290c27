// SPDX-License-Identifier: Apache-2.0
// A rank among the others: how it joins, and what the ranks tell each other between
// measurements.
#pragma once
#include <collectives/collectives.h>

#include <memory>
#include <string>
#include <vector>

#include "coll_perf/coll_perf_options.hpp"
#include "gpu/gpu_device.hpp"

namespace perf {

/// The rank as some launcher's variable says it; -1: there is none. Only to tell "alone", for
/// messages, and to pin before the library starts threads: the library reads the variables
/// properly.
int launched_rank();

/// A rank's place in its process, and how it joins where the launcher's variables do not say it.
struct Seat {
  int index = 0, here = 1;               ///< among the process's ranks, and how many these are
  int rank = 0, size = 1;                ///< with an `id` only
  const coll_unique_id_t* id = nullptr;  ///< null: as the launcher says, or alone
};

/// Failures of the library end the program: exit code 2 and the library's message on standard
/// error.
class Session {
 public:
  /// With a GPU, calls in flight are on streams of CUDA.
  explicit Session(const Options& options, const Gpu* gpu = nullptr, const Seat& seat = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool alone() const { return alone_; }          ///< no launcher: one rank
  [[nodiscard]] int ranks_here() const { return seat_.here; }  ///< that are this process
  [[nodiscard]] coll_comm_t comm() const { return comm_; }
  /// For the i-th of the calls in flight; null without --stream and --inflight.
  [[nodiscard]] coll_stream_t stream(std::size_t i = 0) const {
    return streams_.empty() ? nullptr : streams_[i];
  }

  /// Processor time of a rank: what the process took, shared out evenly among its ranks.
  [[nodiscard]] double cpu_s() const;

  void require(coll_status_t status, const char* what) const;
  /// For a call that all ranks make alike: what is wrong with it, only rank 0's process says.
  void require_alike(coll_status_t status, const char* what) const;
  void barrier() const;
  void synchronize() const;  ///< waits for the streams, if there are any
  /// Element by element over the ranks, the same on all of them.
  void combine(std::vector<double>& values, Average average) const;
  [[nodiscard]] std::uint64_t sum(std::uint64_t value) const;
  [[nodiscard]] std::string explain(const coll_call_t& call) const;

 private:
  /// A queue for calls in flight.
  [[nodiscard]] coll_stream_t make_stream(const Gpu* gpu);
  [[nodiscard]] bool with_rank_0() const { return rank_ == seat_.index; }  ///< in one process
  [[noreturn]] void end(bool speak, const char* what, const std::string& why) const;
  void require_joined(coll_status_t status, const char* what, const coll_config_t& config) const;

  const char* program_;
  Seat seat_;
  int rank_ = 0;
  int size_ = 1;
  bool alone_ = false;
  coll_comm_t comm_ = nullptr;
  std::vector<std::unique_ptr<GpuQueue>> queues_;  ///< of CUDA; they outlive `streams_`
  std::vector<coll_stream_t> streams_;
};

}  // namespace perf
