// SPDX-License-Identifier: Apache-2.0
// A stream of CUDA that operations are put on.
#include "communicator/device/device_stream.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>
#include <utility>

#include "communicator/device/device_part.hpp"
#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

struct Wrapped {
  CudaStream stream;
  CudaContext context;
  std::weak_ptr<DeviceStream> as;
};
ForkSafeMutex g_wrapped_mutex;              // guards `g_wrapped`
std::vector<Wrapped>* g_wrapped = nullptr;  // stays for good

}  // namespace

Result<std::shared_ptr<DeviceStream>> DeviceStream::wrap(void* stream) {
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
  if (reinterpret_cast<std::uintptr_t>(stream) == 2) {  // CU_STREAM_PER_THREAD
    return failed(Code::unsupported,
                  "CUDA's default stream of each thread is another stream in another thread",
                  "make a stream with cuStreamCreate or cudaStreamCreate");
  }
  CudaContext context = nullptr;
  if (const int error = driver->stream_context(handle, &context); error != 0) {
    return failed(Code::invalid_argument,
                  "the stream is none of CUDA's: cuStreamGetCtx: " + driver->describe(error),
                  handle == nullptr ? "make a context current first: CUDA's default stream is that "
                                      "of the thread's context"
                                    : "give a CUstream or cudaStream_t that is there");
  }
  if (std::shared_ptr<DeviceStream> known = find_or_add(handle, context, nullptr)) return known;
  std::shared_ptr<DeviceStream> made(new DeviceStream(*driver, handle, context));
  COLL_ASSIGN(made->helper_, ProgressThread::of_process());
  const CurrentContext current(*driver, context);
  if (current.error() != 0) return driver->failed_to("the context of a stream", current.error());
  if (const int error = driver->create_untimed(&made->behind_))
    return driver->failed_to("an event", error);
  COLL_TRY(made->add_operation());  // with its words: later that might wait for a stream
  return find_or_add(handle, context, made);
}

/// The one of this stream, which becomes `made` if there is none.
std::shared_ptr<DeviceStream> DeviceStream::find_or_add(CudaStream stream, CudaContext context,
                                                        std::shared_ptr<DeviceStream> made) {
  const std::lock_guard lock(g_wrapped_mutex);
  if (g_wrapped == nullptr) g_wrapped = new std::vector<Wrapped>;
  std::erase_if(*g_wrapped, [](const Wrapped& each) { return each.as.expired(); });
  for (const Wrapped& each : *g_wrapped) {
    if (each.stream != stream || each.context != context) continue;
    if (std::shared_ptr<DeviceStream> known = each.as.lock()) return known;
  }
  if (made) g_wrapped->push_back({stream, context, made});
  return made;
}

DeviceStream::~DeviceStream() {
  wait_for_calls();
  const CurrentContext current(driver_, context_);
  if (current.error() != 0) return;
  const BesideCaptures beside(driver_);
  if (behind_ == nullptr) return;  // it was never finished
  driver_.event_synchronize(behind_);
  if (gave_up_) driver_.stream_synchronize(stream_);
  driver_.event_destroy(behind_);
}

