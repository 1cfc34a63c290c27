// SPDX-License-Identifier: Apache-2.0
// Moves runs by operations of CUDA streams: copy engines and small kernels do the work, and words
// of memory order it between ranks.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "executor/device/alive_word.hpp"
#include "executor/device/lane_streams.hpp"
#include "executor/device/stream_flights.hpp"
#include "executor/device/stream_program.hpp"
#include "executor/executor.hpp"

namespace coll {

struct StepTools;

/// Of one communicator, on one GPU. Lane i of every run is on stream i, so runs use connections and
/// scratch in the order of their begins, and need no tickets. `begin` and `advance` give the device
/// passes of the oldest run that it does not have as a whole, some ahead of what it has done: a
/// stream that has too much to do holds up whoever gives it more, and that may be the thread that
/// its peers wait for. The processor has nothing else to do but for ports whose messages it moves.
///
/// A driver that refuses work is the run's `failure`. Runs are not held (Progress::hold): the
/// device would wait, and what waits in a device may keep others from running.
///
/// It must outlive its programs, and they the runs. Where a run was abandoned whose work the device
/// did not end, the memory that this may still use is never freed.
class StreamExecutor final : public Executor {
 public:
  /// `kernels`: the image of device_kernels.hpp, or nothing.
  StreamExecutor(StreamDevice& device, std::span<const std::byte> kernels)
      : device_(device), kernels_(kernels), streams_(device), alive_(device), flights_(device) {}
  ~StreamExecutor() override;

  Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                        const ConnectionSource& connection,
                                        ScratchPool& pool) override;
  void begin(Run& run) override;
  void queue(Run& /*run*/) override {}
  bool advance(Run& run) override;
  /// Makes the device end the run, for some seconds at most: then the caller may change its
  /// buffers, unless the run is `lost`. Ends what began before on the way, so it is for failures of
  /// the communicator. Peers take nothing that these runs do from then on for a message.
  void abandon(Run& run) override;
  /// Finds the kernels of runs that reduce so, and makes them ready: later that might wait for
  /// streams that wait for the run.
  Status prepare(ReduceOp op, DataType type);

 private:
  bool give_passes();
  Status give_passes_of(Run& run);
  bool start(Run& run);
  Status find_kernels(const Run& run, StepTools& tools);
  Status grow_events(std::size_t count);
  void release_all();
  [[nodiscard]] bool lanes_ended(std::size_t lanes);
  static void end(Run& run);
  void look_for_errors(Run& run);

  StreamDevice& device_;
  const std::span<const std::byte> kernels_;
  LaneStreams streams_;
  AliveWord alive_;
  StreamFlights flights_;
  std::vector<CudaEvent> events_;  ///< for steps that wait for others
  std::vector<Run*> pending_;      ///< runs that the device does not have as a whole
};

}  // namespace coll
