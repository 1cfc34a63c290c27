// SPDX-License-Identifier: Apache-2.0
// How a kernel runs a program: row y of its grid is lane y, and the blocks of the row share the
// lane's messages.
//
// Share s of a message is that of each of its chunks: the elements from s * `share` on. So whatever
// a share of a step reads was written by the same share of earlier steps, and shares need not wait
// for one another. A block that has several takes each step for all of them before the next step.
#pragma once
#include "executor/device/fused/passes_by_team.cuh"
#include "executor/device/fused/short_messages.cuh"
#include "schedule/step.hpp"

namespace coll::fused {

/// What the threads of a block share.
struct FusedShared {
  static constexpr std::uint32_t kSteps = 64;
  alignas(16) unsigned char received[KernelRing::kShortBytes];  ///< a short message
  alignas(16) unsigned char sent[KernelRing::kShortBytes];      ///< the same
  alignas(FusedStep) unsigned char steps[kSteps * sizeof(FusedStep)];
  static constexpr std::uint32_t kCounts = 32;
  KernelCount counts[2 * kCounts];     ///< of the first links, both directions
  std::uint64_t reaches[2 * kCounts];  ///< of the first links: for the input, for the output
  std::uint64_t borrowed;              ///< where the message that is received lies; 0: in its slot
};

__device__ inline std::uint64_t least(std::uint64_t a, std::uint64_t b) {
  return a < b ? a : b;
}

__device__ inline const unsigned char* image_of(const FusedArguments& a) {
  return a.image != 0 ? at<const unsigned char>(a.image) : a.short_image;
}

/// Leaves all as the next run needs it. All threads of the block that ends last call it.
__device__ inline void prepare_next_run(const FusedArguments& a) {
  const unsigned char* const image = image_of(a);
  const auto* const lanes = reinterpret_cast<const FusedLane*>(image);
  for (std::uint32_t l = 0; l < a.lanes; ++l) {
    const auto* const links =
        reinterpret_cast<const FusedLink*>(image + a.links_at) + lanes[l].first_link;
    const std::uint64_t turns = turns_of(a, lanes[l]);
    for (std::uint32_t i = threadIdx.x; i < 2 * lanes[l].links; i += blockDim.x)
      count_messages(i % 2 == 0 ? links[i / 2].receiving : links[i / 2].sending, turns);
  }
  if (threadIdx.x == 0) store_relaxed(at<std::uint32_t>(a.arrived), 0);
  if (a.progress == 0) return;
  for (std::uint32_t i = threadIdx.x; i < a.lanes * a.shares; i += blockDim.x)
    at<std::uint64_t>(a.progress)[i] = 0;
}

/// A kernel's last act: the block that ends last tells the host. `intact`: nobody had to give up.
__device__ inline void end_block(const FusedArguments& a, bool intact) {
  constexpr std::uint32_t kBroken = 1U << 16;
  const std::uint32_t blocks = gridDim.x * gridDim.y;
  std::uint32_t all = intact ? 1 : 1 + kBroken;
  bool last = false;
  __syncthreads();
  if (threadIdx.x == 0) {
    if (blocks > 1) all += add(at<std::uint32_t>(a.arrived), all);  // else there is none to count
    last = (all & (kBroken - 1)) == blocks;
  }
  if (__syncthreads_or(last ? 1 : 0) == 0) return;
  prepare_next_run(a);
  __syncthreads();
  if (threadIdx.x == 0) {
    store_release(at<std::uint32_t>(a.over),
                  all < kBroken ? FusedArguments::kDone : FusedArguments::kAborted);
  }
}

/// One block's part in the run.
class Interpreter {
 public:
  __device__ Interpreter(const FusedArguments& arguments, FusedShared& shared)
      : a_(arguments),
        shared_(shared),
        image_(image_of(arguments)),
        lane_(reinterpret_cast<const FusedLane*>(image_)[blockIdx.y]),
        links_(reinterpret_cast<const FusedLink*>(image_ + a_.links_at) + lane_.first_link) {}

