// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: the CPU's executor, one call at a time, driven by who
// waits.
#include "executor/cpu_executor.hpp"

#include <algorithm>
#include <cstring>

namespace coll {

void CpuExecutor::start(Program& program, const CallBinding& call) {
  program_ = &program;
  call_ = call;
  if (program.windows.count != call.count || program.windows_element_bytes != call.element_bytes) {
    program.windows = cut_windows(call.count, call.element_bytes, program.chunks.parts,
                                  program.message_chunks, program.slice_bytes, program.copies);
    program.windows_element_bytes = call.element_bytes;
  }
  windows_ = program.windows;
  left_ = program.lanes.size();
  flushed_ = false;
  failed_ = nullptr;
  for (Lane& lane : program.lanes) {
    lane.pass = lane.first_pass;
    lane.done = false;
    if (!next_pass(lane)) --left_;
  }
}

/// Enters the window of `lane.pass`; false if the lane has nothing more to do.
bool CpuExecutor::next_pass(Lane& lane) {
  if (lane.pass >= windows_.passes || lane.begin == lane.end) {
    lane.done = true;
    return false;
  }
  lane.next = lane.begin;
  lane.begin_element = lane.pass * windows_.elements;
  lane.elements =
      std::min(windows_.elements, windows_.count - std::min(windows_.count, lane.begin_element));
  return true;
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
    flushed_ = flush();
    moved |= flushed_;
  }
  if (!moved && program_->needs_progress) {
    for (Connection* connection : program_->connections) connection->progress();
  }
  return moved;
}

bool CpuExecutor::flush() {
  if (!program_->needs_progress) return true;
  bool all = true;
  for (Connection* connection : program_->connections) all &= connection->flush();
  return all;
}

bool CpuExecutor::find_failure() {
  for (const Connection* connection : program_->connections) {
    if (connection->status().ok()) continue;
    failed_ = connection;
    return true;
  }
  return false;
}

Rank CpuExecutor::waiting_for() const {
  for (const Lane& lane : program_->lanes) {
    if (lane.done) continue;
    const BoundStep& step = *lane.next;
    if (step.receives) return lane.connections[step.source]->peer();
    if (step.sends) return lane.connections[step.target]->peer();
  }
  return kNoRank;
}

bool CpuExecutor::advance(Lane& lane) {
  bool moved = false;
  while (run_step(lane, *lane.next)) {
    moved = true;
    if (++lane.next != lane.end) continue;
    lane.pass += program_->copies;
    if (next_pass(lane)) continue;
    --left_;
    break;
  }
  return moved;
}

bool CpuExecutor::run_step(Lane& lane, const BoundStep& step) {
  if (step.wait_lane != 0xff && !wait_is_over(lane, step)) return false;
  switch (step.kind) {
    case BoundStep::Kind::send:
      return run_send(lane, step);
    case BoundStep::Kind::receive:
      return run_receive(lane, step);
    case BoundStep::Kind::fused:
      return run_fused(lane, step);
  }
  return false;
}

bool CpuExecutor::wait_is_over(const Lane& lane, const BoundStep& step) const {
  const Lane& other = lane.siblings[step.wait_lane];
  if (other.done || other.pass != lane.pass) return other.done || other.pass > lane.pass;
  return other.next - other.begin > step.wait_step;
}

/// Calls use(block, first element of the part, elements) for each stretch of the step's chunks that
/// is contiguous in every space; `block` counts from the operand's own.
template <class Use>
void CpuExecutor::for_each_run(const Lane& lane, const BoundStep& step, Use use) const {
  const std::uint64_t chunk = windows_.chunk;
  const std::uint32_t parts = program_->chunks.parts;
  std::uint64_t part = step.length.part;
  std::uint64_t left = step.count;
  for (std::uint64_t block = 0; left > 0; ++block, part = 0) {
    const std::uint64_t here = std::min<std::uint64_t>(left, parts - part);
    const std::uint64_t begin = std::min(part * chunk, lane.elements);
    const std::uint64_t end = std::min((part + here) * chunk, lane.elements);
    use(block, begin, end - begin);
    left -= here;
  }
}

std::size_t CpuExecutor::message_bytes(const Lane& lane, const BoundStep& step) const {
  std::uint64_t elements = 0;
  for_each_run(lane, step, [&](std::uint64_t, std::uint64_t, std::uint64_t n) { elements += n; });
  return elements * call_.element_bytes;
}

/// Do the step's chunks lie in one piece in `space`? Always within a block; over blocks if the
/// window is the whole block.
bool CpuExecutor::contiguous(const Lane& lane, const BoundStep& step, Space space) const {
  if (step.length.part + step.count <= program_->chunks.parts) return true;
  const std::uint64_t period = space == Space::scratch ? windows_.elements : windows_.count;
  return lane.elements == period;
}

std::byte* CpuExecutor::address(const Lane& lane, Space space, BoundOperand operand,
                                std::uint64_t block, std::uint64_t element) const {
  block += operand.block;
  if (space == Space::scratch) {
    return lane.scratch + (block * windows_.elements + element) * call_.element_bytes;
  }
  const std::uint64_t offset =
      (block * windows_.count + lane.begin_element + element) * call_.element_bytes;
  if (space == Space::output) return call_.output + offset;
  return const_cast<std::byte*>(call_.input) + offset;  // never written: `into` is not the input
}

