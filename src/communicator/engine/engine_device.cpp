// SPDX-License-Identifier: Apache-2.0
// What calls need before a stream of CUDA waits for them, and what they wait for without one.
#include <algorithm>
#include <exception>
#include <set>

#include "communicator/engine/engine.hpp"
#include "sys/cuda/device_copies.hpp"

namespace coll {

bool Engine::prepares(const Request& request) noexcept {
  StreamDevice* const gpu = gpu_of(request.call);
  if (gpu == nullptr) return true;
  const PlanKey key = key_of(request.call);
  const bool prepared = device_->is_prepared(request.call, key);
  if (prepared && !PlacedBuffers::any(request, rank_, size_, *gpu)) return true;
  bool seated = seat_.try_take();
  for (int tries = 1; prepared && !seated && tries < kTries; ++tries) {
    std::this_thread::yield();
    seated = seat_.try_take();
  }
  // A thread in a blocking call keeps the seat until its end, and one more block can be made later.
  if (!seated) return prepared;
  bool ready = true;
  if (!failure_.happened()) {
    // Where it fails, the call meets the same, and has a number to fail with.
    static_cast<void>(caught([&] { return make_ready(request, key, ready); }));
  }
  give_up_seat();
  return ready;
}

const char* Engine::mover_of(const Call& call) const {
  ProgramCache* const by_gpu = device_ ? device_->programs_for(call, key_of(call)) : nullptr;
  return by_gpu == nullptr ? "the host" : device_->name_of(*by_gpu);
}

Status Engine::make_ready(const Request& request, const PlanKey& key, bool& ready) {
  COLL_ASSIGN(const Program* const program, program_of(request.call));
  ready = program != nullptr;
  if (!ready) return {};
  COLL_TRY(device_->prepare(request.call, key));
  return PlacedBuffers::reserve(request, rank_, size_, scratch_, device_->gpu());
}

/// To make what a first call needs may wait for streams, and these for earlier calls; but those of
/// exchanges wait for nothing. (A stream of the program's may wait for an exchange. To drain that
/// too would stop programs whose ranks issue exchanges and collectives in different orders.)
bool Engine::has_to_drain(const Call& call) const {
  if (device_->is_prepared(call, key_of(call))) return false;
  for (const OpenCall* other = open_.front(); other != nullptr; other = other->next)
    if (!other->call.is_pair() && gpu_of(other->call) != nullptr) return true;
  return false;
}

void Engine::await_program(const Request& request) const noexcept {
  if (found_cuda_driver() == nullptr) return;
  static_cast<void>(caught([&]() -> Status {
    std::set<int> devices;
    const auto add = [&devices](const Buffers& buffers) {
      for (const Buffer& buffer : {buffers.input, buffers.output})
        if (const int device = device_of(buffer); device >= 0) devices.insert(device);
    };
    if (request.extras != nullptr && request.extras->parts) {
      for (const CallPart& part : request.extras->parts->list) {
        Request each = request;
        each.input = part.input;
        each.output = part.output;
        each.call.count = part.count;
        add(buffers_of(each, rank_, size_));
      }
    } else {
      add(buffers_of(request, rank_, size_));
    }
    // A device that has failed says so again when the call uses it.
    for (const int device : devices) static_cast<void>(await_default_stream(device));
    return {};
  }));
}

}  // namespace coll