  /// False: the host has given up.
  __device__ bool run() {
    abort_ = ask_for_abort(a_.abort);
    fetch_counts();
    std::uint64_t turn = 0;
    for (std::uint64_t pass = lane_.first_pass; pass < a_.passes; pass += a_.copies, ++turn) {
      if (!run_pass(pass, turn)) return take_loans_back();
    }
    return await_loans() || take_loans_back();
  }

 private:
  __device__ bool run_pass(std::uint64_t pass, std::uint64_t turn) {
    turn_ = turn;
    const std::uint64_t before = pass * a_.elements;
    elements_ = least(a_.elements, a_.count - least(a_.count, before));
    input_ = a_.input + before * a_.element_bytes;
    output_ = a_.output + before * a_.element_bytes;
    for (std::uint32_t first = 0; first < lane_.steps; first += FusedShared::kSteps) {
      if (turn == 0 || lane_.steps > FusedShared::kSteps) fetch_steps(first);
      const auto end = static_cast<std::uint32_t>(least(lane_.steps - first, FusedShared::kSteps));
      for (std::uint32_t i = 0; i < end; ++i) {
        for (std::uint32_t share = blockIdx.x; share < a_.shares; share += gridDim.x) {
          if (!run_step(step_at(i), first + i, share)) return false;
        }
      }
    }
    return true;
  }

  [[nodiscard]] __device__ const FusedStep& step_at(std::uint32_t index) const {
    return reinterpret_cast<const FusedStep*>(shared_.steps)[index];
  }
  /// The barrier of the first steps is behind it.
  __device__ void fetch_counts() {
    const auto most = static_cast<std::uint32_t>(least(lane_.links, FusedShared::kCounts));
    for (std::uint32_t i = threadIdx.x; i < 2 * most; i += blockDim.x) {
      const FusedLink& link = links_[i / 2];
      shared_.counts[i] =
          *at<const KernelCount>(i % 2 == 0 ? link.receiving.count : link.sending.count);
      if (a_.lends != 0) shared_.reaches[i] = reach_of(link.sending, i % 2 == 0);
    }
  }
  /// All threads together, since each word is far away.
  __device__ void fetch_steps(std::uint32_t first) {
    constexpr std::uint32_t kWords = sizeof(FusedStep) / sizeof(std::uint32_t);
    const auto* const from = reinterpret_cast<const std::uint32_t*>(
        image_ + a_.steps_at + std::uint64_t{lane_.first_step + first} * sizeof(FusedStep));
    auto* const to = reinterpret_cast<std::uint32_t*>(shared_.steps);
    const auto words =
        static_cast<std::uint32_t>(least(lane_.steps - first, FusedShared::kSteps)) * kWords;
    __syncthreads();  // the steps before are done with
    for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
    __syncthreads();
  }

