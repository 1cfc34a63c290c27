// SPDX-License-Identifier: Apache-2.0
// Copies started when their slots are there, watched, and abandoned.
#include "executor/device/exchange_executor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "executor/device/device_run.hpp"
#include "executor/window_pieces.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"

namespace coll {

struct ExchangeProgram final : Program {
  std::vector<ExchangeExecutor::Way*> ways;  ///< by lane
  /// Used again and again: of its runs, which are several only if calls do not wait for one
  /// another.
  std::vector<std::unique_ptr<ExchangeExecutor::Flight>> flights;

  [[nodiscard]] ExchangeExecutor::Way& first_way() const { return *ways.front(); }
  /// The device may go on with a run of it for good, and use what its ports have.
  void lose() const {
    for (const ExchangeExecutor::Way* way : ways) way->port->keep_for_device();
  }
};

namespace {

/// Of a call, pass `pass` goes through this slot.
std::uint32_t slot_of(std::uint64_t pass, const Program& program, const DeviceRing& ring) {
  return static_cast<std::uint32_t>(pass / program.shape.copies % ring.credits);
}

}  // namespace

ExchangeExecutor::~ExchangeExecutor() {
  if (lost_) words_.abandon();
}

Result<std::unique_ptr<Program>> ExchangeExecutor::bind(const Schedule& schedule,
                                                        const ProgramShape& shape,
                                                        const ConnectionSource& connection,
                                                        ScratchPool& /*pool*/) {
  const CurrentContext current(device_.driver(), device_.context());
  if (current.error() != 0) return device_.failed_to("its context", current.error());
  auto program = std::make_unique<ExchangeProgram>();
  COLL_TRY(bind_steps(*program, schedule, shape, connection));
  COLL_CHECK(program->steps.size() == 1 && program->connections.size() == program->lanes.size() &&
                 program->scratch_bytes == 0 && program->steps.front().with_space == Space::none,
             "an exchange is one message, and each lane has a connection");
  for (std::size_t lane = 0; lane < program->lanes.size(); ++lane) {
    COLL_ASSIGN(DevicePort* const port,
                device_port_of(*program->connections[lane], shape.slice_bytes));
    COLL_ASSIGN(Way* const way, way_of(*port, program->steps.front().sends));
    program->ways.push_back(way);
  }
  program->flights.push_back(
      std::make_unique<Flight>(*program));  // the first begin allocates nothing
  program->executor = this;
  bind_turns(*program);
  return std::unique_ptr<Program>(std::move(program));
}

ExchangeExecutor::Flight::Flight(ExchangeProgram& of) : program(&of), lanes(of.lanes.size()) {}

/// Programs for calls of all sizes share it, so only the first one takes anything of the device.
Result<ExchangeExecutor::Way*> ExchangeExecutor::way_of(DevicePort& port, bool sends) {
  for (const auto& way : ways_)
    if (way->port == &port && way->sends == sends) return way.get();
  COLL_ASSIGN(const auto streams, streams_.first(2));
  auto way = std::make_unique<Way>();
  way->port = &port;
  way->sends = sends;
  way->stream = streams[sends ? 0 : 1];
  COLL_ASSIGN(way->done, words_.next());
  return ways_.emplace_back(std::move(way)).get();
}

ExchangeExecutor::Flight* ExchangeExecutor::flight_of(const Run& run) {
  const auto& flights = static_cast<ExchangeProgram&>(*run.program).flights;
  const auto found =
      std::ranges::find_if(flights, [&](const auto& flight) { return flight->run == &run; });
  return found == flights.end() ? nullptr : found->get();
}

ExchangeExecutor::Flight& ExchangeExecutor::take_flight(Run& run) {
  auto& program = static_cast<ExchangeProgram&>(*run.program);
  auto free = std::ranges::find_if(program.flights,
                                   [](const auto& flight) { return flight->run == nullptr; });
  if (free == program.flights.end())
    free = program.flights.insert(free, std::make_unique<Flight>(program));
  Flight& flight = **free;
  for (std::size_t lane = 0; lane < flight.lanes.size(); ++lane)
    flight.lanes[lane] = {lane, lane, program.ways[lane]->given};
  flight.run = &run;
  flight.next = nullptr;
  flight.vain = 0;
  flight.whole = false;
  return flight;
}

void ExchangeExecutor::begin(Run& run) {
  begin_on_device(run);
  Flight& flight = take_flight(run);
  Flight** last = &flight.program->first_way().first;
  while (*last != nullptr) last = &(*last)->next;
  *last = &flight;
  give(flight);
}

/// Tells the ports of what comes next, and gives the device a message of each lane that can run:
/// with memory that is not pinned the driver returns when it is copied, and others wait meanwhile.
/// True if there was any.
bool ExchangeExecutor::give(Flight& flight) {
  if (flight.whole || flight.program->first_way().first != &flight) return false;
  Run& run = *flight.run;
  bool told = false, runs = false;
  for (std::size_t lane = 0; lane < flight.lanes.size(); ++lane) {
    told |= tell(flight, lane);
    runs |= can_run(flight, lane);
  }
  if (runs) {
    const CurrentContext current(device_.driver(), device_.context());
    const BesideCaptures beside(device_.driver());
    StreamQueue queue(device_);
    for (std::size_t lane = 0; lane < flight.lanes.size(); ++lane) {
      queue.enter(flight.program->ways[lane]->stream);
      if (queue.ok() && can_run(flight, lane)) move_next(flight, lane, queue);
    }
    run.failure =
        current.error() != 0 ? device_.failed_to("its context", current.error()) : queue.status();
    if (!run.failure.ok()) return true;
  }
  const auto has_all = [&](const Flight::Lane& lane) {
    return lane.given >= run.extents.windows.passes;
  };
  if (std::ranges::all_of(flight.lanes, has_all)) go_on(flight);
  return told || runs;
}

/// Of as many messages as there are slots: the processor may have to put them there. True if of
/// any.
bool ExchangeExecutor::tell(Flight& flight, std::size_t lane) {
  const Run& run = *flight.run;
  Way& way = *flight.program->ways[lane];
  const DeviceRing& ring = way.ring();
  const std::uint64_t passes = run.extents.windows.passes, copies = run.program->shape.copies;
  auto& [told, given, behind] = flight.lanes[lane];
  const std::uint64_t before = told;
  for (; told < passes && told < given + ring.credits * copies; told += copies) {
    const Run::Cursor& cursor = run.lanes[lane];
    const std::size_t bytes = (told + 1 == passes ? cursor.last_extents : cursor.extents)->bytes;
    const std::uint32_t slot = slot_of(told, *run.program, ring);
    way.sends ? way.port->will_send(slot, bytes, run.call.digest)
              : way.port->will_receive(slot, bytes, run.call.digest);
  }
  return told != before;
}

/// Is the slot of the lane's next message there?
bool ExchangeExecutor::can_run(const Flight& flight, std::size_t lane) {
  const Run& run = *flight.run;
  const Way& way = *flight.program->ways[lane];
  const std::uint64_t pass = flight.lanes[lane].given;
  return pass < run.extents.windows.passes &&
         way.words().is_set(slot_of(pass, *run.program, way.ring()));
}

void ExchangeExecutor::move_next(Flight& flight, std::size_t lane, StreamQueue& queue) {
  Run& run = *flight.run;
  Way& way = *flight.program->ways[lane];
  auto& [told, given, behind] = flight.lanes[lane];
  const std::uint32_t slot = slot_of(given, *run.program, way.ring());
  way.words().clear(slot);
  Run::Cursor& cursor = run.lanes[lane];
  cursor.pass = given;
  mover::enter_window(run, cursor);
  auto* const there = reinterpret_cast<std::byte*>(way.ring().slot(slot));
  mover::for_each_copy<false>(run, cursor, *cursor.next, *cursor.extent,
                              way.sends ? nullptr : there, way.sends ? there : nullptr,
                              [&](std::byte* to, const std::byte* from, std::size_t bytes) {
                                if (bytes > 0) queue.copy(to, from, bytes);
                              });
  queue.write(way.ring().signalled_word(slot), 1);
  queue.write(way.done.there, behind = ++way.given);
  given += run.program->shape.copies;
}

/// The device has all of the run: the next one of its ways begins.
void ExchangeExecutor::go_on(Flight& flight) {
  const ExchangeProgram& program = *flight.program;
  flight.whole = true;
  for (std::size_t i = 0; i < program.ways.size(); ++i)
    flight.run->marks[i] = program.ways[i]->port->announced();
  program.first_way().first = flight.next;
}

/// The device has ended the run. The processor may still have to see that the peer was in the same
/// call, or to move the run's messages. Those of the other direction are other runs'.
bool ExchangeExecutor::is_over(const Flight& flight) {
  if (!flight.whole) return false;
  for (std::size_t lane = 0; lane < flight.lanes.size(); ++lane) {
    const Way& way = *flight.program->ways[lane];
    const auto done = std::atomic_ref(*way.done.here).load(std::memory_order_acquire);
    const auto ahead = static_cast<std::int32_t>(done - flight.lanes[lane].behind);
    const Directions own = way.sends ? Directions::sending : Directions::receiving;
    if (ahead < 0 || !way.port->settled(flight.run->marks[lane], own)) return false;
  }
  return true;
}

bool ExchangeExecutor::advance(Run& run) {
  if (!run.failure.ok() || run.done()) return false;
  Flight& flight = *flight_of(run);
  bool moved = give(flight);
  for (const Way* way : flight.program->ways) moved |= way->port->progress();
  if (is_over(flight)) {
    run.left = 0;
    end_on_device(run);
    flight.run = nullptr;
    return true;
  }
  if (moved) {
    flight.vain = 0;
  } else {
    look_for_errors(flight);
  }
  return moved;
}

/// A device that has failed writes no word. To ask it takes a call of the driver, so seldom.
void ExchangeExecutor::look_for_errors(Flight& flight) {
  constexpr std::uint32_t kSeldom = 4096;
  if (++flight.vain % kSeldom != 0) return;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  for (const Way* way : flight.program->ways) {
    const int error = device_.driver().stream_query(way->stream);
    if (error != 0 && error != kCudaNotReady)
      flight.run->failure = device_.failed_to("work on a stream", error);
  }
}

/// An error, which is for good, has ended them too.
bool ExchangeExecutor::streams_ended(const ExchangeProgram& program) const {
  return std::ranges::all_of(program.ways, [this](const Way* way) {
    return device_.driver().stream_query(way->stream) != kCudaNotReady;
  });
}

void ExchangeExecutor::abandon(Run& run) {
  Flight* const flight = flight_of(run);
  if (flight == nullptr) return;
  const ExchangeProgram& program = *flight->program;
  Flight** at = &program.first_way().first;
  while (*at != nullptr && *at != flight) at = &(*at)->next;
  if (*at != nullptr) *at = flight->next;
  flight->run = nullptr;
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLongest{2};
  const auto deadline = Clock::now() + kLongest;
  const CurrentContext current(device_.driver(), device_.context());
  const BesideCaptures beside(device_.driver());
  while (!streams_ended(program)) {
    if (lost_ || Clock::now() > deadline) {
      program.lose();
      lost_ = run.lost = true;
      return;
    }
    std::this_thread::yield();
  }
}

}  // namespace coll
