// SPDX-License-Identifier: Apache-2.0
// How the CPU takes the steps of a run.
#pragma once
#include <algorithm>
#include <utility>

#include "base/copy_bytes.hpp"
#include "executor/call_turns.hpp"
#include "executor/window_pieces.hpp"

namespace coll {

/// For calls of unequal blocks (unequal_lanes.cpp). They have a mover of their own, so that other
/// calls need not ask about blocks. It is compiled apart: in one file with it, the mover of equal
/// blocks takes ten instructions more.
bool advance_unequal_lanes(Run& run);

namespace mover {

/// Moves the lanes of one run.
template <bool kUnequal>
class Mover {
 public:
  explicit Mover(Run& run) : run_(run), program_(*run.program), call_(run.call) {}
  /// Takes the lane's steps until one has to wait; of a run by pass, to the pass's end at most.
  bool advance(Cursor& lane);
  /// The same for a lane whose steps wait for their turns.
  [[gnu::noinline]] bool advance_in_turn(Cursor& lane);

 private:
  bool enter_next_pass(Cursor& lane);
  bool run_step(Cursor& lane, const BoundStep& step, const StepExtent& extent);
  bool run_fused(Cursor& lane, const BoundStep& step, const StepExtent& extent);
  [[gnu::noinline]] bool run_in_parts(Cursor& lane, const BoundStep& step,
                                      const StepExtent& extent);
  bool send(Cursor& lane, const BoundStep& step, const StepExtent& extent);
  [[gnu::noinline]] bool send_or_lend(Cursor& lane, const BoundStep& step,
                                      const StepExtent& extent);
  bool receive(const Cursor& lane, const BoundStep& step, const StepExtent& extent);
  void copy(const Cursor& lane, const BoundStep& step, const StepExtent& extent,
            const std::byte* message, std::byte* slot);
  void reduce(const Cursor& lane, const BoundStep& step, const StepExtent& extent,
              const std::byte* message, std::byte* slot);
  void reduce_run(const BoundStep& step, std::byte* into, std::byte* slot, const std::byte* from,
                  const std::byte* with, std::uint64_t elements, bool streams, bool lands);
  [[nodiscard]] unsigned store_of(const BoundStep& step, bool lands = false) const {
    const reduce::Store store = lands ? call_.landed_store : call_.store;
    return static_cast<unsigned>(holds(step.stream) ? store : reduce::Store::cached);
  }
  /// Whether a message is better written to its slot past the caches.
  [[nodiscard]] static bool streams_to(const Connection& to, const StepExtent& extent) {
    return to.is_streamed(extent.bytes);
  }
  /// `streaming`: past the caches.
  [[gnu::always_inline]] static void copy_bytes(std::byte* to, const std::byte* from,
                                                std::size_t bytes, bool streaming) {
    if (streaming) {
      reduce::copy_kernels().copy[1](to, from, bytes);
    } else {
      coll::copy_bytes(to, from, bytes);
    }
  }
  [[nodiscard]] std::uint64_t digest_of(const StepExtent& extent) const {
    if constexpr (kUnequal) return call_.digest ^ extent.lengths;
    return call_.digest;
  }
  /// In this call?
  [[nodiscard]] bool holds(BoundStep::When when) const {
    return when == BoundStep::When::always || (when == BoundStep::When::if_apart && call_.apart);
  }
  [[nodiscard]] static bool comes_in_parts(const Cursor& lane, const BoundStep& step,
                                           const StepExtent& extent);
  [[nodiscard]] bool may_hold_message(const BoundStep& step) const;
  std::byte* acquire(Cursor& lane, const BoundStep& step, const StepExtent& extent);
  static bool all_caught_up(const Cursor& lane, const BoundStep& first);
  void commit(Cursor& lane, const BoundStep& step, const StepExtent& extent);
  [[nodiscard]] Lending* lender(const Cursor& lane, const BoundStep& step, const StepExtent& extent,
                                const std::byte* data) const;
  [[nodiscard]] static bool intact(const Cursor& lane, const BoundStep& step);
  [[nodiscard]] static bool wait_is_over(const Cursor& lane, const BoundStep& step);

