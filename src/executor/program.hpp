// SPDX-License-Identifier: Apache-2.0
// The program, a schedule bound to connections and scratch.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "executor/scratch_pool.hpp"
#include "executor/unequal_blocks.hpp"
#include "schedule/schedule.hpp"
#include "schedule/window.hpp"
#include "transports/transport.hpp"

namespace coll {

/// A chunk index taken apart once, so that no call divides.
struct BoundOperand {
  std::uint16_t block = 0;
  std::uint16_t part = 0;
};

/// A step as it runs.
struct BoundStep {
  enum class Kind : std::uint8_t {
    send,     ///< local chunks to a peer, and perhaps to another local place
    receive,  ///< a message to a local place
    fused,    ///< the rest
  };
  /// In which calls: none, those that are not in place, all.
  enum class When : std::uint8_t { never, if_apart, always };
  /// Steps in a row may send the same message to several peers. Then the first writes it once, and
  /// all peers read it there.
  enum class Stage : std::uint8_t { none, first, again };
  static constexpr std::uint16_t kNone = 0xffff;

  Kind kind = Kind::fused;
  Space from_space = Space::none, with_space = Space::none, into_space = Space::none;
  bool finish : 1 = false;
  bool swapped : 1 = false;
  bool uses_scratch : 1 = false;
  // The lane's last step of a pass that sends to the target, receives from the source, uses
  // scratch, or stages.
  bool last_send : 1 = false;
  bool last_receive : 1 = false;
  bool last_scratch : 1 = false;
  bool last_stage : 1 = false;
  bool sends = false, receives = false;
  /// When may the message be lent until the call ends? Only where no later step overwrites it
  /// before the peer has read it, also through the other name that a buffer has in a call in place.
  When lend = When::never;
  When stream = When::never;  ///< a result that need not stay in cache
  Stage stage = Stage::none;
  Fetch fetch = Fetch::never;  ///< of private memory that is lent
  std::uint8_t wait_lane = 0xff;
  std::uint16_t source = kNone, target = kNone;  ///< indices into the lane's connections
  BoundOperand from, with, into, length;  ///< `length`: the chunk that gives the message's length
  std::uint16_t count = 0;
  std::uint16_t wait_step = 0;
};
static_assert(sizeof(BoundStep) <= 36);

/// Where a step's data lies in a window: bytes from the lane's bases, known once a call's elements
/// are cut.
struct StepExtent {
  std::uint64_t from = 0, with = 0, into = 0;
  std::uint32_t bytes = 0;  ///< of the message
  std::uint32_t elements = 0;
  bool one_piece = false;  ///< the step's chunks are contiguous in every space it names
  /// A hash of how long the step's blocks are as a whole, where they are unequal: rides on the
  /// message's digest, so that ends who disagree find out with their first message.
  std::uint32_t lengths = 0;
};
static_assert(sizeof(StepExtent) <= 40);

/// A message whose place the peer may be told of: in each pass its lane receives `of` messages from
/// that peer, and this is the n-th.
struct Expected {
  Landing* landing = nullptr;
  const BoundStep* step = nullptr;
  std::uint32_t nth = 0, of = 0;
  BoundStep::When when = BoundStep::When::never;  ///< in which calls
  bool part_first = false;                        ///< as for MayLand
};

/// What a plan adds to its schedule.
struct ProgramShape {
  std::uint32_t copies = 1;          ///< of the schedule's lanes, on interleaved windows
  std::uint32_t message_chunks = 1;  ///< of the longest message of any rank
  std::uint32_t slice_bytes = 0;     ///< the longest message
  std::uint64_t plan_digest = 0;
  Loans loans = Loans::all;
  // For staging.
  std::uint32_t credits = 0;       ///< the most of any connection
  std::uint32_t least_staged = 0;  ///< bytes to all readers together from which it pays; 0: always
};

/// Places for messages that a lane sends to several peers. The lane uses them in turn. It has one
/// place more than a connection has credits, and stages for the same peers at each turn. So when a
/// place's turn comes again, the credits of later messages have shown that every peer has read what
/// it held. For that every peer must get a message at each turn, staged or not, whose credit comes
/// back only by reading. Messages of `Lending::least_kept` bytes and more are such messages. Before
/// all places have had a turn, the lane may begin with the first one again, once every peer has
/// read everything: from there each has one turn before any has another.
struct StagePlaces {
  /// A new place is begun after so many turns.
  static constexpr std::uint32_t kSpared = 16;

  std::uint32_t readers = 0;   ///< to how many peers the lane sends such messages
  std::byte* begin = nullptr;  ///< null: the lane stages nothing
  std::size_t stride = 0;
  std::uint32_t count = 0;
  std::uint32_t turn = 0;
  std::uint32_t used = 0;       ///< so many have had their turn
  std::uint32_t since_new = 0;  ///< turns since one had its first
  std::size_t least = 0;        ///< the shortest message to stage
  std::byte* staged = nullptr;  ///< what the step before sent, for those who get it again

