// SPDX-License-Identifier: Apache-2.0
// The handle of one operation that runs asynchronously.
#include "communicator/work.hpp"

#include <utility>

#include "communicator/engine/progress_thread.hpp"

namespace coll {
namespace {

/// A call in no stream. It deletes itself when it has ended.
class LoneCall final : public OpenCall, private CallOwner {
 public:
  LoneCall(const Request& what, double deadline, std::shared_ptr<Work> work)
      : work_(std::move(work)) {
    renew(what, this, deadline, false);
  }

 private:
  [[nodiscard]] bool may_start(const OpenCall& /*call*/) const noexcept override { return true; }
  [[nodiscard]] bool tells(const OpenCall& /*call*/, const Work& work) const noexcept override {
    return work_.get() == &work;
  }
  void on_end(OpenCall& /*call*/) noexcept override {
    work_->finish(status);
    delete this;
  }

  std::shared_ptr<Work> work_;
};

}  // namespace

Result<std::shared_ptr<Work>> Work::start(Communicator& communicator, const Request& request,
                                          double deadline_s) {
  COLL_ASSIGN(const std::shared_ptr<ProgressThread> helper, ProgressThread::of_process());
  auto work = std::make_shared<Work>(communicator.engine());
  auto call = std::make_unique<LoneCall>(request, deadline_s, work);
  communicator.engine().await_program(request);
  communicator.engine().issue(*call.release(), helper);
  communicator.engine().drive_first(*helper);
  return work;
}

Status Work::test() const {
  if (!ended_.load(std::memory_order_acquire)) {
    return failed(Code::in_progress, "the operation runs");
  }
  return status_;
}

Status Work::wait(double timeout_s) {
  const Deadline until = timeout_s < 0 ? Deadline::max() : after(timeout_s);
  std::unique_lock lock(mutex_);
  if (!ended_.load(std::memory_order_relaxed)) {
    const Engine::Guest guest(*engine_);  // now, while the call keeps the engine alive
    lock.unlock();
    engine_->drive_until([this] { return ended_.load(std::memory_order_acquire); }, until);
  }
  return test();
}

Status Work::cancel() {
  std::unique_lock lock(mutex_);
  if (!ended_.load(std::memory_order_relaxed)) {
    const Engine::Guest guest(*engine_);
    lock.unlock();
    if (engine_->cancel(*this)) return {};
  }
  return failed(Code::in_progress, "the operation is no tagged recv that waits for its message",
                "wait for it");
}

void Work::abort() noexcept {
  std::unique_lock lock(mutex_);
  if (over_) return;  // also in the function that is called at its end
  const Engine::Guest guest(*engine_);
  lock.unlock();
  engine_->abort();
}

Status Work::on_end(OnEnd function) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(given_, true)) {
      return failed(Code::invalid_usage, "the operation has a function to call at its end already",
                    "give one function, and call others from it");
    }
    if (!over_) {
      on_end_ = std::move(function);
      return {};
    }
  }
  function(status_);
  return {};
}

void Work::finish(const Status& status) noexcept {
  OnEnd function;
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
    over_ = true;
    function.swap(on_end_);
  }
  if (function) function(status_);
  const std::lock_guard lock(mutex_);
  ended_.store(true, std::memory_order_release);
}

}  // namespace coll
