// SPDX-License-Identifier: Apache-2.0
// Events, and the signals that each recording of one makes.
#include "emulation/cuda/driver/emulated_event.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_capture.hpp"
#include "emulation/cuda/driver/emulated_nap.hpp"
#include "emulation/cuda/driver/memory/emulated_memory.hpp"

namespace emucuda {
namespace {

class Raise final : public Operation {
 public:
  explicit Raise(Kept<Signal> signal) : signal_(std::move(signal)) {}
  void run(Stream&) override { signal_->raise(); }

 private:
  const Kept<Signal> signal_;
};

class WaitForSignal final : public Operation {
 public:
  explicit WaitForSignal(Kept<Signal> signal) : signal_(std::move(signal)) {}
  void run(Stream& stream) override {
    stream.doing(Doing::wait_event, signal_.get());
    signal_->await();
  }

 private:
  const Kept<Signal> signal_;
};

Event* event_of(CUevent handle) {
  return reinterpret_cast<Event*>(handle);
}

}  // namespace

Kept<EventPage> EventPage::map(int descriptor) {
  void* const words =
      mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (words == MAP_FAILED) {
    close(descriptor);
    return {};
  }
  return Kept<EventPage>(new EventPage(descriptor, static_cast<Words*>(words)));
}

EventPage::~EventPage() {
  munmap(words_, sizeof(Words));
  close(descriptor_);
}

void Signal::raise() {
  time_ns_.store(std::chrono::steady_clock::now().time_since_epoch().count(),
                 std::memory_order_relaxed);
  std::uint64_t seen = word().load(std::memory_order_relaxed);
  if (!page_) {
    own_.store(goal_, std::memory_order_release);
  } else {
    while (seen < goal_ && !word().compare_exchange_weak(seen, goal_, std::memory_order_release,
                                                         std::memory_order_relaxed)) {
    }
  }
  wake(&word());
}

bool Signal::raised() const {
  if (word().load(std::memory_order_relaxed) < goal_) return false;
  static_cast<void>(word().load(std::memory_order_acquire));
  return true;
}

void Signal::await() const {
  constexpr long kLongestWait = 20'000'000;  // ns
  const auto read = [this] { return word().load(std::memory_order_relaxed); };
  emucuda::await(&word(), kLongestWait, read, [this](std::uint64_t now) { return now >= goal_; });
  static_cast<void>(word().load(std::memory_order_acquire));
}

Kept<Signal> Event::signal() {
  const std::lock_guard lock(mutex);
  if (!page) return latest;
  const std::uint64_t recorded = page->words().recorded.load(std::memory_order_relaxed);
  return recorded == 0 ? Kept<Signal>() : Kept<Signal>(new Signal(page, recorded));
}

void submit_raise(Stream& stream, Kept<Signal> signal) {
  stream.submit(std::make_unique<Raise>(std::move(signal)));
}

void submit_wait(Stream& stream, Kept<Signal> signal) {
  stream.submit(std::make_unique<WaitForSignal>(std::move(signal)));
}

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (event == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  const bool shared = (flags & CU_EVENT_INTERPROCESS) != 0;
  if (shared && (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  Kept<Event> made(new Event(flags));
  if (shared) {
    const int descriptor = new_memory_file(0, sizeof(EventPage::Words));
    if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    made->page = EventPage::map(descriptor);
    if (!made->page) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *event = reinterpret_cast<CUevent>(made.release());
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  event_of(handle)->drop();
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Stream* const stream = stream_of(stream_handle);
  if (handle == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Event& event = *event_of(handle);
  const std::lock_guard lock(event.mutex);
  if (stream->capture.load(std::memory_order_relaxed) != nullptr)
    return note_record(*stream, event);
  event.captured = {};
  if (event.page) {
    event.latest = Kept<Signal>(new Signal(
        event.page, event.page->words().recorded.fetch_add(1, std::memory_order_relaxed) + 1));
  } else {
    event.latest = Kept<Signal>(new Signal);
  }
  stream->submit_waits();
  submit_raise(*stream, event.latest);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Stream* const stream = stream_of(stream_handle);
  if (handle == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Event& event = *event_of(handle);
  CapturedPlace captured;
  {
    const std::lock_guard lock(event.mutex);
    captured = event.captured;
  }
  if (captured.capture != 0 || stream->capture.load(std::memory_order_relaxed) != nullptr) {
    return note_wait(*stream, captured);
  }
  Kept<Signal> signal = event.signal();
  if (signal) submit_wait(*stream, std::move(signal));
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_captured(*event_of(handle))) return refused;
  const Kept<Signal> signal = event_of(handle)->signal();
  return !signal || signal->raised() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_captured(*event_of(handle))) return refused;
  const Kept<Signal> signal = event_of(handle)->signal();
  if (signal) signal->await();
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::int64_t times[2];
  const CUevent handles[] = {begin, end};
  for (int i = 0; i < 2; ++i) {
    if (handles[i] == nullptr || (event_of(handles[i])->flags & CU_EVENT_DISABLE_TIMING) != 0) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    const Kept<Signal> signal = event_of(handles[i])->signal();
    if (!signal) return CUDA_ERROR_INVALID_HANDLE;
    if (!signal->raised()) return CUDA_ERROR_NOT_READY;
    times[i] = signal->time_ns();
  }
  *milliseconds = static_cast<float>(static_cast<double>(times[1] - times[0]) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, begin, end);
}

}  // extern "C"
}  // namespace emucuda