  [[nodiscard]] std::byte* next() const { return begin + turn * stride; }
  /// The next place was never used, and the used ones should do for some more messages. New pages
  /// cost the sender and each reader more than many messages gain by taking turns on more places
  /// (docs/performance.md).
  [[nodiscard]] bool spares_next() const { return turn == used && since_new < kSpared; }
  void pass() {
    ++since_new;
    if (turn == used) {
      ++used;
      since_new = 0;
    }
    if (++turn == count) turn = 0;
  }
  /// Only if every reader has read everything.
  void begin_again() { turn = 0; }
  void take() {
    staged = next();
    pass();
  }
};

class Executor;

/// A plan's schedule bound to connections and scratch: what all calls of the plan share. Nothing in
/// it changes from call to call but scratch and places, which are the lane's. Calls in flight take
/// turns on them (call_turns.hpp).
struct Program {
  struct Lane {
    const BoundStep* begin = nullptr;
    const BoundStep* end = nullptr;
    std::span<Connection* const> connections;
    Lending* const* lendings = nullptr;  ///< of these connections, null where they cannot
    /// What its runs take turns on (call_turns.hpp).
    std::span<CallTurns* const> turns;
    std::span<const Expected> expected;  ///< in the order of the steps
    std::uint64_t told_passes = 0;       ///< how many passes peers are told of at a time
    std::byte* scratch = nullptr;
    std::uint32_t first_sibling = 0;  ///< lane 0 of the same copy, for waits
    std::uint64_t first_pass = 0;
  };

  Executor* executor = nullptr;  ///< that made it: it moves its runs
  ChunkMap chunks;
  Rank ranks = 1;
  ProgramShape shape;
  std::vector<BoundStep> steps;
  std::vector<Lane> lanes;               ///< copy-major: copy 0's lanes, copy 1's lanes…
  std::vector<StagePlaces> places;       ///< by lane
  std::vector<Connection*> connections;  ///< by lane, each once
  std::vector<Lending*> lendings;        ///< as `connections`
  std::vector<Expected> expected;        ///< by lane
  std::vector<CallTurns> own_turns;      ///< of each lane: on its scratch, and on its places
  std::vector<CallTurns*> lane_turns;
  std::size_t scratch_bytes = 0;  ///< of each lane
  ScratchPool::Block scratch;
  ScratchPool::Block staging;            ///< where `places` lie
  std::vector<ProgressSource*> sources;  ///< of the connections, each once
  bool needs_progress = false;           ///< there are some
  bool unequal = false;                  ///< its calls have UnequalBlocks

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  /// Gives its places back, unless peers may still read them: then their memory is never freed.
  virtual ~Program();
};

/// Bytes of the buffers' content that a rank sends to other ranks, and receives, in one call.
struct Traffic {
  std::uint64_t sent = 0, received = 0;

  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// How a call's elements are cut into windows, and where that puts each step's data: the same for
/// every call of the same count and type.
struct Extents {
  Windows windows;
  std::size_t element_bytes = 0;
  /// The steps' extents in every window but the last, then in the last. Of a call of unequal
  /// blocks: for each lane its steps' extents in the window that it is in.
  std::vector<StepExtent> steps;
  const UnequalBlocks* blocks = nullptr;  ///< null: the blocks are equal

