// SPDX-License-Identifier: Apache-2.0
// Streams: the queue, the thread, and what the driver's functions make of them.
#include "emulation/cuda/driver/emulated_stream.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_capture.hpp"
#include "emulation/cuda/driver/emulated_context.hpp"
#include "emulation/cuda/driver/emulated_machine.hpp"
#include "emulation/cuda/driver/emulated_nap.hpp"
#include "emulation/cuda/driver/emulated_watchdog.hpp"

namespace emucuda {
namespace {

constexpr long kLongestNap = 20'000'000;  // ns

std::mutex g_streams_mutex;
auto& g_streams = *new std::vector<Kept<Stream>>;

}  // namespace

class EndOfStream final : public Operation {
 public:
  void run(Stream& stream) override { stream.ended_ = true; }
};

/// Waits for what another stream had when this was submitted.
class WaitForStream final : public Operation {
 public:
  explicit WaitForStream(Kept<Stream> other)
      : other_(std::move(other)), goal_(other_->submitted_.load(std::memory_order_relaxed)) {}
  void run(Stream& stream) override {
    stream.doing(Doing::wait_event, other_.get());
    other_->await_completed<std::memory_order_acquire>(goal_);
  }

 private:
  const Kept<Stream> other_;
  const std::uint64_t goal_;
};

Stream::Stream(Context& in, int importance, Follows what)
    : context(in), priority(importance), follows(what), last_(new Node), reached_(last_) {}

Stream::~Stream() {
  delete reached_;
}

Kept<Stream> Stream::make(Context& context, int priority, Follows follows) {
  Kept<Stream> stream(new Stream(context, priority, follows));
  {
    const std::lock_guard lock(g_streams_mutex);
    std::erase_if(g_streams,
                  [](const Kept<Stream>& old) { return old->completed() == UINT64_MAX; });
    g_streams.push_back(stream);
  }
  start_watchdog();
  start_deleting();
  // The program's handlers of signals are not for these threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([own = stream.get()] { own->work(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return stream;
}

void Stream::append(Node* node) {
  const std::lock_guard lock(submitting_);
  Node* const before = std::exchange(last_, node);
  submitted_.fetch_add(1, std::memory_order_relaxed);
  before->next.store(node, std::memory_order_release);
  wake(&before->next);  // the address only: the stream may have deleted `before`
  if (machine().lag_us > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(machine().lag_us));
}

void Stream::submit(std::unique_ptr<Operation> operation) {
  auto* const node = new Node;
  node->operation = operation.release();
  append(node);
}

void Stream::submit(Operation& operation, Kept<Shared> keeper) {
  auto* const node = new Node;
  node->operation = &operation;
  node->keeper = std::move(keeper);
  append(node);
}

void Stream::submit_waits() {
  const Kept<Stream> first = context.known_default_stream();
  if (!first) return;
  if (this != first.get()) {
    if (follows == Follows::default_stream && first->busy())
      submit(std::make_unique<WaitForStream>(first));
    return;
  }
  for (const Kept<Stream>& other : all_streams()) {
    if (&other->context == &context && other->follows == Follows::default_stream && other->busy())
      submit(std::make_unique<WaitForStream>(other));
  }
}

CUresult Stream::accept(std::unique_ptr<Operation> operation) {
  if (capture.load(std::memory_order_relaxed) != nullptr) return note(*this, std::move(operation));
  submit_waits();
  submit(std::move(operation));
  return CUDA_SUCCESS;
}

void Stream::work() {
  const Kept<Stream> kept = Kept<Stream>::another(this);
  for (std::uint64_t done = 0; !ended_;) {
    Node* node = nullptr;
    const auto next = [this, &node] {
      node = reached_->next.load(std::memory_order_acquire);
      return reinterpret_cast<std::uint64_t>(node);
    };
    await(&reached_->next, kLongestNap, next, [](std::uint64_t now) { return now != 0; });
    delete std::exchange(reached_, node);
    node->operation->run(*this);
    doing(Doing::nothing);
    if (node->keeper) {
      node->keeper = {};
    } else {
      delete node->operation;
    }
    completed_.store(ended_ ? UINT64_MAX : ++done, std::memory_order_release);
    wake(&completed_);
  }
}

bool Stream::busy() const {
  return completed() < submitted_.load(std::memory_order_relaxed);
}

bool Stream::finished() const {
  // Only of a stream that is finished may what it did be seen.
  if (busy()) return false;
  static_cast<void>(completed_.load(std::memory_order_acquire));
  return true;
}

template <std::memory_order order>
void Stream::await_completed(std::uint64_t goal) const {
  const auto completed = [this] { return completed_.load(std::memory_order_relaxed); };
  await(&completed_, kLongestNap, completed, [goal](std::uint64_t now) { return now >= goal; });
  static_cast<void>(completed_.load(order));
}

void Stream::synchronize() const {
  await_completed<std::memory_order_acquire>(submitted_.load(std::memory_order_relaxed));
}
void Stream::drain() const {
  await_completed<std::memory_order_relaxed>(submitted_.load(std::memory_order_relaxed));
}
void Stream::end() {
  submit(std::make_unique<EndOfStream>());
}

void Stream::doing(Doing what, const void* about, std::uint64_t value, unsigned flags) {
  about_.store(about, std::memory_order_relaxed);
  value_.store(value, std::memory_order_relaxed);
  flags_.store(flags, std::memory_order_relaxed);
  doing_.store(what, std::memory_order_relaxed);
}

void Stream::describe() const {
  describe_operation(this, context.device, completed(), submitted_.load(std::memory_order_relaxed),
                     doing_.load(std::memory_order_relaxed), about_.load(std::memory_order_relaxed),
                     value_.load(std::memory_order_relaxed),
                     flags_.load(std::memory_order_relaxed));
}

std::vector<Kept<Stream>> all_streams() {
  const std::lock_guard lock(g_streams_mutex);
  return g_streams;
}

void drain_streams() {
  for (const Kept<Stream>& stream : all_streams()) stream->drain();
}

Stream* stream_of(CUstream handle) {
  constexpr std::uintptr_t kLegacy = 1,
                           kPerThread = 2;  // cuda.h, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number > kPerThread) return reinterpret_cast<Stream*>(handle);
  Context* const context = current_context();
  return number > kLegacy || context == nullptr ? nullptr : &context->default_stream();
}

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const bool alone = (flags & CU_STREAM_NON_BLOCKING) != 0;
  *stream = handle_of(Stream::make(*current_context(), std::clamp(priority, -5, 0),
                                   alone ? Follows::none : Follows::default_stream)
                          .release());
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return CUDA_ERROR_INVALID_HANDLE;
  const Kept<Stream> stream(reinterpret_cast<Stream*>(handle));
  if (stream->capture.load(std::memory_order_relaxed) != nullptr) invalidate_capture(*stream);
  stream->end();
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_in_capture(stream)) return refused;
  return stream->finished() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_in_capture(stream)) return refused;
  stream->synchronize();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = handle_of(&stream->context);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr || priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  for (const Kept<Stream>& stream : all_streams()) {
    if (&stream->context == current_context()) stream->synchronize();
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