  __device__ bool run_step(const FusedStep& step, std::uint32_t number, std::uint32_t share) {
    const bool receives = step.source != FusedStep::kNone, sends = step.target != FusedStep::kNone;
    const FusedWay& in = links_[receives ? step.source : 0].receiving;
    const FusedWay& out = links_[sends ? step.target : 0].sending;
    const Message received = receives ? message_of(in, step.source, 0, step.received) : Message{};
    const Message sent = sends ? message_of(out, step.target, 1, step.sent) : Message{};
    const std::uint64_t lent = sends ? lent_by(step) : 0;
    has_lent_ |= lent != 0;
    const bool alone = threadIdx.x == 0;
    // Both ends leave out empty shares, but the first: a message is one in any case.
    const bool empty = share > 0 && is_empty(step, share);
    if (empty && !(sends && renews(out, sent))) {
      if (receives) note_read(in, received, share, a_.shares);
      if (alone) publish(step, number, share);
      return true;
    }
    const bool is_short = a_.is_short != 0;
    const std::uint64_t bytes = is_short ? bytes_of(step) : 0;
    bool intact = abort_ == 0;
    if (alone && step.wait_lane != FusedStep::kNone) intact = intact && await_step(step, share);
    if (alone && receives && !empty && !is_short) {
      intact = intact && await_ready(a_.abort, in, received, share);
      if (intact) shared_.borrowed = lent_at(in, received, share);
    }
    if (sends) intact = intact && await_slot(a_.abort, out, sent);
    if (receives && is_short) intact = intact && receive_lines(in, received, bytes);
    if (__syncthreads_or(intact ? 0 : 1) != 0) return false;
    const std::uint64_t borrowed = receives && !empty && !is_short ? shared_.borrowed : 0;
    const std::uint64_t message =
        borrowed != 0 ? borrowed : in.slots + std::uint64_t{received.slot} * in.stride;
    const std::uint64_t slot = out.slots + std::uint64_t{sent.slot} * out.stride;
    unsigned char* const sending = is_short ? shared_.sent : at<unsigned char>(slot);
    move(step, share, is_short ? shared_.received : at<unsigned char>(message),
         sends && lent == 0 ? sending : nullptr);
    __syncthreads();
    if (borrowed != 0) {
      const bool is_worthless = alone && !still_lent(in, received, share);
      if (__syncthreads_or(is_worthless ? 1 : 0) != 0) {
        note_read(in, received, share, a_.shares);  // its owner may wait for that
        return false;
      }
    }
    if (sends && is_short) send_lines(out, sent, bytes);
    if (sends && !is_short) note_ready(out, sent, lent, share, a_.shares);
    if (receives) note_read(in, received, share, a_.shares);
    if (alone) publish(step, number, share);
    return true;
  }

  /// `direction`: 0 of what is received, 1 of what is sent.
  __device__ Message message_of(const FusedWay& way, std::uint32_t link, std::uint32_t direction,
                                std::uint32_t of_turn) const {
    const KernelCount& count = link < FusedShared::kCounts ? shared_.counts[2 * link + direction]
                                                           : *at<const KernelCount>(way.count);
    return message_behind(way, count, turn_, of_turn);
  }

  // --- messages that are lent
  /// Where the step's peer finds its message; 0: in the slot. A plain send lends its source, any
  /// other step what it keeps.
  __device__ std::uint64_t lent_by(const FusedStep& step) const {
    if ((step.flags & a_.lends) == 0) return 0;
    const bool plain = step.source == FusedStep::kNone &&
                       step.with_space == static_cast<std::uint8_t>(Space::none);
    const std::uint8_t space = plain ? step.from_space : step.into_space;
    const std::uint32_t block = plain ? step.from_block : step.into_block;
    const bool one_piece = std::uint32_t{step.part} + step.count <= a_.parts;
    const std::uint64_t reach =
        reach_by(step.target, space == static_cast<std::uint8_t>(Space::input));
    if (reach == 0 || !one_piece) return 0;
    return reinterpret_cast<std::uintptr_t>(place(space, block, before(step.part))) + reach - 1;
  }
  __device__ std::uint64_t reach_of(const FusedWay& way, bool of_input) const {
    if (way.reaches == 0) return 0;
    return at<const std::uint64_t>(way.reaches)[of_input ? a_.input_reach : a_.output_reach];
  }
  __device__ std::uint64_t reach_by(std::uint32_t link, bool of_input) const {
    return link < FusedShared::kCounts ? shared_.reaches[2 * link + (of_input ? 0 : 1)]
                                       : reach_of(links_[link].sending, of_input);
  }
  __device__ bool may_have_lent(std::uint32_t link) const {
    return links_[link].sending.messages != 0 &&
           (reach_by(link, true) != 0 || reach_by(link, false) != 0);
  }
  /// Of each share of the block on each link that may have lent, calls
  /// use(word, number): the word of what was read, and the number of the turn's last message.
  template <class Use>
  __device__ void for_each_loan(Use use) const {
    for (std::uint32_t i = threadIdx.x; i < lane_.links * KernelRing::kShares; i += blockDim.x) {
      const std::uint32_t link = i / KernelRing::kShares, share = i % KernelRing::kShares;
      if (share % gridDim.x != blockIdx.x || !may_have_lent(link)) continue;
      const FusedWay& way = links_[link].sending;
      use(read_word(way, share), message_of(way, link, 1, way.messages - 1).number);
    }
  }
  /// What the block has lent is the caller's again when it has been read.
  __device__ bool await_loans() const {
    if (!has_lent_) return true;
    bool intact = true;
    for_each_loan([&](std::uint64_t word, std::uint32_t number) {
      intact = intact && await_number(a_.abort, word, number);
    });
    return __syncthreads_or(intact ? 0 : 1) == 0;
  }
  /// The host has given up; false, as run() says then. Who is reading just now takes nothing of it,
  /// but would fail if the caller freed the memory: so this waits for it, for a while.
  __device__ bool take_loans_back() const {
    constexpr int kLooks = 4096;
    if (!has_lent_) return false;
    for (std::uint32_t link = 0; link < lane_.links; ++link) {
      const FusedWay& way = links_[link].sending;
      if (may_have_lent(link)) withdraw(way, *at<const KernelCount>(way.count));
    }
    int looks = 0;
    for_each_loan([&](std::uint64_t word, std::uint32_t number) {
      for (; looks < kLooks && !has_reached(word, number); ++looks) COLL_PAUSE();
    });
    return false;
  }

