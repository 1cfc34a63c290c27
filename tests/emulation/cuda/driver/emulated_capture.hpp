// SPDX-License-Identifier: Apache-2.0
// Capture: streams that note their operations for a graph in place of running them.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "emulation/cuda/cuda_abi.hpp"
#include "emulation/cuda/driver/emulated_event.hpp"
#include "emulation/cuda/driver/emulated_stream.hpp"

namespace emucuda {

/// What a capture has noted, in the order of the calls. Lane 0 is the stream that the capture began
/// on, and each stream that joined is a lane of its own. A graph no longer changes once its capture
/// has ended.
struct Graph final : Shared {
  enum class What { run, record, wait };
  struct Step {
    What what;
    std::size_t lane;
    std::unique_ptr<Operation> operation;  // to run
    std::size_t signal;                    // to record or wait for
  };
  std::vector<Step> steps;
  std::size_t signals = 0;
  std::vector<Context*> lanes;
};

/// Each notes what a capturing stream was asked for, or says why it cannot be in the graph.
CUresult note(Stream& stream, std::unique_ptr<Operation> operation);
CUresult note_record(Stream& stream, Event& event);  // the event's lock is held
CUresult note_wait(Stream& stream, CapturedPlace place);

/// From now on every call of the stream's capture fails, and its end gives no graph.
void invalidate_capture(Stream& stream);
/// For calls that a capture may forbid, as CUDA's documentation of
/// cuThreadExchangeStreamCaptureMode defines it. To ask spoils the capture. `stream`: the one that
/// the call is about, if any.
CUresult refuse_in_capture(const Stream* stream);
/// For calls that ask how far an event is.
CUresult refuse_captured(Event& event);

}  // namespace emucuda