  /// Allocates when it grows.
  void make(const Program& program, std::uint64_t count, std::size_t bytes_of_element);
  void make(const Program& program, const UnequalBlocks& unequal, std::size_t bytes_of_element);
  /// Writes the extents of a lane's steps in pass `pass` of a call of unequal blocks. They count
  /// from the buffers' begins, where others count from the window's.
  void enter(const Program& program, const Program::Lane& lane, std::uint64_t pass,
             StepExtent* extents) const;
  [[nodiscard]] Traffic traffic(const Program& program) const;
  /// Elements from one block to the next: windows are cut out of the user's blocks, scratch holds
  /// one window.
  [[nodiscard]] std::uint64_t period(Space space) const {
    return space == Space::scratch ? windows.elements : windows.count;
  }
  /// The elements of one block in pass `pass`.
  [[nodiscard]] std::uint64_t elements_of(std::uint64_t pass) const {
    const std::uint64_t begin = pass * windows.elements;
    return std::min(windows.elements, windows.count - std::min(windows.count, begin));
  }
};

/// Calls use(block, first element of the part, elements) for each stretch of the step's chunks, in
/// a window of `elements`, that is contiguous in every space; `block` counts from the operand's
/// own.
template <class Use>
void for_each_stretch(const Windows& windows, std::uint32_t parts, const BoundStep& step,
                      std::uint64_t elements, Use use) {
  const std::uint64_t chunk = windows.chunk;
  std::uint64_t part = step.length.part;
  std::uint64_t left = step.count;
  for (std::uint64_t block = 0; left > 0; ++block, part = 0) {
    const std::uint64_t here = std::min<std::uint64_t>(left, parts - part);
    const std::uint64_t begin = std::min(part * chunk, elements);
    const std::uint64_t end = std::min((part + here) * chunk, elements);
    use(block, begin, end - begin);
    left -= here;
  }
}

/// Some parts of a block, `block` elements long.
struct BlockParts {
  std::uint64_t block = 0;
  std::uint64_t part = 0, parts = 0;
};

/// Calls use(from, with, into, elements, the BlockParts) for each stretch of the step's chunks
/// in pass `pass` of a call of unequal blocks: places in elements from the spaces' begins. An
/// operand of the user's buffers says by its blocks how long the chunks are. If all are scratch,
/// they are as long as the rank's block of the output (block_lengths.hpp).
template <class Use>
void for_each_unequal_stretch(const Extents& call, std::uint32_t parts, const BoundStep& step,
                              std::uint64_t pass, Use use) {
  const auto users = [](Space space) { return space == Space::input || space == Space::output; };
  const bool by_into = users(step.into_space), by_with = users(step.with_space);
  const bool users_own = by_into || by_with || users(step.from_space);
  const Space named = by_into     ? step.into_space
                      : by_with   ? step.with_space
                      : users_own ? step.from_space
                                  : Space::output;
  const BoundOperand first = by_into     ? step.into
                             : by_with   ? step.with
                             : users_own ? step.from
                                         : BoundOperand{0, step.length.part};
  const std::uint64_t window = call.windows.elements;
  const std::uint64_t chunk = call.windows.chunk;
  std::uint64_t part = first.part;
  std::uint64_t left = step.count;
  for (std::uint64_t block = 0; left > 0; ++block, part = 0) {
    const std::uint64_t here = std::min<std::uint64_t>(left, parts - part);
    left -= here;
    const std::uint64_t count = call.blocks->of(named)[first.block + block].count;
    const std::uint64_t before = std::min(pass * window, count);
    const std::uint64_t elements = std::min(window, count - before);
    const std::uint64_t begin = std::min(part * chunk, elements);
    const std::uint64_t end = std::min((part + here) * chunk, elements);
    const auto place = [&](Space space, BoundOperand operand) {
      if (space == Space::none) return std::uint64_t{0};
      if (space == Space::scratch) return (operand.block + block) * window + begin;
      return call.blocks->of(space)[operand.block + block].offset + before + begin;
    };
    use(place(step.from_space, step.from), place(step.with_space, step.with),
        place(step.into_space, step.into), end - begin, BlockParts{count, part, here});
  }
}

/// A step in bound form, whose peers are these of its lane's connections. Numbers of over 16 bits
/// are cut: bind() refuses such schedules.
BoundStep bind_step(const Step& step, std::uint32_t parts, std::uint16_t source,
                    std::uint16_t target);

/// What a call of unequal blocks would move, by a schedule that is not bound.
Traffic traffic_of(const Schedule& schedule, const ProgramShape& shape, const UnequalBlocks& blocks,
                   std::size_t element_bytes);

/// What a call of `count` elements would move, by a schedule that is not bound.
Traffic traffic_of(const Schedule& schedule, const ProgramShape& shape, std::uint64_t count,
                   std::size_t element_bytes);

/// How the binder asks for the connection to `peer` on `lane` (already open and ready).
using ConnectionSource = std::function<Connection*(Rank peer, std::uint32_t lane)>;

/// The (peer, lane) pairs that a schedule with `copies` copies of its lanes talks to.
struct PeerLane {
  Rank peer;
  std::uint32_t lane;
  friend bool operator==(const PeerLane&, const PeerLane&) = default;
};
std::vector<PeerLane> peers_of(const Schedule& schedule, std::uint32_t copies);

/// Binds. A program runs calls of any size; it stages messages if `pool`, which must outlive it,
/// has places for them. Fails where the schedule is too large for the bound form (65,534 blocks,
/// parts, connections or chunks per message).
Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                      const ConnectionSource& connection, ScratchPool& pool);

// The parts of it, for programs that have their scratch elsewhere. Memory comes in between.
Status bind_steps(Program& program, const Schedule& schedule, const ProgramShape& shape,
                  const ConnectionSource& connection);
/// `scratch_bytes` from `begin` on for each lane.
void give_scratch(Program& program, std::byte* begin);
/// Gives places to each lane that sends the same to several peers, if `pool` has any (staging.cpp).
void give_places(Program& program, ScratchPool& pool);
/// Finds what each lane uses, where its calls take turns (call_turns.hpp).
void bind_turns(Program& program);

}  // namespace coll