Status DeviceStream::enqueue(Communicator& communicator, const Request& request,
                             double deadline_s) {
  {
    DevicePart part(*this);
    COLL_TRY(caught([&] { return part.add(communicator, request, deadline_s); }));
    COLL_TRY(part.prepare());
    get_ready({&part, 1});
    COLL_TRY(part.put());
    OpenCall* const call = part.next_call();
    if (call == nullptr) return {};
    communicator.engine().issue(*call, helper_);
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

Status DeviceStream::prepare(DeviceOperation& operation) {
  return caught([&]() -> Status {
    const CurrentContext current(driver_, context_);
    if (current.error() != 0) return driver_.failed_to("the context of a stream", current.error());
    COLL_ASSIGN(const bool captured, is_capturing());
    COLL_ASSIGN(std::byte* const pinned, memory_for(operation, captured));
    operation.prepare(pinned, captured);
    return {};
  });
}

Status DeviceStream::put(DeviceOperation& operation) {
  const CurrentContext current(driver_, context_);
  if (!operation.captured()) {  // first: the stream may end it before the driver returns
    const std::lock_guard ends(end_mutex_);
    operation.announce();
    push_open(operation);
  }
  bool coming = false;
  const Status done = caught([&] { return operation.put(driver_, stream_, coming); });
  if (!done.ok()) {
    coming ? give_up(operation) : withdraw(operation);
    return done;
  }
  // Else whoever waits does so for all of the stream.
  if (!operation.captured() && driver_.event_record(behind_, stream_) != 0) gave_up_ = true;
  return {};
}

void DeviceStream::push_open(DeviceOperation& operation) noexcept {
  operation.next_open = nullptr;
  (first_open_ == nullptr ? first_open_ : last_open_->next_open) = &operation;
  last_open_ = &operation;
}

/// If it is there: whoever waits for it looks again.
void DeviceStream::remove_open(DeviceOperation& operation) noexcept {
  DeviceOperation** at = &first_open_;
  DeviceOperation* before = nullptr;
  while (*at != nullptr && *at != &operation) {
    before = *at;
    at = &before->next_open;
  }
  if (*at == nullptr) return;
  *at = operation.next_open;
  if (last_open_ == &operation) last_open_ = before;
  ended_.fetch_add(1, std::memory_order_release);
}

void DeviceStream::give_up(DeviceOperation& operation) noexcept {
  const std::lock_guard ends(end_mutex_);
  gave_up_ = true;
  if (operation.was_issued()) return;  // too late: it runs, or has run, like any other
  remove_open(operation);
  operation.give_up();
}

void DeviceStream::withdraw(DeviceOperation& operation) noexcept {
  const std::lock_guard ends(end_mutex_);
  remove_open(operation);
  operation.withdraw();
  free_.push_back(&operation);
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
  if (bytes > memory_.bytes()) {  // twice as much at least: all that is outgrown is less
    COLL_ASSIGN(PinnedBlock larger, PinnedBlock::allocate(driver_, context_, std::bit_ceil(bytes)));
    if (memory_.bytes() != 0) outgrown_.push_back(std::move(memory_));
    memory_ = std::move(larger);
  }
  return memory_.data();
}

bool DeviceStream::calls_ended() noexcept {
  const std::lock_guard lock(end_mutex_);
  return first_open_ == nullptr;
}

/// The waiting thread drives the engines of the oldest operation, then those of the next.
void DeviceStream::wait_for_calls() noexcept {
  constexpr std::chrono::milliseconds kLook{200};
  while (true) {
    std::unique_lock lock(end_mutex_);
    if (first_open_ == nullptr) return;
    const auto [engine, call] = first_open_->unfinished();
    const std::uint64_t ended = ended_.load(std::memory_order_relaxed);
    const Engine::Guest guest(*engine);  // now, while the call keeps the engine alive
    lock.unlock();
    const auto over = [this, ended, at = call] {  // an operation that has ended is used again
      return at->ended.load(std::memory_order_acquire) ||
             ended_.load(std::memory_order_acquire) != ended;
    };
    engine->drive_until(over, Clock::now() + kLook);
    if (!over()) look_at_device();
  }
}

/// A device that has failed runs no host functions, so calls that wait for one would wait for ever:
/// they begin now, and end with their communicators.
void DeviceStream::look_at_device() noexcept {
  const int error = ask_behind(driver_.event_query);
  if (error == 0 || error == kCudaNotReady) return;
  std::vector<Engine::Guest> guests;
  std::vector<Engine*> engines;
  const Status kept = caught([&]() -> Status {
    const std::lock_guard lock(end_mutex_);
    if (std::exchange(device_failed_, true)) return {};
    note_failure(driver_.failed_to("a stream of CUDA", error));
    for (DeviceOperation* each = first_open_; each != nullptr; each = each->next_open) {
      for (std::size_t i = 0; i < each->calls(); ++i) {
        if (each->call(i).ended.load(std::memory_order_relaxed)) continue;
        guests.emplace_back(each->engine(i));
        engines.push_back(&each->engine(i));
      }
    }
    return {};
  });
  if (!kept.ok() || engines.empty()) return;
  for (Engine* const engine : engines) engine->abort();
  const std::lock_guard lock(end_mutex_);
  for (DeviceOperation* each = first_open_; each != nullptr; each = each->next_open) each->reach();
}

int DeviceStream::ask_behind(int (*ask)(CudaEvent event)) const {
  const CurrentContext current(driver_, context_);
  const BesideCaptures beside(driver_);
  return current.error() != 0 ? current.error() : ask(behind_);
}

/// `error`: the stream's own.
Status DeviceStream::take_failure(int error) {
  const std::lock_guard ends(end_mutex_);
  if (error != 0) note_failure(driver_.failed_to("a stream of CUDA", error));
  return std::exchange(failure_, Status{});
}

Status DeviceStream::synchronize() {
  wait_for_calls();
  return take_failure(ask_behind(driver_.event_synchronize));
}

Status DeviceStream::query() {
  if (!calls_ended()) look_at_device();
  const int error = calls_ended() ? ask_behind(driver_.event_query) : kCudaNotReady;
  if (error == kCudaNotReady) return failed(Code::in_progress, "operations are outstanding");
  return take_failure(error);
}

}  // namespace coll
