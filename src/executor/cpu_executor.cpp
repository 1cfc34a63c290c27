// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: the CPU's executor, one call at a time, driven by who
// waits.
#include "executor/cpu_executor.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace coll {
namespace {

constexpr int kInput = static_cast<int>(Space::input);
constexpr int kOutput = static_cast<int>(Space::output);

/// In numbers: an operand that this rank does not have is at nothing plus an offset, never looked
/// at.
std::byte* at(const Program::LaneState& lane, Space space, std::uint64_t offset) {
  const auto base = reinterpret_cast<std::uintptr_t>(lane.base[static_cast<int>(space)]);
  return reinterpret_cast<std::byte*>(base + offset);
}

}  // namespace

void CpuExecutor::start(Program& program, const CallBinding& call) {
  program_ = &program;
  call_ = &call;
  program.cut(call.count, call.element_bytes);
  left_ = program.lanes.size();
  lent_ = false;
  flushed_ = false;
  failed_ = nullptr;
  for (Lane& lane : program.lanes) {
    lane.pass = lane.first_pass;
    lane.done = lane.pass >= program.windows.passes || lane.begin == lane.end;
    if (lane.done) {
      --left_;
    } else {
      enter_window(lane);
    }
  }
}

/// Enters the window of `lane.pass`.
void CpuExecutor::enter_window(Lane& lane) {
  const Windows& windows = program_->windows;
  const bool last = lane.pass + 1 == windows.passes;
  lane.next = lane.begin;
  lane.extent = program_->extents.data() + (lane.begin - program_->steps.data()) +
                (last ? program_->steps.size() : 0);
  const std::uint64_t offset = lane.pass * windows.elements * call_->element_bytes;
  const auto window_of = [offset](std::byte* buffer) {
    return buffer == nullptr ? nullptr : buffer + offset;
  };
  // Never written: `into` is not the input.
  lane.base[kInput] = window_of(const_cast<std::byte*>(call_->input));
  lane.base[kOutput] = window_of(call_->output);
}

CpuExecutor::Outcome CpuExecutor::drive(double idle_s) {
  Waiter waiter(policy_);
  moved_ = false;
  while (true) {
    if (poll()) {
      moved_ = true;
      if (done()) return Outcome::done;
      waiter.reset();
      continue;
    }
    if (done()) return Outcome::done;
    if (!waiter.turn(program_->connections)) continue;
    if (find_failure()) return Outcome::failed;
    if (stop_->load(std::memory_order_relaxed)) return Outcome::stopped;
    if (waiter.waited_s() > idle_s) return Outcome::idle;
  }
}

bool CpuExecutor::poll() {
  bool moved = false;
  for (Lane& lane : program_->lanes) {
    if (lane.done) continue;
    moved |= advance(lane);
  }
  if (left_ == 0 && !flushed_) {
    flushed_ = !(program_->needs_progress || lent_) || flush();
    moved |= flushed_;
  }
  if (!moved && program_->needs_progress) {
    for (Connection* connection : program_->connections) connection->progress();
  }
  return moved;
}

bool CpuExecutor::flush() {
  bool all = true;
  for (Connection* connection : program_->connections) all &= connection->flush();
  return all;
}

void CpuExecutor::abandon() {
  if (program_ == nullptr) return;
  for (Connection* connection : program_->connections) connection->withdraw();
}

bool CpuExecutor::find_failure() {
  for (const Connection* connection : program_->connections) {
    if (connection->status().ok()) continue;
    failed_ = connection;
    return true;
  }
  return false;
}

inline bool CpuExecutor::advance(Lane& lane) {
  bool moved = false;
  while (run_step(lane, *lane.next, *lane.extent)) {
    moved = true;
    ++lane.extent;
    if (++lane.next != lane.end) continue;
    lane.pass += program_->shape.copies;
    if (lane.pass >= program_->windows.passes) {
      lane.done = true;
      --left_;
      break;
    }
    enter_window(lane);
  }
  return moved;
}

inline bool CpuExecutor::run_step(Lane& lane, const BoundStep& step, const StepExtent& extent) {
  if (step.wait_lane != 0xff && !wait_is_over(lane, step)) return false;
  if (step.kind == BoundStep::Kind::fused) return run_fused(lane, step, extent);
  if (step.kind == BoundStep::Kind::send) {
    if (!send(lane, step, extent)) return false;
    // The peer waits for its copy, nobody for ours: the message first.
    if (step.into_space != Space::none) copy(lane, step, extent, nullptr, nullptr);
    return true;
  }
  return receive(lane, step, extent);
}

