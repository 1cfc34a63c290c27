// SPDX-License-Identifier: Apache-2.0
// Runs given to streams, watched, and abandoned.
#include "executor/device/stream_executor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "executor/device/device_run.hpp"
#include "executor/device/stream_steps.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"

namespace coll {
namespace {

StreamProgram& program_of(const Run& run) {
  return static_cast<StreamProgram&>(*run.program);
}

/// The number of the pass behind the last that the device has done on this lane; 0: none.
std::uint64_t done_passes(const Run& run, std::size_t lane) {
  return std::atomic_ref(*run.flight->words[lane].here).load(std::memory_order_acquire);
}

/// Has the device done the first `passes` passes of the run, as far as they are of this copy?
bool has_done(const Run& run, std::uint64_t copy, std::uint64_t passes) {
  const std::uint64_t copies = run.program->shape.copies;
  if (passes <= copy) return true;
  const std::uint64_t last = passes - 1 - (passes - 1 - copy) % copies;  // of the copy
  const std::size_t lanes = run.lanes.size() / copies;
  for (std::size_t lane = copy * lanes; lane < (copy + 1) * lanes; ++lane) {
    const Program::Lane& bound = *run.lanes[lane].lane;
    if (bound.begin != bound.end && done_passes(run, lane) <= last) return false;
  }
  return true;
}

bool has_done_all(const Run& run) {
  const std::uint64_t passes = run.extents.windows.passes;
  if (run.flight->passes < passes) return false;
  for (std::uint64_t copy = 0; copy < run.program->shape.copies; ++copy)
    if (!has_done(run, copy, passes)) return false;
  return true;
}

}  // namespace

StreamExecutor::~StreamExecutor() {
  for (CudaEvent event : events_) device_.driver().event_destroy(event);
  const auto is_lost = [](const auto& flight) { return flight->lost; };
  if (std::ranges::any_of(flights_.all(), is_lost)) alive_.abandon();
}

Result<std::unique_ptr<Program>> StreamExecutor::bind(const Schedule& schedule,
                                                      const ProgramShape& shape,
                                                      const ConnectionSource& connection,
                                                      ScratchPool& /*pool*/) {
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  COLL_ASSIGN(std::unique_ptr<Program> program,
              bind_streams(schedule, shape, connection, device_, !kernels_.empty()));
  program->executor = this;
  // What runs need, now: when they begin, a stream may wait for them.
  COLL_TRY(grow_events(static_cast<StreamProgram&>(*program).event_count));
  COLL_TRY(streams_.first(program->lanes.size()).status());
  COLL_TRY(flights_.reserve(program->lanes.size()));
  COLL_TRY(alive_.make());
  return program;
}

Status StreamExecutor::prepare(ReduceOp op, DataType type) {
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  const BesideCaptures beside(device_.driver());
  for (const bool finish : {false, true})
    COLL_TRY(device_.kernel(op, type, finish, kernels_).status());
  return {};
}

Status StreamExecutor::grow_events(std::size_t count) {
  const BesideCaptures beside(device_.driver());
  while (events_.size() < count) {
    CudaEvent event = nullptr;
    if (const int error = device_.driver().create_untimed(&event))
      return device_.failed_to("an event", error);
    events_.push_back(event);
  }
  return {};
}

void StreamExecutor::begin(Run& run) {
  begin_on_device(run);
  run.flight = nullptr;
  pending_.push_back(&run);
  give_passes();
}

/// To the device, of the oldest run that it does not have as a whole, and then of the next; true
/// if it got any.
bool StreamExecutor::give_passes() {
  bool gave = false;
  while (!pending_.empty()) {
    Run& run = *pending_.front();
    if (!run.failure.ok()) return gave;
    const std::uint64_t before = run.flight == nullptr ? 0 : run.flight->passes;
    run.failure = give_passes_of(run);
    if (run.flight == nullptr || !run.failure.ok()) return gave;
    gave |= run.flight->passes != before;
    if (run.flight->passes < run.extents.windows.passes) return gave;
    const std::vector<DevicePort*>& ports = program_of(run).ports;
    for (std::size_t i = 0; i < ports.size(); ++i) run.marks[i] = ports[i]->announced();
    pending_.erase(pending_.begin());  // keeps its memory
  }
  return gave;
}

Status StreamExecutor::give_passes_of(Run& run) {
  StreamProgram& program = program_of(run);
  const std::uint64_t copies = program.shape.copies, passes = run.extents.windows.passes;
  const auto may_have = [&](std::uint64_t pass) {
    const std::uint64_t ahead = program.passes_ahead * copies;
    return pass < passes && (pass < ahead || has_done(run, pass % copies, pass + 1 - ahead));
  };
  if (run.flight != nullptr && !may_have(run.flight->passes)) return {};
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  if (run.flight == nullptr && !start(run)) return {};
  StreamQueue queue(device_);
  StepTools tools{queue, {}, events_, alive_.address(), alive_.barrier()};
  COLL_TRY(find_kernels(run, tools));
  COLL_ASSIGN(tools.streams, streams_.first(run.lanes.size()));
  tools.most_blocks =
      std::max(1U, 2 * device_.multiprocessors() / static_cast<unsigned>(run.lanes.size()));
  std::uint64_t& pass = run.flight->passes;
  for (; may_have(pass) && queue.ok(); ++pass) queue_pass(run, program, tools, pass);
  return queue.status();
}

/// False: as many runs as there may be are on the device.
bool StreamExecutor::start(Run& run) {
  StreamProgram& program = program_of(run);
  run.flight = flights_.take(program);
  if (run.flight == nullptr) return false;
  std::ranges::fill(program.next_slots, StreamProgram::NextSlots{});
  return true;
}

Status StreamExecutor::find_kernels(const Run& run, StepTools& tools) {
  if (!program_of(run).combines) return {};
  if (run.call.own.combine != nullptr)
    return failed(Code::unsupported, "a GPU cannot reduce by a function of the program's");
  COLL_ASSIGN(tools.combine, device_.kernel(run.call.op, run.call.type, false, kernels_));
  COLL_ASSIGN(tools.finish, device_.kernel(run.call.op, run.call.type, true, kernels_));
  return {};
}

bool StreamExecutor::advance(Run& run) {
  if (!run.failure.ok() || run.done()) return false;
  if (!pending_.empty() && pending_.front() == &run && give_passes()) return true;
  if (run.flight == nullptr) return false;
  bool moved = false;
  for (DevicePort* port : program_of(run).ports) moved |= port->progress();
  if (run.left != 0 && has_done_all(run)) {
    run.left = 0;
    moved = true;
  }
  if (run.left == 0) {
    end(run);
    if (run.flushed) return true;
  }
  if (moved) {
    run.flight->vain = 0;
  } else {
    look_for_errors(run);
  }
  return moved;
}

/// The device has ended the run. The processor may still have to move its last messages, or to see
/// that the peers were in the same call.
void StreamExecutor::end(Run& run) {
  StreamProgram& program = program_of(run);
  for (std::size_t i = 0; i < program.ports.size(); ++i) {
    if (!program.ports[i]->settled(run.marks[i])) return;
  }
  end_on_device(run);
  run.flight->program = nullptr;
  run.flight = nullptr;
}

/// A device that has failed writes no word. To ask it takes a call of the driver, so seldom.
void StreamExecutor::look_for_errors(Run& run) {
  constexpr std::uint32_t kSeldom = 4096;
  if (++run.flight->vain % kSeldom != 0) return;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  const auto streams = streams_.first(run.lanes.size());
  if (!streams.ok()) return;
  for (CudaStream stream : *streams) {
    const int error = device_.driver().stream_query(stream);
    if (error == 0 || error == kCudaNotReady) continue;
    run.failure = device_.failed_to("work on a stream", error);
    return;
  }
}

/// An error, which is for good, has ended them too.
bool StreamExecutor::lanes_ended(std::size_t lanes) {
  const auto streams = streams_.first(lanes);
  return !streams.ok() || std::ranges::all_of(*streams, [this](CudaStream stream) {
    return device_.driver().stream_query(stream) != kCudaNotReady;
  });
}

void StreamExecutor::abandon(Run& run) {
  std::erase(pending_, &run);
  StreamFlight* const flight = std::exchange(run.flight, nullptr);
  if (flight == nullptr) return;
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLongest{2};
  const auto deadline = Clock::now() + kLongest;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  while (!lanes_ended(run.lanes.size())) {
    // What began before it on the same streams has to end first.
    if (alive_.kill()) release_all();
    if (Clock::now() > deadline) {
      // The flight stays the run's: who abandons another run releases this one again.
      flight->program->lose();
      flight->lost = run.lost = true;
      return;
    }
    std::this_thread::yield();
  }
  flight->program = nullptr;
  const auto is_out = [](const auto& other) { return other->program != nullptr; };
  if (std::ranges::none_of(flights_.all(), is_out)) alive_.revive();
}

void StreamExecutor::release_all() {
  for (const auto& flight : flights_.all()) {
    if (flight->program == nullptr) continue;
    for (DevicePort* port : flight->program->ports) port->release_all();
  }
}

}  // namespace coll
