// SPDX-License-Identifier: Apache-2.0
// Kernels launched, watched, and made to end.
#include "executor/device/fused/fused_executor.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "executor/device/device_run.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/cuda/registered_device_memory.hpp"

namespace coll {
namespace {

using fused::FusedArguments;

constexpr unsigned kMostBlocks = 32;  ///< of one executor: they fill today's links

FusedProgram& program_of(const Run& run) {
  return static_cast<FusedProgram&>(*run.program);
}

std::uint32_t next(std::uint32_t& slot, const DeviceRing& ring) {
  const std::uint32_t now = slot;
  slot = now + 1 == ring.credits ? 0 : now + 1;
  return now;
}

}  // namespace

Result<std::unique_ptr<FusedExecutor>> FusedExecutor::make(FusedDevice& device, unsigned ranks,
                                                           FusedShape shape) {
  std::unique_ptr<FusedExecutor> made(new FusedExecutor(device, std::move(shape)));
  COLL_TRY(made->open(ranks));
  return made;
}

Status FusedExecutor::open(unsigned ranks) {
  blocks_ = fused_.reserve(kMostBlocks, ranks);
  if (blocks_ < shape_.least_blocks) {
    fused_.give_back(std::exchange(blocks_, 0));
    return failed(Code::unsupported,
                  "other communicators of the process use the blocks for fused kernels");
  }
  const CudaDriver& driver = device_.driver();
  const CurrentContext current(driver, device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  const BesideCaptures beside(driver);
  for (CudaStream* stream : {&stream_, &uploads_}) {
    COLL_ASSIGN(*stream, device_.new_stream());
  }
  COLL_TRY(flights_.open());
  COLL_ASSIGN(arrived_, CudaPiece::allocate(device_.context(), sizeof(std::uint64_t)));
  const std::uint64_t zero = 0;
  int error = driver.copy_async(arrived_.address(), reinterpret_cast<std::uintptr_t>(&zero),
                                sizeof zero, uploads_);
  if (error == 0) error = driver.stream_synchronize(uploads_);
  return error == 0 ? Status() : device_.failed_to("its memory", error);
}

FusedExecutor::~FusedExecutor() {
  if (flights_.all_ended()) {
    fused_.give_back(blocks_);
  } else {
    arrived_.abandon();  // and the kernel still has its blocks
  }
  const CurrentContext current(device_.driver(), device_.context());
  for (CudaStream stream : {stream_, uploads_})
    if (stream != nullptr) device_.driver().stream_destroy(stream);
}

Result<std::unique_ptr<Program>> FusedExecutor::bind(const Schedule& schedule,
                                                     const ProgramShape& shape,
                                                     const ConnectionSource& connection,
                                                     ScratchPool& /*pool*/) {
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  const BesideCaptures beside(device_.driver());
  COLL_ASSIGN(std::unique_ptr<Program> program,
              bind_fused(schedule, shape, connection, shape_, device_, blocks_, uploads_));
  program->executor = this;
  return program;
}

void FusedExecutor::begin(Run& run) {
  begin_on_device(run);
  if (pending_.empty() && !flights_.full()) {
    run.failure = start(run);
  } else {
    pending_.push_back(&run);
  }
}

bool FusedExecutor::start_pending() {
  bool started = false;
  while (!pending_.empty() && !flights_.full()) {
    Run& run = *pending_.front();
    pending_.erase(pending_.begin());  // keeps its memory
    run.failure = start(run);
    started = true;
  }
  return started;
}

Status FusedExecutor::start(Run& run) {
  FusedProgram& program = program_of(run);
  if (program.combines && run.call.own.combine != nullptr)
    return failed(Code::unsupported, "a GPU cannot reduce by a function of the program's");
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  FusedFlight& flight = flights_.take(program, run);
  FusedArguments arguments = program.arguments;
  const FusedLaunch launch =
      cut_for_kernel(program, run.extents.windows, run.call.element_bytes, arguments);
  arguments.input = reinterpret_cast<std::uintptr_t>(run.call.input);
  arguments.output = reinterpret_cast<std::uintptr_t>(run.call.output);
  lend(run, arguments);
  arguments.op = static_cast<std::uint32_t>(run.call.op);
  arguments.type = static_cast<std::uint32_t>(run.call.type);
  arguments.arrived = arrived_.address();
  arguments.over = flight.over.there;
  arguments.abort = flight.abort.there;
  void* parameters[] = {&arguments};
  if (arguments.lanes == 0) {
    flight.over.set(FusedArguments::kDone);
  } else if (const int error =
                 device_.driver().launch(fused_.kernel(), launch.blocks_of_lane, launch.lanes, 1,
                                         launch.threads, 1, 1, 0, stream_, parameters, nullptr)) {
    flight.over.set(FusedArguments::kAborted);
    FusedFlights::release(flight);
    return device_.failed_to("launching a fused kernel", error);
  }
  announce(run, program);
  for (std::size_t i = 0; i < program.ports.size(); ++i)
    run.marks[i] = program.ports[i]->announced();
  return {};
}

/// Says what the kernel may lend of the caller's buffers.
void FusedExecutor::lend(const Run& run, FusedArguments& arguments) {
  if (arguments.is_short != 0) return;
  arguments.lends = fused::FusedStep::kLends;
  if (run.call.apart) arguments.lends |= fused::FusedStep::kLendsApart;
  const auto entry_of = [&](Space space, const void* buffer) {
    const std::size_t block = run.call.count * run.call.element_bytes;
    return RegisteredDeviceMemory::entry_of(buffer, run.program->chunks.blocks(space) * block);
  };
  arguments.input_reach = entry_of(Space::input, run.call.input);
  arguments.output_reach = entry_of(Space::output, run.call.output);
}

/// Tells the ports of all messages, those of each port in their order.
void FusedExecutor::announce(const Run& run, FusedProgram& program) {
  std::ranges::fill(program.next_send, 0U);
  std::ranges::fill(program.next_receive, 0U);
  const std::uint64_t passes = run.extents.windows.passes;
  for (const Run::Cursor& cursor : run.lanes) {
    const Program::Lane& lane = *cursor.lane;
    const auto first =
        static_cast<std::size_t>(lane.connections.data() - program.connections.data());
    for (std::uint64_t pass = lane.first_pass; pass < passes; pass += program.shape.copies) {
      const StepExtent* extent = pass + 1 == passes ? cursor.last_extents : cursor.extents;
      for (const BoundStep* step = lane.begin; step != lane.end; ++step, ++extent) {
        if (step->receives) {
          DevicePort& port = *program.ports[first + step->source];
          port.will_receive(next(program.next_receive[first + step->source], port.receiving()),
                            extent->bytes, run.call.digest);
        }
        if (step->sends) {
          DevicePort& port = *program.ports[first + step->target];
          port.will_send(next(program.next_send[first + step->target], port.sending()),
                         extent->bytes, run.call.digest);
        }
      }
    }
  }
}

bool FusedExecutor::advance(Run& run) {
  if (run.done() || !run.failure.ok()) return false;
  bool moved = start_pending();
  FusedFlight* const flight = flights_.find(run);
  if (flight == nullptr) return moved;
  for (DevicePort* port : flight->program->ports) moved |= port->progress();
  if (run.left != 0) {
    const std::uint32_t how = flight->end();
    if (how == FusedArguments::kAborted) {
      run.failure =
          failed(Code::aborted, flight->is_to_end()
                                    ? "the call was ended with an earlier one that had failed"
                                    : "a peer has ended its part, and withdrew what it sent");
      return true;
    }
    if (how == FusedArguments::kDone) {
      run.left = 0;
      moved = true;
    }
  }
  if (run.left == 0) {
    end(run, *flight);
    if (run.flushed) return true;
  }
  if (moved) {
    flight->vain = 0;
  } else {
    look_for_errors(run, *flight);
  }
  return moved;
}

/// The kernel has ended. The processor may still have to see that the peers were in the same call.
void FusedExecutor::end(Run& run, FusedFlight& flight) {
  const FusedProgram& program = *flight.program;
  for (std::size_t i = 0; i < program.ports.size(); ++i) {
    if (!program.ports[i]->settled(run.marks[i])) return;
  }
  end_on_device(run);
  FusedFlights::release(flight);
}

/// A kernel that has failed writes no word. To ask takes a call of the driver, so seldom.
void FusedExecutor::look_for_errors(Run& run, FusedFlight& flight) {
  constexpr std::uint32_t kSeldom = 4096;
  if (++flight.vain % kSeldom != 0) return;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  const int error = device_.driver().stream_query(stream_);
  if (error != 0 && error != kCudaNotReady)
    run.failure = device_.failed_to("a fused kernel", error);
}

void FusedExecutor::abandon(Run& run) {
  std::erase(pending_, &run);
  FusedFlight* const flight = flights_.find(run);
  if (flight == nullptr) return;
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLongest{2};
  const auto deadline = Clock::now() + kLongest;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  flights_.abort_up_to(*flight);
  while (flight->end() == 0) {
    const int error = device_.driver().stream_query(stream_);
    if (error != 0 && error != kCudaNotReady) break;  // for good: nothing runs any more
    if (Clock::now() > deadline) {
      flight->program->lose();
      run.lost = true;
      break;
    }
    std::this_thread::yield();
  }
  FusedFlights::release(*flight);
}

}  // namespace coll
