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
  reduce::Store store = reduce::Store::cached;  ///< how results go to the caller's output
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

  void start(Program& program, const CallBinding& call);
  /// Makes progress until the call is done; returns `idle` after `idle_s` seconds without any.
  Outcome drive(double idle_s);
  /// One round over the lanes without waiting; true if anything moved.
  bool poll();
  /// Did the last `drive` make any progress?
  [[nodiscard]] bool moved() const { return moved_; }
  [[nodiscard]] bool done() const { return left_ == 0 && flushed_; }

  [[nodiscard]] const Connection* failed_connection() const { return failed_; }
  /// The connections whose messages the call waits for now, for reports.
  [[nodiscard]] Rank waiting_for() const;

 private:
  using Lane = Program::LaneState;

  bool advance(Lane& lane);
  bool next_pass(Lane& lane);
  bool run_step(Lane& lane, const BoundStep& step);
  bool run_send(const Lane& lane, const BoundStep& step);
  bool run_receive(const Lane& lane, const BoundStep& step);
  bool run_fused(const Lane& lane, const BoundStep& step);
  void copy_runs(const Lane& lane, const BoundStep& step, const std::byte* message,
                 std::byte* slot);
  void reduce_into(const Lane& lane, const BoundStep& step, const std::byte* message,
                   std::byte* slot);
  [[nodiscard]] unsigned store_of(const BoundStep& step) const;
  [[nodiscard]] bool wait_is_over(const Lane& lane, const BoundStep& step) const;
  bool flush();
  bool find_failure();

  template <class Use>
  void for_each_run(const Lane& lane, const BoundStep& step, Use use) const;
  [[nodiscard]] std::size_t message_bytes(const Lane& lane, const BoundStep& step) const;
  [[nodiscard]] bool contiguous(const Lane& lane, const BoundStep& step, Space space) const;
  [[nodiscard]] std::byte* address(const Lane& lane, Space space, BoundOperand operand,
                                   std::uint64_t block, std::uint64_t element) const;

  WaitPolicy policy_;
  const std::atomic<bool>* stop_;
  Program* program_ = nullptr;
  CallBinding call_;
  Windows windows_;
  std::size_t left_ = 0;  ///< lanes that are not done
  bool flushed_ = true;
  bool moved_ = false;
  const Connection* failed_ = nullptr;
};

}  // namespace coll
