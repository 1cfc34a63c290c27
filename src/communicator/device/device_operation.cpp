// SPDX-License-Identifier: Apache-2.0
// How an operation and its stream of CUDA wait for each other.
#include "communicator/device/device_operation.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "communicator/device/device_stream.hpp"

namespace coll {

void DeviceOperation::add(Communicator& communicator, const Request& request, double deadline_s) {
  if (used_ == members_.size()) members_.emplace_back();
  Member& member = members_[used_];
  member.engine = &communicator.engine();
  member.communicator = &communicator;
  // A GPU moves the call where its buffers are, unless the processor has to prepare them.
  const bool prepared =
      request.extras != nullptr && (request.extras->parts || request.extras->factor);
  const bool stages = prepared || communicator.engine().gpu_of(request.call) == nullptr;
  staged_bytes_ =
      member.staged.plan(request, communicator.rank(), communicator.size(), staged_bytes_, stages);
  member.given_deadline_s = deadline_s;
  ++used_;
}

void DeviceOperation::prepare(std::byte* pinned, bool captured) {
  const auto begin = members_.begin(), end = begin + static_cast<std::ptrdiff_t>(used_);
  for (auto member = begin; member != end; ++member) {
    member->placed = &member->staged.place(pinned);
    if (captured) member->communicator->note_capture();
  }
  const bool by_stream = std::any_of(
      begin, end, [](const Member& member) { return member.communicator->was_captured(); });
  issuing_ = captured ? Issuing::launches : by_stream ? Issuing::stream : Issuing::caller;
  pinned_ = pinned;
}

bool DeviceOperation::is_ready() noexcept {
  bool ready = true;
  for (std::size_t i = 0; i < used_; ++i)
    ready &= members_[i].engine->prepares(*members_[i].placed);
  return ready;
}

void DeviceOperation::announce() noexcept {
  reached_.store(false, std::memory_order_relaxed);
  make_calls();
  if (issuing_ != Issuing::stream) return;
  for (std::size_t i = 0; i < used_; ++i) members_[i].engine->promise();
}

Status DeviceOperation::put(const CudaDriver& driver, CudaStream stream, bool& coming) {
  constexpr unsigned kEqual = 1;  // CU_STREAM_WAIT_VALUE_EQ
  const auto begin = members_.begin(), end = begin + static_cast<std::ptrdiff_t>(used_);
  int error = 0;
  const auto copy = [&](const StagedCall::Copy& each, bool to_device) {
    const CudaAddress far = each.device;
    const CudaAddress near = reinterpret_cast<std::uintptr_t>(pinned_ + each.offset);
    if (error != 0) return;
    error = driver.copy_async(to_device ? far : near, to_device ? near : far, each.bytes, stream);
  };
  for (auto member = begin; member != end; ++member)
    for (const StagedCall::Copy& each : member->staged.before()) copy(each, false);
  if (error == 0) {
    error = driver.launch_host(
        stream,
        [](void* self) {  // on a thread of the driver's
          auto& operation = *static_cast<DeviceOperation*>(self);
          const std::lock_guard lock(operation.stream_.end_mutex());
          operation.reach();
        },
        this);
  }
  coming = error == 0;
  if (error == 0) error = driver.stream_wait_word(stream, done_.there, 1, kEqual);
  if (error == 0) error = driver.stream_write_word(stream, done_.there, 0, 0);
  for (auto member = begin; member != end; ++member)
    for (const StagedCall::Copy& each : member->staged.after()) copy(each, true);
  if (error == 0) return {};
  return driver.failed_to("an operation on a stream of CUDA", error);
}

void DeviceOperation::break_promises() noexcept {
  if (issuing_ != Issuing::stream) return;
  for (std::size_t i = 0; i < used_; ++i) members_[i].engine->break_promise();
}

void DeviceOperation::give_up() noexcept {
  given_up_ = true;
  break_promises();
  used_ = 0;
  done_.set(1);
}

/// The calls as they are issued; nobody else knows of them.
void DeviceOperation::make_calls() noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    Member& member = members_[i];
    member.renew(*member.placed, this, member.given_deadline_s, false);
    member.on_host = true;
    member.ended.store(false, std::memory_order_relaxed);
  }
  ended_ = 0;
  failure_ = {};
}

/// No call of the operation can end before the mutex is free, so its engines are there.
void DeviceOperation::reach() noexcept {
  const bool launches = issuing_ == Issuing::launches;
  if (given_up_ || (launches && launched_)) {
    if (!given_up_) {
      stream_.note_failure(caught([] {
        return failed(Code::invalid_usage,
                      "a captured operation was launched while an earlier launch of it ran",
                      "launch graphs that share captured operations one after another");
      }));
    }
    done_.set(1);  // of this one too
    return;
  }
  if (!launches && reached_.load(std::memory_order_relaxed)) return;
  ProgressThread& helper = *stream_.helper();
  launched_ = launches;
  if (launches) make_calls();
  reached_.store(true, std::memory_order_release);
  for (std::size_t i = 0; i < used_; ++i) {
    Engine& engine = *members_[i].engine;
    if (issuing_ == Issuing::caller) {
      engine.notice_ready();
      continue;
    }
    if (launches) engine.promise();
    engine.issue_promised(members_[i], stream_.helper());
    helper.attend(engine);
  }
  helper.poke();
}

bool DeviceOperation::may_start(const OpenCall& /*call*/) const noexcept {
  return reached_.load(std::memory_order_acquire);
}

bool DeviceOperation::tells(const OpenCall& /*call*/, const Work& /*work*/) const noexcept {
  return false;
}

void DeviceOperation::on_end(OpenCall& call) noexcept {
  const std::lock_guard lock(stream_.end_mutex());
  if (failure_.ok()) failure_ = call.status;
  call.status = {};
  call.ended.store(true, std::memory_order_release);
  if (++ended_ < used_) return;
  stream_.note_failure(failure_);
  launched_ = false;
  // From now on a captured operation may begin anew.
  done_.set(1);
  if (issuing_ != Issuing::launches) stream_.end_operation(*this);
}

DeviceOperation::Unfinished DeviceOperation::unfinished() const noexcept {
  const auto end = members_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto member = std::find_if(members_.begin(), end, [](const Member& each) {
    return !each.ended.load(std::memory_order_relaxed);
  });
  return {member->engine, &*member};
}

}  // namespace coll