bool CpuExecutor::run_send(const Lane& lane, const BoundStep& step) {
  Connection& to = *lane.connections[step.target];
  const std::size_t bytes = message_bytes(lane, step);
  if (bytes == 0) return to.send(nullptr, 0, call_.digest);
  if (contiguous(lane, step, step.from_space)) {
    const std::uint64_t element = std::min(step.length.part * windows_.chunk, lane.elements);
    return to.send(address(lane, step.from_space, step.from, 0, element), bytes, call_.digest);
  }
  std::byte* slot = to.acquire(bytes);
  if (slot == nullptr) return false;
  for_each_run(lane, step, [&](std::uint64_t block, std::uint64_t element, std::uint64_t n) {
    const std::size_t length = n * call_.element_bytes;
    std::memcpy(slot, address(lane, step.from_space, step.from, block, element), length);
    slot += length;
  });
  to.commit(bytes, call_.digest);
  return true;
}

bool CpuExecutor::run_receive(const Lane& lane, const BoundStep& step) {
  Connection& from = *lane.connections[step.source];
  const std::size_t bytes = message_bytes(lane, step);
  if (bytes > 0 && step.into_space != Space::none && contiguous(lane, step, step.into_space)) {
    const std::uint64_t element = std::min(step.length.part * windows_.chunk, lane.elements);
    return from.receive(address(lane, step.into_space, step.into, 0, element), bytes, call_.digest);
  }
  const std::byte* slot = from.peek(bytes, call_.digest);
  if (slot == nullptr) return false;
  if (bytes > 0 && step.into_space != Space::none) {
    for_each_run(lane, step, [&](std::uint64_t block, std::uint64_t element, std::uint64_t n) {
      const std::size_t length = n * call_.element_bytes;
      std::memcpy(address(lane, step.into_space, step.into, block, element), slot, length);
      slot += length;
    });
  }
  from.release();
  return true;
}

bool CpuExecutor::run_fused(const Lane& lane, const BoundStep& step) {
  Connection* source = step.receives ? lane.connections[step.source] : nullptr;
  Connection* target = step.sends ? lane.connections[step.target] : nullptr;
  const std::size_t bytes = message_bytes(lane, step);
  const std::byte* message = nullptr;
  std::byte* slot = nullptr;
  if (source != nullptr && (message = source->peek(bytes, call_.digest)) == nullptr) return false;
  if (target != nullptr && (slot = target->acquire(bytes)) == nullptr) return false;

  if (step.with_space != Space::none) {
    reduce_into(lane, step, message, slot);
    if (target != nullptr) target->commit(bytes, call_.digest);
  } else {
    // The peer waits for its copy, nobody for ours: the slot first.
    if (target != nullptr) {
      copy_runs(lane, step, message, slot);
      target->commit(bytes, call_.digest);
    }
    if (step.into_space != Space::none) copy_runs(lane, step, message, nullptr);
  }
  if (source != nullptr) source->release();
  return true;
}

/// Copies the step's chunks from `message`, or else from their local place, to `slot`, or else to
/// theirs.
void CpuExecutor::copy_runs(const Lane& lane, const BoundStep& step, const std::byte* message,
                            std::byte* slot) {
  const reduce::CopyKernels& copies = reduce::copy_kernels();
  const unsigned how = slot == nullptr ? store_of(step) : 0;
  for_each_run(lane, step, [&](std::uint64_t block, std::uint64_t element, std::uint64_t n) {
    const std::size_t length = n * call_.element_bytes;
    if (length == 0) return;
    const std::byte* from =
        message != nullptr ? message : address(lane, step.from_space, step.from, block, element);
    std::byte* to =
        slot != nullptr ? slot : address(lane, step.into_space, step.into, block, element);
    if (to != from) copies.copy[how](to, from, length);
    if (message != nullptr) message += length;
    if (slot != nullptr) slot += length;
  });
}

/// value = from op with, to the local place, to `slot`, or to both.
void CpuExecutor::reduce_into(const Lane& lane, const BoundStep& step, const std::byte* message,
                              std::byte* slot) {
  const reduce::Kernels& kernels = *call_.kernels;
  const auto ranks = static_cast<std::size_t>(program_->ranks);
  const bool into = step.into_space != Space::none;
  const unsigned how = store_of(step);
  for_each_run(lane, step, [&](std::uint64_t block, std::uint64_t element, std::uint64_t n) {
    const std::size_t length = n * call_.element_bytes;
    if (length == 0) return;
    const std::byte* from =
        message != nullptr ? message : address(lane, step.from_space, step.from, block, element);
    const std::byte* with = address(lane, step.with_space, step.with, block, element);
    std::byte* local = into ? address(lane, step.into_space, step.into, block, element) : slot;
    if (into && slot != nullptr && how != 0) {
      (step.finish ? kernels.finish_both : kernels.combine_both)[how](local, slot, from, with, n,
                                                                      ranks);
    } else {
      (step.finish ? kernels.finish : kernels.combine)[into ? how : 0](local, from, with, n, ranks);
      // Stores to lines of another core are slow one by one: a plain copy moves them in bulk.
      if (into && slot != nullptr) std::memcpy(slot, local, length);
    }
    if (message != nullptr) message += length;
    if (slot != nullptr) slot += length;
  });
}

/// How results of the step go to memory: past the caches only to the caller's output.
unsigned CpuExecutor::store_of(const BoundStep& step) const {
  return static_cast<unsigned>(step.into_space == Space::output ? call_.store
                                                                : reduce::Store::cached);
}

}  // namespace coll
