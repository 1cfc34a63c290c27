// SPDX-License-Identifier: Apache-2.0
// How an operation is issued, waited for and completed.
#include "torch_work.hpp"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "torch_later.hpp"
#include "torch_versions.hpp"

namespace collectives_torch {

namespace {

std::atomic<std::uint64_t> next_key = 1;

std::string profiling_title(const Title& title) {
  return title.backend + ":" + title.words;
}

double left_until(std::chrono::steady_clock::time_point deadline) {
  const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
  return std::max(left.count(), 0.0);
}

}  // namespace

GroupWork::GroupWork(std::shared_ptr<Group> group, const Title& title,
                     const std::vector<at::Tensor>& profiled_inputs, std::uint64_t sequence,
                     Milliseconds timeout)
    : c10d::Work(group->who().rank, title.op, profiling_title(title).c_str(), profiled_inputs),
      group_(std::move(group)),
      words_(title.words),
      sequence_(sequence),
      key_(next_key.fetch_add(1, std::memory_order_relaxed)),
      timeout_(timeout),
      began_(std::chrono::steady_clock::now()) {}

void GroupWork::run(std::span<const coll_call_t> calls) {
  const coll_status_t status = group_->with_communicator([&](collectives::Communicator& comm) {
    if (calls.size() == 1) return coll_run(calls.data(), comm.get());
    coll_status_t begun = coll_group_start();
    if (begun != COLL_SUCCESS) return begun;
    // A refused call is what the group's end reports.
    for (const coll_call_t& call : calls) (void)coll_run(&call, comm.get());
    return coll_group_end();
  });
  std::exception_ptr failure;
  if (status != COLL_SUCCESS) {
    const collectives::Error error = collectives::detail::last_error(status);
    failure = group_->exception(words_, status, error.rank, error.text, timeout_);
    if (status == COLL_INVALID_ARGUMENT || status == COLL_INVALID_USAGE) refuse(failure);
  }
  claim();  // nobody else has this work yet
  finish_all(std::move(failure));
}

void GroupWork::refuse(const std::exception_ptr& failure) {
  claim();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  earlier.clear();
  until_end.reset();
  finish(failure);
  std::rethrow_exception(failure);
}

void GroupWork::start(std::span<const coll_call_t> calls) {
  group_->with_communicator([&](collectives::Communicator& comm) {
    coll_status_t status = calls.size() > 1 ? coll_group_start() : COLL_SUCCESS;
    for (const coll_call_t& call : calls) {
      if (status != COLL_SUCCESS) break;
      coll_work_t handle = nullptr;
      status = coll_start(&call, comm.get(), nullptr, &handle);
      if (status == COLL_SUCCESS) handles_.emplace_back(handle);
    }
    if (calls.size() > 1) {
      const coll_status_t ended = coll_group_end();
      if (status == COLL_SUCCESS) status = ended;
    }
    if (status != COLL_SUCCESS) {
      const collectives::Error error = collectives::detail::last_error(status);
      const auto failure = group_->exception(words_, status, error.rank, error.text, timeout_);
      handles_.clear();
      refuse(failure);
    }
  });
  group_->add_in_flight(c10::intrusive_ptr<GroupWork>::reclaim_copy(this));
  running_ = handles_.size();
  waiting_ = 1;  // this thread, until all calls know whom to tell
  for (const collectives::Work& handle : handles_) {
    coll_work_on_end(
        handle.get(),
        [](void* work, coll_status_t) { static_cast<GroupWork*>(work)->call_ended(); }, this);
  }
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    --waiting_;
    ended = running_ == 0;
  }
  if (ended) complete();
}

// The library calls this in the thread that moves operations: nothing here may wait, and nothing
// may be freed. After the lock another thread may free this work.
void GroupWork::call_ended() {
  const std::lock_guard lock(mutex_);
  if (--running_ == 0 && waiting_ == 0) {
    run_later([work = c10::intrusive_ptr<GroupWork>::reclaim_copy(this)] { work->complete(); });
  }
}

std::exception_ptr GroupWork::failure_of_calls() const {
  for (const collectives::Work& handle : handles_) {
    coll_work_wait(handle.get(),
                   -1);  // its function may have been called a moment before it says so
    coll_error_info_t info = COLL_ERROR_INFO_INIT;
    coll_work_error_info(handle.get(), &info);
    if (info.code != COLL_SUCCESS) {
      return group_->exception(words_, info.code, info.rank, info.text, timeout_);
    }
  }
  return nullptr;
}

std::exception_ptr GroupWork::failure_of_message() const {
  if (!message_count || message.count == *message_count) return nullptr;
  return group_->exception(words_, COLL_MISMATCH, message.source,
                           "rank " + std::to_string(message.source) + " sent " +
                               std::to_string(message.count) + " elements, this rank receives " +
                               std::to_string(*message_count),
                           timeout_);
}

void GroupWork::finish_without_calls(const std::exception_ptr& exception) {
  claim();
  finish_all(exception);
}

