// SPDX-License-Identifier: Apache-2.0
// Moves runs by operations of CUDA streams: copy engines and small kernels do the work, and words
// of memory order it between ranks.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "executor/device/lane_streams.hpp"
#include "executor/device/stream_flights.hpp"
#include "executor/device/stream_program.hpp"
#include "executor/executor.hpp"

namespace coll {

class StreamQueue;
struct StepTools;

/// Of one communicator, on one GPU. `begin` gives the device all of a run's work; nobody has to
/// `advance` the run but for ports whose messages the processor moves. Lane i of every run is on
/// stream i, so runs use connections and scratch in the order of their begins, and need no tickets.
///
/// A driver that refuses work is the run's `failure`.
///
/// A run on a stream that is being captured becomes part of the graph. For the host it is over at
/// once, and its messages are announced to no port: they travel whenever the graph runs, and the
/// graph uses the program's scratch for good. Whoever launches graphs orders them with other calls
/// on the same connections, on all ranks alike.
///
/// It must outlive its programs, and they the runs. Where a run was abandoned whose work the device
/// did not end, the memory that this may still use is never freed.
class StreamExecutor final : public Executor {
 public:
  /// `kernels`: the image of device_kernels.hpp, or nothing.
  StreamExecutor(StreamDevice& device, std::span<const std::byte> kernels)
      : device_(device), kernels_(kernels), streams_(device), flights_(device) {}
  ~StreamExecutor() override;

  Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                        const ConnectionSource& connection,
                                        ScratchPool& pool) override;
  void begin(Run& run) override;
  void release(Run& run) override;
  void queue(Run& /*run*/) override {}
  bool advance(Run& run) override;
  /// Makes the device end the run, for some seconds at most: then the caller may change its
  /// buffers. Ends what began before on the way, so it is for failures of the communicator.
  void abandon(Run& run) override;

 private:
  Status start(Run& run);
  Status find_kernels(const Run& run, StepTools& tools);
  void queue_starts(const Run& run, StreamQueue& queue);
  static void queue_ends(const Run& run, CudaStream tail, StreamQueue& queue);
  Status grow_events(std::size_t count);
  static void end(Run& run);
  static void finish_captured(Run& run);
  static void finish(Run& run);
  void look_for_errors(Run& run);

  StreamDevice& device_;
  const std::span<const std::byte> kernels_;
  LaneStreams streams_;
  StreamFlights flights_;
  std::vector<CudaEvent>
      events_;  ///< for steps that wait for others; the last: of the user's stream
  std::shared_ptr<GraphMemory> graph_memory_ = std::make_shared<GraphMemory>();
};

}  // namespace coll
