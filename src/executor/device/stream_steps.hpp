// SPDX-License-Identifier: Apache-2.0
// The steps of a run as operations of streams.
#pragma once
#include <span>

#include "executor/device/stream_program.hpp"
#include "executor/device/stream_queue.hpp"
#include "executor/run.hpp"

namespace coll {

/// What steps need beside their run.
struct StepTools {
  StreamQueue& queue;
  std::span<const CudaStream> streams;  ///< by lane
  std::span<const CudaEvent> events;    ///< by number, see StreamProgram::events
  CudaAddress alive = 0, barrier = 0;   ///< see AliveWord
  CudaFunction combine = nullptr, finish = nullptr;
  unsigned most_blocks = 1;  ///< of a kernel
};

/// Gives the steps of one pass to its lanes' streams, which write to the run's words when they have
/// done them. Passes come in order.
void queue_pass(Run& run, StreamProgram& program, const StepTools& tools, std::uint64_t pass);

}  // namespace coll