  // --- steps that wait for steps of other lanes
  __device__ std::uint64_t* progress_of(std::uint32_t lane, std::uint32_t share) const {
    return at<std::uint64_t>(a_.progress) + lane * a_.shares + share;
  }
  /// How far a lane is behind this step of this turn; it only grows during a run.
  __device__ std::uint64_t progress_behind(std::uint32_t number) const {
    return (turn_ << 16) + number + 1;
  }
  __device__ void publish(const FusedStep& step, std::uint32_t number, std::uint32_t share) const {
    if ((step.flags & FusedStep::kAwaited) == 0) return;
    store_release(progress_of(blockIdx.y, share), progress_behind(number));
  }
  __device__ bool await_step(const FusedStep& step, std::uint32_t share) const {
    const std::uint64_t* const other = progress_of(lane_.first_sibling + step.wait_lane, share);
    const std::uint64_t wanted = progress_behind(step.wait_step);
    return spin_until(a_.abort, [=] { return load_acquire(other) >= wanted; });
  }

  // --- short messages
  __device__ bool receive_lines(const FusedWay& way, const Message& message, std::uint64_t bytes) {
    const Line* const lines = lines_of_slot(way, message.slot);
    for (std::uint32_t i = threadIdx.x; i < lines_of(bytes); i += blockDim.x) {
      std::uint64_t data = 0;
      if (!receive_line(a_.abort, lines + i, message.number, data)) return false;
      reduce::device::store(shared_.received + i * sizeof data, data);
    }
    return true;
  }
  __device__ void send_lines(const FusedWay& way, const Message& message, std::uint64_t bytes) {
    Line* const lines = lines_of_slot(way, message.slot);
    const std::uint32_t all = lines_sent(way, message, bytes);
    for (std::uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
      send_line(lines + i, message.number,
                reduce::device::load<std::uint64_t>(shared_.sent + i * sizeof(std::uint64_t)));
    }
  }