bool CpuExecutor::wait_is_over(const Lane& lane, const BoundStep& step) {
  const Lane& other = lane.siblings[step.wait_lane];
  if (other.done || other.pass != lane.pass) return other.done || other.pass > lane.pass;
  return other.next - other.begin > step.wait_step;
}

bool CpuExecutor::run_fused(Lane& lane, const BoundStep& step, const StepExtent& extent) {
  Connection* source = step.receives ? lane.connections[step.source] : nullptr;
  Connection* target = step.sends ? lane.connections[step.target] : nullptr;
  const std::byte* message = nullptr;
  std::byte* slot = nullptr;
  if (source != nullptr && (message = source->peek(extent.bytes, call_->digest)) == nullptr) {
    return false;
  }
  if (target != nullptr && (slot = acquire(lane, *target, step, extent)) == nullptr) return false;
  const std::byte* kept = at(lane, step.into_space, extent.into);
  const bool lend = target != nullptr && may_lend(*target, step, extent, kept);
  if (lend) slot = lane.places.staged = nullptr;  // the peer will read what is kept here
  const auto intact = [source] { return source == nullptr || source->intact(); };

  if (step.with_space != Space::none) {
    reduce(lane, step, extent, message, slot);
    if (!intact()) return false;
    if (slot != nullptr) commit(lane, *target, step, extent);
  } else {
    if (slot != nullptr) {
      copy(lane, step, extent, message, slot);
      if (!intact()) return false;
      commit(lane, *target, step, extent);
    }
    if (step.into_space != Space::none) {
      copy(lane, step, extent, message, nullptr);
      if (!intact()) return false;
    }
  }
  if (lend) {
    target->lend(kept, extent.bytes, call_->digest);  // its credit was there already
    lent_ = true;
  }
  if (source != nullptr) source->release();
  return true;
}

/// Calls use(from, with, into, elements) for each contiguous piece of the step's chunks; the places
/// of operands that the step lacks mean nothing.
template <class Use>
void CpuExecutor::for_each_piece(const Lane& lane, const BoundStep& step, Use use) const {
  const auto place = [&](Space space, BoundOperand operand, std::uint64_t block,
                         std::uint64_t element) {
    const std::uint64_t elements = (operand.block + block) * program_->period(space) + element;
    return at(lane, space, elements * call_->element_bytes);
  };
  for_each_run(*program_, step, program_->elements_of(lane.pass),
               [&](std::uint64_t block, std::uint64_t element, std::uint64_t n) {
                 if (n == 0) return;
                 use(place(step.from_space, step.from, block, element),
                     place(step.with_space, step.with, block, element),
                     place(step.into_space, step.into, block, element), n);
               });
}

bool CpuExecutor::send(Lane& lane, const BoundStep& step, const StepExtent& extent) {
  Connection& to = *lane.connections[step.target];
  if (step.stage == BoundStep::Stage::again && lane.places.staged != nullptr &&
      extent.bytes >= to.least_kept() && to.lends(lane.places.staged, extent.bytes, false)) {
    return to.lend_kept(lane.places.staged, extent.bytes, call_->digest);
  }
  if (extent.one_piece) [[likely]] {
    const std::byte* from = at(lane, step.from_space, extent.from);
    if (may_lend(to, step, extent, from)) {
      if (step.stage == BoundStep::Stage::first) lane.places.staged = nullptr;
      lent_ = true;
      return to.lend(from, extent.bytes, call_->digest);
    }
    if (step.stage != BoundStep::Stage::first) return to.send(from, extent.bytes, call_->digest);
  }
  std::byte* place = acquire(lane, to, step, extent);
  if (place == nullptr) return false;
  copy(lane, step, extent, nullptr, place);
  commit(lane, to, step, extent);
  return true;
}

/// Where to write the step's message: the next place of the lane if it is to be staged, else the
/// slot; null while no credit is free.
inline std::byte* CpuExecutor::acquire(Lane& lane, Connection& to, const BoundStep& step,
                                       const StepExtent& extent) {
  std::byte* slot = to.acquire(extent.bytes);
  if (step.stage != BoundStep::Stage::first) return slot;
  StagePlaces& places = lane.places;
  places.staged = nullptr;
  if (slot == nullptr || places.begin == nullptr || extent.bytes < places.least ||
      extent.bytes < to.least_kept()) {
    return slot;
  }
  if (!to.lends(places.next(), extent.bytes, false)) {
    places.pass();  // the next one may lie better
    return slot;
  }
  return places.staged = places.next();
}

