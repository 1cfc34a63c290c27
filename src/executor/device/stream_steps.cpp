// SPDX-License-Identifier: Apache-2.0
// The steps of a run as operations of streams.
#include "executor/device/stream_steps.hpp"

#include <algorithm>
#include <utility>

#include "executor/device/stream_flights.hpp"
#include "executor/window_pieces.hpp"

namespace coll {
namespace {

using mover::Cursor;

template <bool kUnequal>
class StreamSteps {
 public:
  StreamSteps(Run& run, StreamProgram& program, const StepTools& tools)
      : run_(run), program_(program), tools_(tools), queue_(tools.queue) {}

  /// All lanes of one copy, for one pass.
  void take_pass(std::span<Cursor> lanes, std::uint64_t pass);

 private:
  /// Takes steps up to one that waits for a step that no stream has yet; true if it took any.
  bool take_lane(Cursor& lane);
  void take(const Cursor& lane, const BoundStep& step, const StepExtent& extent);
  bool awaits(const Cursor& lane, const BoundStep& step) const;

  std::byte* enter_slot(const DeviceRing& ring, std::uint32_t slot, CudaAddress& when_done);
  const std::byte* await_message(const Cursor& lane, const BoundStep& step,
                                 const StepExtent& extent);
  std::byte* await_slot(const Cursor& lane, const BoundStep& step, const StepExtent& extent);
  void copy(const Cursor& lane, const BoundStep& step, const StepExtent& extent,
            const std::byte* message, std::byte* slot);
  void combine(const Cursor& lane, const BoundStep& step, const StepExtent& extent,
               const std::byte* message, std::byte* slot);
  void combine_piece(const BoundStep& step, std::byte* into, std::byte* slot, const std::byte* from,
                     const std::byte* with, std::uint64_t elements);

  [[nodiscard]] std::size_t index_of(const Cursor& lane, std::uint16_t connection) const {
    return static_cast<std::size_t>(lane.lane->connections.data() - program_.connections.data()) +
           connection;
  }
  [[nodiscard]] std::uint64_t digest_of(const StepExtent& extent) const {
    if constexpr (kUnequal) return run_.call.digest ^ extent.lengths;
    return run_.call.digest;
  }
  /// The slot of the next message, and the one after it.
  static std::uint32_t next(std::uint32_t& slot, const DeviceRing& ring) {
    const std::uint32_t now = slot;
    slot = now + 1 == ring.credits ? 0 : now + 1;
    return now;
  }