  // --- where data lies
  /// Elements of a window before part `part`.
  __device__ std::uint64_t before(std::uint64_t part) const {
    return least(part * a_.chunk, elements_);
  }
  __device__ bool is_empty(const FusedStep& step, std::uint32_t share) const {
    if (step.count == 0) return true;
    const bool wraps = std::uint32_t{step.part} + step.count > a_.parts;
    const std::uint32_t longest = wraps ? 0 : step.part;
    return before(longest + 1) - before(longest) <= share * a_.share;
  }
  /// Calls use(block, first element, elements of it, elements of the message before) for each
  /// contiguous piece of a share; `block` counts from the operand's own.
  template <class Use>
  __device__ void for_each_piece(const FusedStep& step, std::uint32_t share, Use use) const {
    std::uint64_t passed = 0;
    std::uint32_t part = step.part, left = step.count;
    for (std::uint32_t block = 0; left > 0; ++block, part = 0) {
      const auto here = static_cast<std::uint32_t>(least(left, a_.parts - part));
      left -= here;
      // Of one share, all chunks of a block are one piece.
      const std::uint32_t step_parts = a_.shares == 1 ? here : 1;
      const std::uint64_t most = a_.shares == 1 ? ~std::uint64_t{0} : a_.share;
      for (const std::uint32_t end = part + here; part < end; part += step_parts) {
        const std::uint64_t begin = before(part), behind = before(part + step_parts);
        const std::uint64_t from = least(begin + share * a_.share, behind);
        const std::uint64_t n = least(behind - from, most);
        use(block, from, n, passed + from - begin);
        passed += behind - begin;
      }
    }
  }
  __device__ std::uint64_t bytes_of(const FusedStep& step) const {
    std::uint64_t sum = 0;
    for_each_piece(step, 0,
                   [&](std::uint32_t, std::uint64_t, std::uint64_t n, std::uint64_t) { sum += n; });
    return sum * a_.element_bytes;
  }
  __device__ unsigned char* place(std::uint8_t space, std::uint32_t block,
                                  std::uint64_t element) const {
    const bool in_scratch = space == static_cast<std::uint8_t>(Space::scratch);
    const std::uint64_t begin = in_scratch                                         ? lane_.scratch
                                : space == static_cast<std::uint8_t>(Space::input) ? input_
                                                                                   : output_;
    const std::uint64_t period = in_scratch ? a_.elements : a_.count;
    return at<unsigned char>(begin + (block * period + element) * a_.element_bytes);
  }

  /// The step's share of copying or combining; `message` is where what it receives begins, `slot`
  /// where it has to write what it sends; null: nowhere.
  __device__ void move(const FusedStep& step, std::uint32_t share, const unsigned char* message,
                       unsigned char* slot) const {
    constexpr auto kNowhere = static_cast<std::uint8_t>(Space::none);
    const bool receives = step.source != FusedStep::kNone;
    const bool keeps = step.into_space != kNowhere;
    if (!keeps && slot == nullptr) return;
    for_each_piece(
        step, share,
        [&](std::uint32_t block, std::uint64_t element, std::uint64_t n, std::uint64_t passed) {
          if (n == 0) return;
          const std::uint64_t in_message = passed * a_.element_bytes;
          const unsigned char* const from =
              receives ? message + in_message
                       : place(step.from_space, step.from_block + block, element);
          unsigned char* const sent = slot != nullptr ? slot + in_message : nullptr;
          unsigned char* const kept =
              keeps ? place(step.into_space, step.into_block + block, element) : nullptr;
          unsigned char* const into = keeps ? kept : sent;
          unsigned char* const also = keeps ? sent : nullptr;
          if (step.with_space == kNowhere) {
            if (into != from || also != nullptr)
              copy_by_block(into, also, from, n * a_.element_bytes);
            return;
          }
          const unsigned char* const with =
              place(step.with_space, step.with_block + block, element);
          ReduceArguments pass;  // operations that a device knows commute, bit by bit
          pass.into = into;
          pass.copy = also;
          pass.left = from;
          pass.right = with;
          pass.count = n;
          pass.ranks = a_.ranks;
          combine(a_.op, a_.type, (step.flags & FusedStep::kFinish) != 0, pass);
        });
  }

  const FusedArguments& a_;
  FusedShared& shared_;
  const unsigned char* const image_;
  const FusedLane lane_;
  const FusedLink* const links_;
  std::uint32_t abort_ = 0;  ///< see ask_for_abort()
  bool has_lent_ = false;    ///< this block, in this run
  // Of the pass:
  std::uint64_t turn_ = 0, elements_ = 0, input_ = 0, output_ = 0;
};

}  // namespace coll::fused