bool GroupWork::claim() {
  const std::lock_guard lock(mutex_);
  if (completer_ != std::thread::id()) return false;
  completer_ = std::this_thread::get_id();
  return true;
}

void GroupWork::complete() {
  if (claim()) return complete_claimed();
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [this] { return over_ || completer_ == std::this_thread::get_id(); });
}

void GroupWork::complete_claimed() {
  finish_all(failure_of_calls());
  // Until here the group's reference has kept the work, and told waitForPendingWorks of it.
  const c10::intrusive_ptr<GroupWork> own = group_->remove_in_flight(key_);
}

void GroupWork::finish_all(std::exception_ptr failure) {
  for (const auto& work : std::exchange(earlier, {})) work->wait_quietly();
  ended_ = std::chrono::steady_clock::now();
  if (!failure) failure = failure_of_message();
  if (!failure && !copies.empty()) {
    try {
      const at::NoGradGuard no_gradients;
      for (const Copy& copy : copies) copy.to.copy_(copy.from);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  until_end.reset();
  finish(failure);
  copies.clear();
  keeps.clear();
  if (!failure) {
    group_->completion_hooks.call(key_, getDuration());
    tell_work_info();
  }
  complete_futures();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  cv_.notify_all();
  // PyTorch's hook writes the flight recorder's dump, which may take a second: nobody waits for it.
  if (failure) run_later([group = group_] { group->abort_hooks.call(); });
}

void GroupWork::tell_work_info() {
  if (!group_->work_info_hook) return;
  using Time = decltype(c10d::WorkInfo::timeStarted);
  try {
    group_->work_info_hook(std::make_shared<c10d::WorkInfo>(
        opType_, sequence_, time_as<Time>(began_), time_as<Time>(ended_), ended_ - began_));
  } catch (const std::exception& error) {
    TORCH_WARN("coll: a completion hook failed: ", error.what());
  }
}

void GroupWork::complete_futures() {
  c10::intrusive_ptr<c10::ivalue::Future> tensors, status;
  {
    const std::lock_guard lock(mutex_);
    settled_ = true;
    tensors = future_;
    status = future_result_;
  }
  if (tensors) settle(tensors, true);
  if (status) settle(status, false);
}

void GroupWork::settle(const c10::intrusive_ptr<c10::ivalue::Future>& future, bool of_tensors) {
  if (!of_tensors) {
    const auto value = exception_ ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
    future->markCompleted(static_cast<std::int64_t>(value));
  } else if (exception_) {
    future->setError(exception_);
  } else {
    future->markCompleted(c10::IValue(outputs));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> GroupWork::getFuture() {
  std::unique_lock lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  const auto future = future_;
  const bool now = settled_;
  lock.unlock();
  if (now) settle(future, true);
  return future;
}

c10::intrusive_ptr<c10::ivalue::Future> GroupWork::getFutureResult() {
  std::unique_lock lock(mutex_);
  if (future_result_) return future_result_;
  future_result_ = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  const auto future = future_result_;
  const bool now = settled_;
  lock.unlock();
  if (now) settle(future, false);
  return future;
}

bool GroupWork::futures_tell() const {
  if (!settled_) return false;
  if (!future_ && !future_result_) return true;
  return (future_ && future_->completed()) || (future_result_ && future_result_->completed());
}

bool GroupWork::isCompleted() {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return over_ || completer_ == std::this_thread::get_id() || futures_tell();
    if (running_ != 0) return false;
  }
  if (!claim()) return false;  // the thread that completes it may need the caller's locks
  complete_claimed();
  return true;
}

bool GroupWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

std::exception_ptr GroupWork::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

bool GroupWork::wait(Milliseconds timeout) {
  bool wait_for_calls = false;
  {
    const std::lock_guard lock(mutex_);
    if (!completed_ && running_ != 0) {
      wait_for_calls = true;
      ++waiting_;
    }
  }
  if (wait_for_calls) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (const collectives::Work& handle : handles_) {
      coll_work_wait(handle.get(), timeout == kNoTimeout ? -1.0 : left_until(deadline));
    }
    bool ended = false;
    {
      const std::lock_guard lock(mutex_);
      --waiting_;
      ended = running_ == 0;
    }
    if (!ended) {
      std::rethrow_exception(group_->exception(words_, COLL_DEADLINE, -1,
                                               "the operation goes on, wait() gives up", timeout));
    }
  }
  complete();
  if (const std::exception_ptr failure = exception()) std::rethrow_exception(failure);
  return true;
}

void GroupWork::wait_quietly() {
  try {
    wait();
  } catch (const std::exception&) {
  }
}

void GroupWork::abort() {
  group_->abort();
}

int GroupWork::sourceRank() const {
  TORCH_CHECK(opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE,
              "coll: only a recv has a source");
  return message.source;
}

std::vector<at::Tensor> GroupWork::result() {
  TORCH_CHECK(isCompleted(), "coll: the operation has not ended; call wait() before result()");
  return outputs;
}

float GroupWork::getDuration() const {
  return std::chrono::duration<float, std::milli>(ended_ - began_).count();
}

}  // namespace collectives_torch
