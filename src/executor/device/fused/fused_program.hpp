// SPDX-License-Identifier: Apache-2.0
// A program whose runs are launches of one kernel.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "executor/device/fused/fused_arguments.hpp"
#include "executor/device/stream_device.hpp"
#include "executor/program.hpp"
#include "sys/cuda/device_memory.hpp"
#include "transports/device_port.hpp"

namespace coll {

/// How programs are cut. The same for all ranks of a communicator: both ends of a message cut it
/// alike.
struct FusedShape {
  /// Programs may have so many lanes, each with a block.
  unsigned least_blocks = 1;
  /// Shorter shares of a chunk are not worth a block.
  std::uint32_t least_share = 16384;
  /// Messages up to this length travel as lines, if all of a call are that short.
  std::uint32_t most_short = KernelRing::kShortBytes;
  /// What the algorithm one_shot makes of an operation on a rank: where a schedule is that value,
  /// short calls run as code of its own. Executors know no algorithms. Empty: none are.
  std::function<Schedule(const CollectiveSpec& spec, Rank rank)> one_shot;
};

struct FusedProgram final : Program {
  std::vector<DevicePort*> ports;                      ///< as `connections`
  std::vector<std::uint32_t> next_send, next_receive;  ///< slots of the call that is begun
  fused::FusedArguments arguments;                     ///< with all that is the same for every call
  unsigned blocks_of_lane = 1;                         ///< at most
  std::uint32_t shares = 1;                            ///< at most
  bool combines = false;
  bool one_shot = false;  ///< the schedule is that value
  std::uint32_t most_short = 0;
  CudaPiece memory;  ///< of the device: progress words, the image if it is long, scratch

  /// A kernel of it may not end at all, and use all that the program has on the device.
  void lose() {
    memory.abandon();
    for (DevicePort* port : ports) port->keep_for_device();
  }
};

/// The device is current. `blocks`: all that may run at once. `uploads`: a stream that rests.
Result<std::unique_ptr<Program>> bind_fused(const Schedule& schedule, const ProgramShape& shape,
                                            const ConnectionSource& connection,
                                            const FusedShape& fused, const StreamDevice& device,
                                            unsigned blocks, CudaStream uploads);

/// How the kernel of a call is launched: `lanes` rows of blocks.
struct FusedLaunch {
  unsigned blocks_of_lane, lanes, threads;
};
/// Writes what the kernel is given for a call of this program whose windows are these; but no
/// addresses.
FusedLaunch cut_for_kernel(const FusedProgram& program, const Windows& windows,
                           std::size_t element_bytes, fused::FusedArguments& arguments);

}  // namespace coll