/// Sends what was written to where `acquire` said.
inline void CpuExecutor::commit(Lane& lane, Connection& to, const BoundStep& step,
                                const StepExtent& extent) {
  if (step.stage != BoundStep::Stage::first || lane.places.staged == nullptr) {
    return to.commit(extent.bytes, call_->digest);
  }
  lane.places.take();
  to.lend_kept(lane.places.staged, extent.bytes, call_->digest);
}

inline bool CpuExecutor::may_lend(const Connection& to, const BoundStep& step,
                                  const StepExtent& extent, const std::byte* data) const {
  return extent.bytes >= to.least_loan() && holds(step.lend) && extent.one_piece &&
         to.lends(data, extent.bytes, step.fetch);
}

bool CpuExecutor::receive(const Lane& lane, const BoundStep& step, const StepExtent& extent) {
  Connection& from = *lane.connections[step.source];
  // Past the caches from where it lies; what is fetched comes without a store of ours.
  const bool streams =
      store_of(step) != 0 && from.peeks_in_place() && program_->shape.loans != Loans::all;
  if (extent.one_piece && !streams) [[likely]] {
    return from.receive(at(lane, step.into_space, extent.into), extent.bytes, call_->digest);
  }
  const std::byte* message = from.peek(extent.bytes, call_->digest);
  if (message == nullptr) return false;
  copy(lane, step, extent, message, nullptr);
  if (!from.intact()) return false;
  from.release();
  return true;
}

/// Copies the step's chunks from `message`, or else from their local place, to `slot`, or else to
/// theirs.
inline void CpuExecutor::copy(const Lane& lane, const BoundStep& step, const StepExtent& extent,
                              const std::byte* message, std::byte* slot) {
  const bool streaming = slot == nullptr && store_of(step) != 0;
  const auto run = [&](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to == from || bytes == 0) return;
    if (streaming) {
      reduce::copy_kernels().copy[1](to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  };
  if (extent.one_piece) [[likely]] {
    run(slot != nullptr ? slot : at(lane, step.into_space, extent.into),
        message != nullptr ? message : at(lane, step.from_space, extent.from), extent.bytes);
    return;
  }
  for_each_piece(lane, step,
                 [&](const std::byte* from, const std::byte*, std::byte* into, std::uint64_t n) {
                   const std::size_t length = n * call_->element_bytes;
                   if (message != nullptr) from = std::exchange(message, message + length);
                   if (slot != nullptr) into = std::exchange(slot, slot + length);
                   run(into, from, length);
                 });
}

/// value = from op with, to the local place, to `slot`, or to both.
void CpuExecutor::reduce(const Lane& lane, const BoundStep& step, const StepExtent& extent,
                         const std::byte* message, std::byte* slot) {
  if (extent.one_piece) {
    if (extent.bytes == 0) return;
    reduce_run(step, at(lane, step.into_space, extent.into), slot,
               message != nullptr ? message : at(lane, step.from_space, extent.from),
               at(lane, step.with_space, extent.with), extent.elements);
    return;
  }
  for_each_piece(
      lane, step,
      [&](const std::byte* from, const std::byte* with, std::byte* into, std::uint64_t n) {
        const std::size_t length = n * call_->element_bytes;
        if (message != nullptr) from = std::exchange(message, message + length);
        reduce_run(step, into, slot, from, with, n);
        if (slot != nullptr) slot += length;
      });
}

void CpuExecutor::reduce_run(const BoundStep& step, std::byte* into, std::byte* slot,
                             const std::byte* from, const std::byte* with, std::uint64_t elements) {
  const reduce::Kernels& kernels = *call_->kernels;
  const auto ranks = static_cast<std::size_t>(program_->ranks);
  const unsigned how = store_of(step);
  const auto& combine = step.finish ? kernels.finish : kernels.combine;
  const auto& combine_both = step.finish ? kernels.finish_both : kernels.combine_both;
  if (step.into_space == Space::none) {
    combine[0](slot, from, with, elements, ranks);
  } else if (slot == nullptr) {
    combine[how](into, from, with, elements, ranks);
  } else if (how != 0) {
    combine_both[how](into, slot, from, with, elements, ranks);
  } else {
    // Stores to lines of another core are slow one by one: a plain copy moves them in bulk.
    combine[0](into, from, with, elements, ranks);
    std::memcpy(slot, into, elements * call_->element_bytes);
  }
}

}  // namespace coll
