// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: the CPU's executor, one call at a time, driven by who
// waits.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "executor/program.hpp"
#include "executor/wait_policy.hpp"
#include "reduce/reduce.hpp"

namespace coll {

/// What changes from call to call of one program.
struct CallBinding {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;  ///< elements of one block
  std::size_t element_bytes = 1;
  const reduce::Kernels* kernels = nullptr;  ///< null where the operation does not reduce
  std::uint64_t digest = 0;
  bool apart = false;                           ///< input and output do not overlap
  reduce::Store store = reduce::Store::cached;  ///< of results that no other step touches
};

/// Runs one call of a program: `start`, then `drive` until it is done. No allocation, lock or
/// system call of its own between start and the first message. Used by one thread at a time.
class CpuExecutor {
 public:
  enum class Outcome {
    done,
    idle,     ///< nothing moved for the time given; drive again to go on
    stopped,  ///< the stop flag was raised
    failed,   ///< a connection failed: failed_connection() says which
  };

  /// A fused step holds its received slot until it gets one to send in: one credit more than the
  /// verifier needs.
  static constexpr std::uint32_t kLeastCredits = 2;

  CpuExecutor(const WaitPolicy& policy, const std::atomic<bool>* stop)
      : policy_(policy), stop_(stop) {}

  /// `call` must stay until the call is done.
  void start(Program& program, const CallBinding& call);
  void start(Program& program, CallBinding&& call) = delete;
  /// Makes progress until the call is done; returns `idle` after `idle_s` seconds without any.
  Outcome drive(double idle_s);
  /// One round over the lanes without waiting; true if anything moved.
  bool poll();
  /// The call has failed and ends here: what it lent is withdrawn before the caller may change it.
  void abandon();
  /// Did the last `drive` make any progress?
  [[nodiscard]] bool moved() const { return moved_; }
  [[nodiscard]] bool done() const { return left_ == 0 && flushed_; }

  [[nodiscard]] const Connection* failed_connection() const { return failed_; }

 private:
  using Lane = Program::LaneState;

  bool advance(Lane& lane);
  void enter_window(Lane& lane);
  bool run_step(Lane& lane, const BoundStep& step, const StepExtent& extent);
  bool run_fused(Lane& lane, const BoundStep& step, const StepExtent& extent);
  bool send(Lane& lane, const BoundStep& step, const StepExtent& extent);
  bool receive(const Lane& lane, const BoundStep& step, const StepExtent& extent);
  void copy(const Lane& lane, const BoundStep& step, const StepExtent& extent,
            const std::byte* message, std::byte* slot);
  void reduce(const Lane& lane, const BoundStep& step, const StepExtent& extent,
              const std::byte* message, std::byte* slot);
  void reduce_run(const BoundStep& step, std::byte* into, std::byte* slot, const std::byte* from,
                  const std::byte* with, std::uint64_t elements);
  template <class Use>
  void for_each_piece(const Lane& lane, const BoundStep& step, Use use) const;
  [[nodiscard]] unsigned store_of(const BoundStep& step) const {
    return static_cast<unsigned>(holds(step.stream) ? call_->store : reduce::Store::cached);
  }
  /// In this call?
  [[nodiscard]] bool holds(BoundStep::When when) const {
    return when == BoundStep::When::always || (when == BoundStep::When::if_apart && call_->apart);
  }
  std::byte* acquire(Lane& lane, Connection& to, const BoundStep& step, const StepExtent& extent);
  void commit(Lane& lane, Connection& to, const BoundStep& step, const StepExtent& extent);
  [[nodiscard]] bool may_lend(const Connection& to, const BoundStep& step, const StepExtent& extent,
                              const std::byte* data) const;
  [[nodiscard]] static bool wait_is_over(const Lane& lane, const BoundStep& step);
  bool flush();
  bool find_failure();

  WaitPolicy policy_;
  const std::atomic<bool>* stop_;
  Program* program_ = nullptr;
  const CallBinding* call_ = nullptr;
  std::size_t left_ = 0;  ///< lanes that are not done
  bool lent_ = false;     ///< a peer may still read the caller's memory
  bool flushed_ = true;
  bool moved_ = false;
  const Connection* failed_ = nullptr;
};

}  // namespace coll
