// SPDX-License-Identifier: Apache-2.0
// A program whose runs are operations of CUDA streams.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "executor/device/stream_device.hpp"
#include "executor/program.hpp"
#include "sys/cuda/device_memory.hpp"
#include "transports/device_port.hpp"

namespace coll {

struct StreamProgram final : Program {
  /// The slots that the next messages of a call pass through.
  struct NextSlots {
    std::uint32_t send = 0, receive = 0;
  };
  static constexpr std::uint16_t kNoEvent = 0xffff;

  std::vector<DevicePort*> ports;     ///< as `connections`
  std::vector<NextSlots> next_slots;  ///< as `connections`; of the call that is being begun
  /// For each step: the event for those that wait until it is done, by number. One pass of one copy
  /// at a time uses them.
  std::vector<std::uint16_t> events;
  std::uint16_t event_count = 0;
  bool combines = false;
  CudaPiece device_scratch;
  std::uint64_t passes_ahead = 1;  ///< passes of a copy that streams have at once

  /// The device may go on with a run of it for good, and use all that the program has there.
  void lose() {
    device_scratch.abandon();
    for (DevicePort* port : ports) port->keep_for_device();
  }
};

/// The device is current. `has_kernels`: else schedules that combine have no program.
Result<std::unique_ptr<Program>> bind_streams(const Schedule& schedule, const ProgramShape& shape,
                                              const ConnectionSource& connection,
                                              StreamDevice& device, bool has_kernels);

}  // namespace coll