  Run& run_;
  const Program& program_;
  const CallBinding& call_;
};

template <bool kUnequal>
[[gnu::always_inline]] inline bool Mover<kUnequal>::advance(Cursor& lane) {
  bool moved = false;
  while (run_step(lane, *lane.next, *lane.extent)) {
    moved = true;
    ++lane.extent;
    if (++lane.next != lane.lane->end) continue;
    if (enter_next_pass(lane)) {
      if (!run_.by_pass) continue;
    } else if (run_.queued) {
      pass_turns(lane);
    }
    break;
  }
  return moved;
}

template <bool kUnequal>
bool Mover<kUnequal>::advance_in_turn(Cursor& lane) {
  bool moved = false;
  while (has_turn(lane, *lane.next) && run_step(lane, *lane.next, *lane.extent)) {
    moved = true;
    const bool in_last_pass = lane.pass + program_.shape.copies >= run_.extents.windows.passes;
    if (in_last_pass) pass_turns(lane, *lane.next);
    ++lane.extent;
    if (++lane.next == lane.lane->end && (!enter_next_pass(lane) || run_.by_pass)) break;
  }
  return moved;
}

/// False: there is none, the lane is done.
template <bool kUnequal>
[[gnu::always_inline]] inline bool Mover<kUnequal>::enter_next_pass(Cursor& lane) {
  lane.pass += program_.shape.copies;
  if (lane.pass >= run_.extents.windows.passes) {
    lane.state = Cursor::State::done;
    --run_.left;
    return false;
  }
  enter_window(run_, lane);
  if constexpr (!kUnequal) {
    if (!lane.lane->expected.empty()) [[unlikely]]
      expect_messages(run_, lane);
  }
  return true;
}

template <bool kUnequal>
inline bool Mover<kUnequal>::run_step(Cursor& lane, const BoundStep& step,
                                      const StepExtent& extent) {
  if (step.wait_lane != 0xff && !wait_is_over(lane, step)) return false;
  if constexpr (kUnequal) {
    // Both ends leave out what is empty; but the first message says that they are in the same call.
    if (extent.bytes == 0 && lane.pass > 0) return true;
  }
  if (step.kind == BoundStep::Kind::fused) return run_fused(lane, step, extent);
  if (step.kind == BoundStep::Kind::send) {
    if (!send(lane, step, extent)) return false;
    // The peer waits for its copy, nobody for ours: the message first.
    if (step.into_space != Space::none) copy(lane, step, extent, nullptr, nullptr);
    return true;
  }
  return receive(lane, step, extent);
}

template <bool kUnequal>
bool Mover<kUnequal>::wait_is_over(const Cursor& lane, const BoundStep& step) {
  const Cursor& other = lane.siblings[step.wait_lane];
  if (other.done() || other.pass != lane.pass) return other.done() || other.pass > lane.pass;
  return other.next - other.lane->begin > step.wait_step;
}

template <bool kUnequal>
bool Mover<kUnequal>::run_fused(Cursor& lane, const BoundStep& step, const StepExtent& extent) {
  Connection* source = step.receives ? lane.lane->connections[step.source] : nullptr;
  const std::byte* message = nullptr;
  std::byte* slot = nullptr;
  if (source != nullptr && extent.bytes > source->part_bytes()) [[unlikely]] {
    if (comes_in_parts(lane, step, extent)) return run_in_parts(lane, step, extent);
  }
  if (source != nullptr && (message = source->peek(extent.bytes, digest_of(extent))) == nullptr) {
    return false;
  }
  if (step.sends && (slot = acquire(lane, step, extent)) == nullptr) return false;
  const std::byte* kept = at(lane, step.into_space, extent.into);
  Lending* lends = step.sends ? lender(lane, step, extent, kept) : nullptr;
  if (lends != nullptr) {  // the peer reads what is kept here
    slot = nullptr;
    if (step.stage == BoundStep::Stage::first) lane.places->staged = nullptr;
  }

  if (step.with_space != Space::none) {
    reduce(lane, step, extent, message, slot);
    if (!intact(lane, step)) return false;
    if (slot != nullptr) commit(lane, step, extent);
  } else {
    if (slot != nullptr) {
      copy(lane, step, extent, message, slot);
      if (!intact(lane, step)) return false;
      commit(lane, step, extent);
    }
    if (step.into_space != Space::none) {
      copy(lane, step, extent, message, nullptr);
      if (!intact(lane, step)) return false;
    }
  }
  if (lends != nullptr) {
    lends->lend(kept, extent.bytes, digest_of(extent));  // its credit was there already
    note_loan(run_, lane, step.target);
  }
  if (source != nullptr) source->release();
  return true;
}

template <bool kUnequal>
inline bool Mover<kUnequal>::send(Cursor& lane, const BoundStep& step, const StepExtent& extent) {
  const bool plain = step.stage == BoundStep::Stage::none && step.lend == BoundStep::When::never;
  Connection& to = *lane.lane->connections[step.target];
  if (!plain || !extent.one_piece || streams_to(to, extent))
    return send_or_lend(lane, step, extent);
  const std::byte* from = at(lane, step.from_space, extent.from);
  return to.send(from, extent.bytes, digest_of(extent));
}

/// Sends what may be lent or staged, or lies in pieces. Out of line: with its registers inlined,
/// plain messages took ten instructions more.
template <bool kUnequal>
bool Mover<kUnequal>::send_or_lend(Cursor& lane, const BoundStep& step, const StepExtent& extent) {
  Connection& to = *lane.lane->connections[step.target];
  Lending* lending = lane.lane->lendings[step.target];
  const std::byte* staged = lane.places->staged;
  if (step.stage == BoundStep::Stage::again && staged != nullptr && lending != nullptr &&
      extent.bytes >= lending->least_kept() && lending->lends(staged, extent.bytes, Fetch::never)) {
    return lending->lend_kept(staged, extent.bytes, digest_of(extent));
  }
  if (extent.one_piece) {
    const std::byte* from = at(lane, step.from_space, extent.from);
    if (Lending* lends = lender(lane, step, extent, from)) {
      if (step.stage == BoundStep::Stage::first) lane.places->staged = nullptr;
      if (!lends->lend(from, extent.bytes, digest_of(extent))) return false;
      note_loan(run_, lane, step.target);
      return true;
    }
    if (step.stage != BoundStep::Stage::first && !streams_to(to, extent))
      return to.send(from, extent.bytes, digest_of(extent));
  }
  std::byte* place = acquire(lane, step, extent);
  if (place == nullptr) return false;
  copy(lane, step, extent, nullptr, place);
  commit(lane, step, extent);
  return true;
}

/// Where to write the step's message: the next place of the lane if it is to be staged, else the
/// slot; null while no credit is free.
template <bool kUnequal>
inline std::byte* Mover<kUnequal>::acquire(Cursor& lane, const BoundStep& step,
                                           const StepExtent& extent) {
  std::byte* slot = lane.lane->connections[step.target]->acquire(extent.bytes);
  if (step.stage != BoundStep::Stage::first) return slot;
  StagePlaces& places = *lane.places;
  places.staged = nullptr;
  Lending* lending = lane.lane->lendings[step.target];
  if (slot == nullptr || places.begin == nullptr || lending == nullptr ||
      extent.bytes < std::max(places.least, lending->least_kept())) {
    return slot;
  }
  if (places.spares_next() && all_caught_up(lane, step)) [[unlikely]]
    places.begin_again();
  if (!lending->lends(places.next(), extent.bytes, Fetch::never)) {
    places.pass();  // the next one may lie better
    return slot;
  }
  return places.staged = places.next();
}

/// Whether all who get the message of `first` have read what they were lent before.
template <bool kUnequal>
bool Mover<kUnequal>::all_caught_up(const Cursor& lane, const BoundStep& first) {
  const BoundStep* step = &first;
  do {
    Lending* lending = lane.lane->lendings[step->target];
    if (lending != nullptr && !lending->caught_up()) return false;
  } while (++step != lane.lane->end && step->stage == BoundStep::Stage::again);
  return true;
}

/// Sends what was written to where `acquire` said.
template <bool kUnequal>
inline void Mover<kUnequal>::commit(Cursor& lane, const BoundStep& step, const StepExtent& extent) {
  if (step.stage != BoundStep::Stage::first || lane.places->staged == nullptr) {
    return lane.lane->connections[step.target]->commit(extent.bytes, digest_of(extent));
  }
  lane.places->take();
  lane.lane->lendings[step.target]->lend_kept(lane.places->staged, extent.bytes, digest_of(extent));
}

/// Who lends the step's message until the call ends; null where it goes through a slot.
template <bool kUnequal>
inline Lending* Mover<kUnequal>::lender(const Cursor& lane, const BoundStep& step,
                                        const StepExtent& extent, const std::byte* data) const {
  if (!holds(step.lend) || !extent.one_piece) return nullptr;
  Lending* lending = lane.lane->lendings[step.target];
  const bool lends = lending != nullptr && extent.bytes >= lending->least_loan() &&
                     lending->lends(data, extent.bytes, step.fetch);
  return lends ? lending : nullptr;
}

/// Is the message that the step read, if any, still what its sender sent?
template <bool kUnequal>
inline bool Mover<kUnequal>::intact(const Cursor& lane, const BoundStep& step) {
  Lending* lending = step.receives ? lane.lane->lendings[step.source] : nullptr;
  return lending == nullptr || lending->intact();
}

template <bool kUnequal>
bool Mover<kUnequal>::receive(const Cursor& lane, const BoundStep& step, const StepExtent& extent) {
  Connection& from = *lane.lane->connections[step.source];
  // Past the caches from where it lies; what is fetched comes without a store of ours.
  Lending* const lending = lane.lane->lendings[step.source];
  const bool streams = store_of(step) != 0 && lending != nullptr &&
                       program_.shape.loans != Loans::all && !lending->fetches(extent.bytes);
  if (extent.one_piece && !streams) [[likely]] {
    return from.receive(at(lane, step.into_space, extent.into), extent.bytes, digest_of(extent));
  }
  const std::byte* message = from.peek(extent.bytes, digest_of(extent));
  if (message == nullptr) return false;
  copy(lane, step, extent, message, nullptr);
  if (!intact(lane, step)) return false;
  from.release();
  return true;
}

/// Copies the step's chunks from `message`, or else from their local place, to `slot`, or else to
/// theirs.
template <bool kUnequal>
inline void Mover<kUnequal>::copy(const Cursor& lane, const BoundStep& step,
                                  const StepExtent& extent, const std::byte* message,
                                  std::byte* slot) {
  const bool streaming = slot == nullptr ? store_of(step) != 0
                                         : streams_to(*lane.lane->connections[step.target], extent);
  for_each_copy<kUnequal>(run_, lane, step, extent, message, slot,
                          [&](std::byte* to, const std::byte* from, std::size_t bytes) {
                            if (to == from || bytes == 0) return;
                            copy_bytes(to, from, bytes, streaming);
                          });
}

template <bool kUnequal>
[[gnu::always_inline]] inline bool advance_lanes(Run& run) {
  bool moved = false;
  Mover<kUnequal> mover(run);
  for (Cursor& lane : run.lanes) {
    if (lane.state == Cursor::State::moving) {
      moved |= mover.advance(lane);
    } else if (lane.state == Cursor::State::in_turn && !lane.waits_for_turn()) [[unlikely]] {
      moved |= mover.advance_in_turn(lane);
    }
  }
  return moved;
}

}  // namespace mover
}  // namespace coll

#include "executor/mover_combining.hpp"
