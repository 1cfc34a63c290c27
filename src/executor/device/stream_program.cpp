// SPDX-License-Identifier: Apache-2.0
// Schedules bound to ports and to memory of the device.
#include "executor/device/stream_program.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "executor/device/device_run.hpp"

namespace coll {
namespace {

Status bind_ports(StreamProgram& program) {
  for (Connection* connection : program.connections) {
    COLL_ASSIGN(DevicePort* const port, device_port_of(*connection, program.shape.slice_bytes));
    program.ports.push_back(port);
  }
  program.next_slots.resize(program.ports.size());
  return {};
}

/// Numbers the steps that others wait for.
void number_events(StreamProgram& program) {
  program.events.assign(program.steps.size(), StreamProgram::kNoEvent);
  for (const BoundStep& step : program.steps) {
    if (step.wait_lane == 0xff) continue;
    const Program::Lane& awaited = program.lanes[step.wait_lane];  // of the first copy, as all
    const auto at = static_cast<std::size_t>(awaited.begin - program.steps.data()) + step.wait_step;
    std::uint16_t& number = program.events[at];
    if (number == StreamProgram::kNoEvent) number = program.event_count++;
  }
}

/// So many that a stream has work while the processor sees what it has done, and that its queue is
/// not full: drivers hold about a thousand operations of a stream.
std::uint64_t passes_ahead(const StreamProgram& program) {
  constexpr std::uint64_t kOperations = 512, kOfStep = 8, kLeast = 2, kMost = 16;
  std::uint64_t steps = 1;
  for (const Program::Lane& lane : program.lanes)
    steps = std::max(steps, static_cast<std::uint64_t>(lane.end - lane.begin));
  return std::clamp(kOperations / (kOfStep * steps), kLeast, kMost);
}

}  // namespace

Result<std::unique_ptr<Program>> bind_streams(const Schedule& schedule, const ProgramShape& shape,
                                              const ConnectionSource& connection,
                                              StreamDevice& device, bool has_kernels) {
  auto program = std::make_unique<StreamProgram>();
  COLL_TRY(bind_steps(*program, schedule, shape, connection));
  program->combines = std::ranges::any_of(
      program->steps, [](const BoundStep& step) { return step.with_space != Space::none; });
  if (program->combines && !has_kernels) {
    return failed(
        Code::unsupported,
        "this build has no kernels for GPUs, so none can reduce (" + schedule.algorithm + ")",
        "build with nvcc 12.8 or newer");
  }
  COLL_TRY(bind_ports(*program));
  number_events(*program);
  program->passes_ahead = passes_ahead(*program);
  if (const std::size_t bytes = program->scratch_bytes * program->lanes.size(); bytes > 0) {
    COLL_ASSIGN(program->device_scratch, CudaPiece::allocate(device.context(), bytes));
    give_scratch(*program, reinterpret_cast<std::byte*>(program->device_scratch.address()));
  }
  bind_turns(*program);
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace coll
