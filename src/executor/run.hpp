// SPDX-License-Identifier: Apache-2.0
// The run, one call of a program in flight.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/program.hpp"
#include "reduce/own_reduction.hpp"
#include "reduce/reduce.hpp"

namespace coll {

struct StreamFlight;  // stream_flights.hpp

/// What a call adds to its program.
struct CallBinding {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;                ///< elements of one block, where all are equal
  const UnequalBlocks* blocks = nullptr;  ///< where they are not; must stay until the call ends
  std::size_t element_bytes = 1;
  const reduce::Kernels* kernels = nullptr;  ///< null where the operation does not reduce, or so:
  reduce::OwnReduction own = {};
  // The same for devices, whose kernels have names; nothing where the operation does not reduce.
  ReduceOp op = ReduceOp::sum;
  DataType type = DataType::uint8;
  std::uint64_t digest = 0;
  bool apart = false;                           ///< input and output do not overlap
  reduce::Store store = reduce::Store::cached;  ///< of results that no other step touches
  /// The same, of those that are written to the receiver's memory as well.
  reduce::Store landed_store = reduce::Store::cached;
};

/// One call: its buffers, and where each of its lanes is. It is made once and used again for calls
/// that repeat, which then allocate nothing. Several runs may be in flight on one communicator, of
/// one program or of several. They take turns in the order in which they were begun
/// (call_turns.hpp); a run that is alone has all turns, and no tickets.
struct Run {
  struct Cursor {
    enum class State : std::uint8_t {
      moving,
      in_turn,  ///< moves too, but a step may have to wait for its turn
      done,
    };
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    State state = State::done;
    const BoundStep* next = nullptr;
    const StepExtent* extent = nullptr;  ///< of `next`, in the current window
    std::uintptr_t base[4] = {};  ///< by Space: where the current window begins; scratch stays
    const Program::Lane* lane = nullptr;
    StepExtent* extents = nullptr;             ///< of the first step
    const StepExtent* last_extents = nullptr;  ///< the same in the last window
    StagePlaces* places = nullptr;
    std::uint64_t pass = 0;
    std::uint64_t told = 0;              ///< the first pass whose places no peer was told of
    std::uint64_t combined = 0;          ///< elements of the next step, which is taken in parts
    std::uint64_t entered = kNone;       ///< the pass that the extents of unequal blocks are of
    const Cursor* siblings = nullptr;    ///< lane 0 of the same copy, for waits
    std::uint32_t* tickets = nullptr;    ///< by turn of the lane
    const CallTurns* awaited = nullptr;  ///< the turns that its next step waits for; null: none
    std::uint32_t awaited_ticket = 0;
    Mark* marks = nullptr;  ///< one for each of the lane's connections

    [[nodiscard]] bool done() const { return state == State::done; }
    /// Does the lane still wait for the turn that it missed when it last tried?
    [[nodiscard]] bool waits_for_turn() const {
      return awaited != nullptr && awaited->passed != awaited_ticket;
    }
  };

  Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Makes it a run of `call`; keeps what it can of the one before, which must be over. Allocates
  /// unless that had the same program and shape.
  void bind(Program& of, const CallBinding& with);

  [[nodiscard]] bool done() const { return left == 0 && flushed; }

  CallBinding call;
  /// Why the executor could not begin or move it. It then stays in flight until it is abandoned.
  Status failure;
  StreamFlight* flight = nullptr;  ///< the executor's, between begin and end
  Program* program = nullptr;      ///< null: nothing is bound
  Extents extents;
  Traffic traffic;
  std::vector<Cursor> lanes;
  std::vector<std::uint32_t> tickets;
  /// For each connection of the program, a mark behind the last message that this run lent there;
  /// where bytes wait to be sent, behind its last message. Marks of earlier calls have been
  /// reached, and stay until there are new ones.
  std::vector<Mark> marks;
  std::size_t left = 0;  ///< lanes that are not done
  bool queued = false;   ///< its lanes have tickets, since it is not alone in flight
  bool moved = false;    ///< since its owner last looked
  bool held = false;     ///< keeps still (Progress::hold)
  bool lost = false;     ///< abandoned, but a device may go on with it, and use its buffers
  /// Each poll moves a lane to the end of its pass at most. While messages keep coming, a thread
  /// that issues the call and does not wait for it would otherwise move all of it. Set after the
  /// begin.
  bool by_pass = false;
  bool expects = false;      ///< peers are to be told where the first messages go
  bool lent = false;         ///< a peer may still read the caller's memory
  bool flushed = true;       ///< it has reached its marks
  Run* next_open = nullptr;  ///< of those in flight, the one begun after it
};

/// A connection of the run that has failed, or null.
const Connection* failed_connection(const Run& run);

}  // namespace coll