  Run& run_;
  StreamProgram& program_;
  const StepTools& tools_;
  StreamQueue& queue_;
  CudaAddress free_slot_ = 0, sent_word_ = 0;  ///< words to signal when the step is done
};

template <bool kUnequal>
void StreamSteps<kUnequal>::take_pass(std::span<Cursor> lanes, std::uint64_t pass) {
  for (Cursor& lane : lanes) {
    lane.pass = pass;
    mover::enter_window(run_, lane);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Cursor& lane : lanes) moved |= take_lane(lane);
  }
  COLL_CHECK(
      std::ranges::all_of(lanes, [](const Cursor& lane) { return lane.next == lane.lane->end; }),
      "lanes do not wait for one another in a circle");
}

template <bool kUnequal>
bool StreamSteps<kUnequal>::take_lane(Cursor& lane) {
  const BoundStep* const first = lane.next;
  queue_.enter(tools_.streams[static_cast<std::size_t>(&lane - run_.lanes.data())]);
  for (; lane.next != lane.lane->end; ++lane.next, ++lane.extent) {
    const BoundStep& step = *lane.next;
    if (step.wait_lane != 0xff) {
      if (awaits(lane, step)) break;
      const BoundStep* const awaited = lane.siblings[step.wait_lane].lane->begin + step.wait_step;
      queue_.wait_for(
          tools_
              .events[program_.events[static_cast<std::size_t>(awaited - program_.steps.data())]]);
    }
    take(lane, step, *lane.extent);
    const std::uint16_t event =
        program_.events[static_cast<std::size_t>(&step - program_.steps.data())];
    if (event != StreamProgram::kNoEvent) queue_.record(tools_.events[event]);
  }
  return lane.next != first;
}

template <bool kUnequal>
bool StreamSteps<kUnequal>::awaits(const Cursor& lane, const BoundStep& step) const {
  const Cursor& other = lane.siblings[step.wait_lane];
  return other.next - other.lane->begin <= step.wait_step;
}

template <bool kUnequal>
void StreamSteps<kUnequal>::take(const Cursor& lane, const BoundStep& step,
                                 const StepExtent& extent) {
  if constexpr (kUnequal) {
    // Both ends leave out what is empty; but the first message says that they are in the same call.
    if (extent.bytes == 0 && lane.pass > 0) return;
  }
  const std::byte* const message = step.receives ? await_message(lane, step, extent) : nullptr;
  std::byte* const slot = step.sends ? await_slot(lane, step, extent) : nullptr;
  if (step.with_space != Space::none) {
    combine(lane, step, extent, message, slot);
    if (step.sends) queue_.signal(sent_word_, tools_.alive, tools_.barrier);
  } else {
    if (step.sends) {
      // The peer waits for its copy, nobody for ours: the message first.
      copy(lane, step, extent, message, slot);
      queue_.signal(sent_word_, tools_.alive, tools_.barrier);
    }
    if (step.into_space != Space::none) copy(lane, step, extent, message, nullptr);
  }
  if (step.receives) queue_.signal(free_slot_, tools_.alive, tools_.barrier);
}

/// Waits until this end may use the slot; `when_done` gets the word to signal then.
template <bool kUnequal>
std::byte* StreamSteps<kUnequal>::enter_slot(const DeviceRing& ring, std::uint32_t slot,
                                             CudaAddress& when_done) {
  queue_.wait(ring.awaited_word(slot));
  queue_.write(ring.awaited_word(slot), 0);
  when_done = ring.signalled_word(slot);
  return reinterpret_cast<std::byte*>(ring.slot(slot));
}

template <bool kUnequal>
const std::byte* StreamSteps<kUnequal>::await_message(const Cursor& lane, const BoundStep& step,
                                                      const StepExtent& extent) {
  const std::size_t index = index_of(lane, step.source);
  DevicePort& port = *program_.ports[index];
  const DeviceRing& ring = port.receiving();
  const std::uint32_t slot = next(program_.next_slots[index].receive, ring);
  port.will_receive(slot, extent.bytes, digest_of(extent));
  return enter_slot(ring, slot, free_slot_);
}

template <bool kUnequal>
std::byte* StreamSteps<kUnequal>::await_slot(const Cursor& lane, const BoundStep& step,
                                             const StepExtent& extent) {
  const std::size_t index = index_of(lane, step.target);
  DevicePort& port = *program_.ports[index];
  const DeviceRing& ring = port.sending();
  const std::uint32_t slot = next(program_.next_slots[index].send, ring);
  port.will_send(slot, extent.bytes, digest_of(extent));
  return enter_slot(ring, slot, sent_word_);
}

/// Copies the step's chunks from `message`, or else from their local place, to `slot`, or else to
/// theirs.
template <bool kUnequal>
void StreamSteps<kUnequal>::copy(const Cursor& lane, const BoundStep& step,
                                 const StepExtent& extent, const std::byte* message,
                                 std::byte* slot) {
  mover::for_each_copy<kUnequal>(run_, lane, step, extent, message, slot,
                                 [&](std::byte* to, const std::byte* from, std::size_t bytes) {
                                   if (to != from && bytes > 0) queue_.copy(to, from, bytes);
                                 });
}

/// value = from op with, to the local place, to `slot`, or to both.
template <bool kUnequal>
void StreamSteps<kUnequal>::combine(const Cursor& lane, const BoundStep& step,
                                    const StepExtent& extent, const std::byte* message,
                                    std::byte* slot) {
  mover::for_each_combination<kUnequal>(
      run_, lane, step, extent, message, slot,
      [&](std::byte* into, std::byte* both, const std::byte* from, const std::byte* with,
          std::uint64_t elements) { combine_piece(step, into, both, from, with, elements); });
}

template <bool kUnequal>
void StreamSteps<kUnequal>::combine_piece(const BoundStep& step, std::byte* into, std::byte* slot,
                                          const std::byte* from, const std::byte* with,
                                          std::uint64_t elements) {
  constexpr unsigned kThreads = 512;
  constexpr std::uint64_t kVector = 16;  // bytes that a thread takes at once
  if (step.swapped) std::swap(from, with);
  if (step.into_space == Space::none) into = std::exchange(slot, nullptr);
  reduce::ReduceArguments arguments;
  arguments.into = into;
  arguments.left = from;
  arguments.right = with;
  arguments.count = elements;
  arguments.copy = slot;
  arguments.ranks = static_cast<std::uint64_t>(program_.ranks);
  const std::uint64_t vectors = elements * run_.call.element_bytes / kVector + 1;
  const auto blocks = static_cast<unsigned>(
      std::min<std::uint64_t>((vectors + kThreads - 1) / kThreads, tools_.most_blocks));
  queue_.reduce(step.finish ? tools_.finish : tools_.combine, arguments, blocks, kThreads);
}

template <bool kUnequal>
void queue_pass(Run& run, StreamProgram& program, const StepTools& tools, std::uint64_t pass) {
  const std::uint64_t copies = program.shape.copies;
  const std::size_t lanes = run.lanes.size() / copies;
  const std::size_t first = pass % copies * lanes;
  StreamSteps<kUnequal>(run, program, tools)
      .take_pass(std::span(run.lanes).subspan(first, lanes), pass);
  for (std::size_t lane = first; lane < first + lanes; ++lane) {
    const Program::Lane& bound = *run.lanes[lane].lane;
    if (bound.begin == bound.end) continue;
    tools.queue.enter(tools.streams[lane]);
    tools.queue.write(run.flight->words[lane].there, static_cast<std::uint32_t>(pass + 1));
  }
}

}  // namespace

void queue_pass(Run& run, StreamProgram& program, const StepTools& tools, std::uint64_t pass) {
  run.extents.blocks == nullptr ? queue_pass<false>(run, program, tools, pass)
                                : queue_pass<true>(run, program, tools, pass);
}

}  // namespace coll
