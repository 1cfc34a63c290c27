// SPDX-License-Identifier: Apache-2.0
// One operation of a process group, as its user holds it.
#pragma once
#include <chrono>
#include <collectives/collectives.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "torch_group.hpp"

namespace collectives_torch {

/// What an operation is called: `op` for PyTorch, the words for the profiler and for errors.
struct Title {
  c10d::OpType op;
  std::string backend;
  const char* words;  // all_reduce
};

/// The library's handles of an operation (several where it needs several calls), and what PyTorch
/// wants when it has ended. An operation completes in the thread that waits for it, else in one of
/// torch_later.hpp. Until it is complete it owns its tensors, and the group owns it.
class GroupWork final : public c10d::Work {
 public:
  GroupWork(std::shared_ptr<Group> group, const Title& title,
            const std::vector<at::Tensor>& profiled_inputs, std::uint64_t sequence,
            Milliseconds timeout);

  // What the backend fills in before it runs or starts the operation.

  std::vector<at::Tensor> outputs;  ///< what result() and the future give
  std::vector<at::Tensor> keeps;    ///< other memory of the operation
  struct Copy {
    at::Tensor to, from;
  };
  std::vector<Copy> copies;  ///< made once the operation has succeeded
  coll_message_t message = COLL_MESSAGE_INIT;
  std::optional<std::size_t> message_count;            ///< of a recv: the elements that must come
  std::vector<c10::intrusive_ptr<GroupWork>> earlier;  ///< they are complete before this one is
  std::shared_ptr<void> until_end;  ///< let go when the operation is complete, or refused

  /// Runs the calls in this thread to their end. How they ended is what wait() says.
  void run(std::span<const coll_call_t> calls);
  /// Issues the calls. Throws if the library refuses their arguments.
  void start(std::span<const coll_call_t> calls);
  /// Completes an operation that did not need the library.
  void finish_without_calls(const std::exception_ptr& exception = nullptr);
  /// Completes an operation whose calls have ended, unless another thread does: then waits for it.
  /// Returns at once in a function that the completion calls.
  void complete();

  /// Waits until the operation is complete. How it ended is for those who hold it.
  void wait_quietly();

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(Milliseconds timeout = kNoTimeout) override;
  void synchronize() override {}
  void abort() override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  // Not virtual in older versions of PyTorch.
  // NOLINTBEGIN(modernize-use-override)
  Milliseconds getTimeout() const { return timeout_; }
  std::uint64_t getCompletionKey() const { return key_; }
  // NOLINTEND(modernize-use-override)

 private:
  void call_ended();
  /// True if this thread is to complete the operation.
  bool claim();
  void complete_claimed();
  /// Ends an operation that the library has not taken, and throws the failure.
  [[noreturn]] void refuse(const std::exception_ptr& failure);
  /// How the calls ended: null for success.
  [[nodiscard]] std::exception_ptr failure_of_calls() const;
  [[nodiscard]] std::exception_ptr failure_of_message() const;
  void finish_all(std::exception_ptr failure);
  void tell_work_info();
  /// Completes the futures that exist; those made later are complete at once.
  void complete_futures();
  /// Whether a future has said that the operation is complete. Then isCompleted() says so, too.
  [[nodiscard]] bool futures_tell() const;
  void settle(const c10::intrusive_ptr<c10::ivalue::Future>& future, bool of_tensors);

  const std::shared_ptr<Group> group_;
  const std::string words_;
  const std::uint64_t sequence_;
  const std::uint64_t key_;
  const Milliseconds timeout_;
  const std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point ended_;

  std::vector<collectives::Work> handles_;
  // Under the base's mutex_.
  std::size_t running_ = 0;    // calls that have not ended
  int waiting_ = 0;            // threads that will complete the operation when its calls have ended
  std::thread::id completer_;  // the thread that completes it; none yet: the default
  bool over_ = false;          // it has: hooks and futures have seen the end
  bool settled_ = false;       // the futures made from now on are complete
  c10::intrusive_ptr<c10::ivalue::Future> future_, future_result_;
};

}  // namespace collectives_torch
