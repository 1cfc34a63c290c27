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
  CudaFunction combine = nullptr, finish = nullptr;
  unsigned most_blocks = 1;  ///< of a kernel
  bool announces = true;     ///< messages to ports
};

/// Gives all steps of a run to its lanes' streams.
void queue_steps(Run& run, StreamProgram& program, const StepTools& tools);

}  // namespace coll
