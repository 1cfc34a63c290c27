// SPDX-License-Identifier: Apache-2.0
// Runs begun on streams, watched, and abandoned.
#include "executor/device/stream_executor.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "executor/device/stream_steps.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"

namespace coll {
namespace {

constexpr int kNotReady = 600;  // CUDA_ERROR_NOT_READY

StreamProgram& program_of(const Run& run) {
  return static_cast<StreamProgram&>(*run.program);
}

bool has_work(const Run& run, const Run::Cursor& lane) {
  return lane.lane->first_pass < run.extents.windows.passes && lane.lane->begin != lane.lane->end;
}

/// Has the device ended the lanes? An error, which is for good, has ended them too.
bool lanes_ended(const CudaDriver& driver, const StreamFlight& flight) {
  for (std::size_t lane = 0; lane < flight.streams.size(); ++lane) {
    if (driver.event_query(flight.ends[lane]) == kNotReady) return false;
  }
  return true;
}

}  // namespace

StreamExecutor::~StreamExecutor() {
  for (CudaEvent event : events_) device_.driver().event_destroy(event);
}

Result<std::unique_ptr<Program>> StreamExecutor::bind(const Schedule& schedule,
                                                      const ProgramShape& shape,
                                                      const ConnectionSource& connection,
                                                      ScratchPool& /*pool*/) {
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  COLL_ASSIGN(std::unique_ptr<Program> program,
              bind_streams(schedule, shape, connection, device_, !kernels_.empty(), graph_memory_));
  COLL_TRY(grow_events(static_cast<StreamProgram&>(*program).event_count + std::size_t{1}));
  return program;
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
  run.left = 1;
  run.queued = run.moved = run.lent = run.flushed = run.by_pass = false;
  run.failure = {};
  run.flight = nullptr;
  for (Run::Cursor& lane : run.lanes) {
    lane.state = has_work(run, lane) ? Run::Cursor::State::moving : Run::Cursor::State::done;
  }
  run.failure = start(run);
}

Status StreamExecutor::find_kernels(const Run& run, StepTools& tools) {
  if (!program_of(run).combines) return {};
  if (run.call.own.combine != nullptr)
    return failed(Code::unsupported, "a GPU cannot reduce by a function of the program's");
  COLL_ASSIGN(tools.combine, device_.kernel(run.call.op, run.call.type, false, kernels_));
  COLL_ASSIGN(tools.finish, device_.kernel(run.call.op, run.call.type, true, kernels_));
  return {};
}

Status StreamExecutor::start(Run& run) {
  StreamProgram& program = program_of(run);
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  StreamQueue queue(device_);
  StepTools tools{queue, {}, events_};
  COLL_TRY(find_kernels(run, tools));
  int capturing = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  std::uint64_t capture = 0;
  if (run.on_stream) {
    if (const int error = device_.driver().capture_info(run.stream, &capturing, &capture, nullptr,
                                                        nullptr, nullptr))
      return device_.failed_to("the state of the caller's stream", error);
  }
  const bool captured = capturing != 0;
  const std::size_t lanes = run.lanes.size();
  COLL_ASSIGN(StreamSet* const set,
              captured ? streams_.of_capture(capture, lanes) : streams_.ordinary(lanes));
  COLL_ASSIGN(StreamFlight* const flight, flights_.take(program, lanes));
  run.flight = flight;
  tools.streams = set->lanes;
  tools.most_blocks = std::max(1U, 2 * device_.multiprocessors() / static_cast<unsigned>(lanes));
  tools.announces = !captured;
  if (captured) {
    program.captured = flight->captured = true;
  } else {
    // Counts the calls that have begun on each connection (see end()).
    for (std::size_t i = 0; i < program.connections.size(); ++i)
      run.marks[i] = ++program.connections[i]->sending.taken;
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (run.lanes[lane].state != Run::Cursor::State::done)
      flight->streams.push_back(set->lanes[lane]);
  }

  queue_starts(run, queue);
  queue_steps(run, program, tools);
  const Status refused = queue.status();
  queue.forgive();  // what is there must have an end
  queue_ends(run, set->tail, queue);
  COLL_TRY(refused);
  COLL_TRY(queue.status());
  if (captured) finish_captured(run);
  return {};
}

void StreamExecutor::queue_starts(const Run& run, StreamQueue& queue) {
  if (run.on_stream) {
    queue.enter(run.stream);
    queue.record(events_.back());
  }
  for (CudaStream stream : run.flight->streams) {
    queue.enter(stream);
    if (run.on_stream) queue.wait_for(events_.back());
    if (run.held) queue.wait(run.flight->gate.there);
  }
}

void StreamExecutor::queue_ends(const Run& run, CudaStream tail, StreamQueue& queue) {
  const StreamFlight& flight = *run.flight;
  for (std::size_t lane = 0; lane < flight.streams.size(); ++lane) {
    queue.enter(flight.streams[lane]);
    queue.record(flight.ends[lane]);
  }
  // One lane needs nobody to wait for it.
  if (run.on_stream || flight.streams.size() != 1) {
    queue.enter(run.on_stream ? run.stream : tail);
    for (std::size_t lane = 0; lane < flight.streams.size(); ++lane)
      queue.wait_for(flight.ends[lane]);
  }
  if (!flight.captured) queue.write(flight.over.there, 1);
}

/// Of a run in a graph, which uses its events no more, and its words only if it was held.
void StreamExecutor::finish_captured(Run& run) {
  finish(run);
  if (run.held) return;
  run.flight->over.set(1);
  run.flight->captured = false;
  run.flight->program = nullptr;
  run.flight = nullptr;
}

void StreamExecutor::finish(Run& run) {
  run.left = 0;
  run.flushed = true;
  for (Run::Cursor& lane : run.lanes) lane.state = Run::Cursor::State::done;
}

void StreamExecutor::release(Run& run) {
  if (run.flight != nullptr) run.flight->gate.set(1);
}

bool StreamExecutor::advance(Run& run) {
  if (run.flight == nullptr || !run.failure.ok() || run.done()) return false;
  StreamProgram& program = program_of(run);
  bool moved = false;
  for (DevicePort* port : program.ports) moved |= port->progress();
  if (run.left != 0 && run.flight->over.is_set()) {
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

/// The device has ended the run. Its last messages may still have to be moved by the processor. A
/// run that has begun later on the same connection, and so comes after it, sees to that.
void StreamExecutor::end(Run& run) {
  StreamProgram& program = program_of(run);
  for (std::size_t i = 0; i < program.ports.size(); ++i) {
    const bool last = program.connections[i]->sending.taken == run.marks[i];
    if (last && !program.ports[i]->settled()) return;
  }
  finish(run);
  run.flight->program = nullptr;
  run.flight = nullptr;
}

/// A device that has failed writes no word. To ask it takes a call of the driver, so seldom.
void StreamExecutor::look_for_errors(Run& run) {
  constexpr std::uint32_t kSeldom = 4096;
  if (++run.flight->vain % kSeldom != 0) return;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  for (CudaStream stream : run.flight->streams) {
    const int error = device_.driver().stream_query(stream);
    if (error == 0 || error == kNotReady) continue;
    run.failure = device_.failed_to("work on a stream", error);
    return;
  }
}

void StreamExecutor::abandon(Run& run) {
  StreamFlight* const flight = std::exchange(run.flight, nullptr);
  if (flight == nullptr) return;
  if (flight->captured) {  // nothing of it runs
    flight->gate.set(1);
    flight->program = nullptr;
    return;
  }
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLongest{2};
  const auto deadline = Clock::now() + kLongest;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  while (!lanes_ended(device_.driver(), *flight)) {
    // What began before it on the same streams has to end first.
    for (const auto& other : flights_.all()) {
      if (other->program == nullptr || other->captured) continue;
      other->gate.set(1);
      for (DevicePort* port : other->program->ports) port->release_all();
    }
    if (Clock::now() > deadline) {
      flight->program->lost = true;
      break;
    }
    std::this_thread::yield();
  }
  flight->program = nullptr;
}

}  // namespace coll
