// SPDX-License-Identifier: Apache-2.0
// A stream of CUDA that operations are put on.
#include "communicator/device/device_stream.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "sys/cuda/current_context.hpp"

namespace coll {

Result<std::unique_ptr<DeviceStream>> DeviceStream::wrap(void* stream) {
  const CudaDriver* const driver = loaded_cuda_driver();
  if (driver == nullptr) {
    return failed(
        Code::invalid_usage,
        "no CUDA driver (libcuda.so.1) is loaded in this process, so it has no streams of "
        "CUDA");
  }
  if (const std::string missing = driver->missing_for_streams(); !missing.empty()) {
    return failed(Code::unsupported, "the CUDA driver lacks " + missing,
                  "use one of CUDA 12 or later");
  }
  auto* const handle = static_cast<CudaStream>(stream);
  CudaContext context = nullptr;
  if (const int error = driver->stream_context(handle, &context); error != 0) {
    return failed(Code::invalid_argument,
                  "the stream is none of CUDA's: cuStreamGetCtx: " + driver->describe(error),
                  handle == nullptr ? "make a context current first: CUDA's default stream is that "
                                      "of the thread's context"
                                    : "give a CUstream or cudaStream_t that is there");
  }
  std::unique_ptr<DeviceStream> made(new DeviceStream(*driver, handle, context));
  COLL_ASSIGN(made->helper_, ProgressThread::of_process());
  constexpr unsigned kUntimed = 2;  // CU_EVENT_DISABLE_TIMING
  const CurrentContext current(*driver, context);
  if (current.error() != 0) return driver->failed_to("the context of a stream", current.error());
  if (const int error = driver->event_create(&made->behind_, kUntimed))
    return driver->failed_to("an event", error);
  return made;
}

DeviceStream::~DeviceStream() {
  wait_for_calls();
  const CurrentContext current(driver_, context_);
  if (current.error() != 0) return;
  if (recorded_) driver_.event_synchronize(behind_);
  if (gave_up_) driver_.stream_synchronize(stream_);
  if (behind_ != nullptr) driver_.event_destroy(behind_);
}

Status DeviceStream::enqueue(Communicator& communicator, const Request& request,
                             double deadline_s) {
  {
    const std::unique_lock held = lock();
    COLL_ASSIGN(DeviceOperation* const operation, take());
    const Status added = caught([&]() -> Status {
      operation->add(communicator, request, deadline_s);
      return {};
    });
    if (!added.ok()) {
      take_back(*operation);
      return added;
    }
    COLL_TRY(submit(*operation));
    if (operation->issued_by_stream()) return {};
    operation->engine(0).issue(operation->call(0), helper_);
  }
  communicator.engine().drive_first(*helper_);
  return {};
}

Result<DeviceOperation*> DeviceStream::take() {
  std::unique_lock ends(end_mutex_);
  if (free_.empty()) {
    ends.unlock();
    COLL_TRY(add_operation());
    ends.lock();
  }
  DeviceOperation* const operation = free_.back();
  free_.pop_back();
  return operation;
}

/// Adds a free one.
Status DeviceStream::add_operation() {
  COLL_ASSIGN(const PinnedWord done, words_.next());
  operations_.emplace_back(*this, done);
  const std::lock_guard ends(end_mutex_);
  free_.reserve(operations_.size());  // what ends finds room
  free_.push_back(&operations_.back());
  return {};
}

void DeviceStream::take_back(DeviceOperation& operation) noexcept {
  operation.clear();
  const std::lock_guard lock(end_mutex_);
  free_.push_back(&operation);
}

Status DeviceStream::submit(DeviceOperation& operation) {
  const CurrentContext current(driver_, context_);
  const auto prepare = [&]() -> Result<std::pair<std::byte*, bool>> {
    if (current.error() != 0) return driver_.failed_to("the context of a stream", current.error());
    COLL_ASSIGN(const bool captured, is_capturing());
    COLL_ASSIGN(std::byte* const pinned, memory_for(operation, captured));
    return std::pair(pinned, captured);
  };
  const auto prepared = caught([&] { return prepare(); });
  if (!prepared.ok()) {
    take_back(operation);
    return prepared.status();
  }
  std::byte* const pinned = prepared->first;
  const bool captured = prepared->second;
  bool there = false;
  const Status put =
      caught([&] { return operation.put(driver_, stream_, pinned, captured, there); });
  if (!put.ok()) {
    there ? give_up(operation) : take_back(operation);
    return put;
  }
  if (captured) return {};
  recorded_ = driver_.event_record(behind_, stream_) == 0 || recorded_;
  const std::lock_guard ends(end_mutex_);
  operation.next_open = nullptr;
  (first_open_ == nullptr ? first_open_ : last_open_->next_open) = &operation;
  last_open_ = &operation;
  return {};
}

/// It is never used again.
void DeviceStream::give_up(DeviceOperation& operation) noexcept {
  const std::lock_guard ends(end_mutex_);
  DeviceOperation* before = nullptr;
  for (DeviceOperation* at = first_open_; at != nullptr;
       before = std::exchange(at, at->next_open)) {
    if (at != &operation) continue;
    (before == nullptr ? first_open_ : before->next_open) = operation.next_open;
    if (last_open_ == &operation) last_open_ = before;
  }
  operation.give_up();
  gave_up_ = true;
}

void DeviceStream::end_operation(DeviceOperation& operation) noexcept {
  // The stream starts operations one after another, so they end like that.
  first_open_ = operation.next_open;
  if (first_open_ == nullptr) last_open_ = nullptr;
  operation.clear();
  free_.push_back(&operation);
  ended_.fetch_add(1, std::memory_order_release);
}

Result<bool> DeviceStream::is_capturing() const {
  int status = 0;  // CUstreamCaptureStatus
  if (const int error = driver_.stream_is_capturing(stream_, &status))
    return driver_.failed_to("cuStreamIsCapturing", error);
  if (status == 2)
    return failed(Code::invalid_usage, "the capture of the stream is invalid", "end it");
  return status == 1;
}

/// What the operation needs of pinned memory.
Result<std::byte*> DeviceStream::memory_for(DeviceOperation& operation, bool captured) {
  const std::size_t bytes = operation.staged_bytes();
  if (bytes == 0) return nullptr;
  if (captured) {
    COLL_ASSIGN(operation.own_memory, PinnedBlock::allocate(driver_, context_, bytes));
    return operation.own_memory.data();
  }
  if (bytes > memory_.bytes()) {
    COLL_ASSIGN(PinnedBlock larger, PinnedBlock::allocate(driver_, context_, std::bit_ceil(bytes)));
    outgrown_.push_back(std::exchange(memory_, std::move(larger)));
    if (outgrown_.size() > 1 && calls_ended() && driver_.event_query(behind_) == 0)
      outgrown_.clear();
  }
  return memory_.data();
}

bool DeviceStream::calls_ended() noexcept {
  const std::lock_guard lock(end_mutex_);
  return first_open_ == nullptr;
}

/// The waiting thread drives the engines of the oldest operation, then those of the next.
void DeviceStream::wait_for_calls() noexcept {
  while (true) {
    std::unique_lock lock(end_mutex_);
    if (first_open_ == nullptr) return;
    const auto [engine, call] = first_open_->unfinished();
    const std::uint64_t ended = ended_.load(std::memory_order_relaxed);
    const Engine::Guest guest(*engine);  // now, while the call keeps the engine alive
    lock.unlock();
    engine->drive_until([this, ended, at = call] {  // an operation that has ended is used again
      return at->ended.load(std::memory_order_acquire) ||
             ended_.load(std::memory_order_acquire) != ended;
    });
  }
}

Status DeviceStream::synchronize() {
  wait_for_calls();
  const std::unique_lock held = lock();
  const CurrentContext current(driver_, context_);
  int error = current.error();
  if (error == 0 && recorded_) error = driver_.event_synchronize(behind_);
  const std::lock_guard ends(end_mutex_);
  if (error != 0) note_failure(driver_.failed_to("a stream of CUDA", error));
  return std::exchange(failure_, Status{});
}

Status DeviceStream::query() {
  constexpr int kNotReady = 600;  // CUDA_ERROR_NOT_READY
  const Status outstanding = failed(Code::in_progress, "operations are outstanding");
  if (!calls_ended()) return outstanding;
  const std::unique_lock held = lock();
  const CurrentContext current(driver_, context_);
  const int error =
      current.error() != 0 || !recorded_ ? current.error() : driver_.event_query(behind_);
  if (error == kNotReady) return outstanding;
  const std::lock_guard ends(end_mutex_);
  if (error != 0) note_failure(driver_.failed_to("a stream of CUDA", error));
  return std::exchange(failure_, Status{});
}

}  // namespace coll
