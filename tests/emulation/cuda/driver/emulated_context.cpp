// SPDX-License-Identifier: Apache-2.0
// Contexts: the one of each device, and which of them is current in a thread.
#include "emulation/cuda/driver/emulated_context.hpp"

#include <array>
#include <deque>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_machine.hpp"

namespace emucuda {
namespace {

/// The contexts that a thread has pushed. Nothing in it needs a destructor at the thread's end.
struct Stack {
  std::array<Context*, 64> contexts;
  std::size_t depth;
  [[nodiscard]] Context* top() const { return depth == 0 ? nullptr : contexts[depth - 1]; }
  bool push(Context* context) {
    if (depth == contexts.size()) return false;
    contexts[depth++] = context;
    return true;
  }
};
constinit thread_local Stack t_stack{};

std::deque<Context>& contexts() {
  static auto& contexts = *[] {
    auto* const made = new std::deque<Context>;
    for (int device = 0; device < machine().devices; ++device) made->emplace_back(device);
    return made;
  }();
  return contexts;
}

Context* context_behind(CUcontext handle) {
  return reinterpret_cast<Context*>(handle);
}

}  // namespace

Context& context_of(int device) {
  return contexts()[static_cast<std::size_t>(device)];
}

Context* current_context() {
  Context* const top = t_stack.top();
  if (top == nullptr) return nullptr;
  const std::lock_guard lock(top->mutex);
  return top->retained > 0 ? top : nullptr;
}

Stream& Context::default_stream() {
  const std::lock_guard lock(mutex);
  if (!no_stream) no_stream = Stream::make(*this, 0, Follows::none);
  return *no_stream;
}

Kept<Stream> Context::known_default_stream() {
  const std::lock_guard lock(mutex);
  return no_stream;
}

bool Context::reaches(int other) {
  const std::lock_guard lock(mutex);
  return other == device || peers.count(other) > 0;
}

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context& primary = context_of(device);
  const std::lock_guard lock(primary.mutex);
  ++primary.retained;
  *context = handle_of(&primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context& primary = context_of(device);
  const std::lock_guard lock(primary.mutex);
  if (primary.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.retained == 0)
    primary.peers.clear();  // memory and streams stay, unlike the real driver's
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (t_stack.depth > 0) --t_stack.depth;
  if (context != nullptr) t_stack.push(context_behind(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = handle_of(t_stack.top());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = current_context()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return t_stack.push(context_behind(context)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (t_stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = handle_of(t_stack.top());
  --t_stack.depth;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Context& own = *current_context();
  const int device = context_behind(peer)->device;
  if (device == own.device || !machine().peers) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const std::lock_guard lock(own.mutex);
  return own.peers.insert(device).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
