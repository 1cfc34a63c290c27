// SPDX-License-Identifier: Apache-2.0
// Calls that are issued together and move side by side.
#include "communicator/call_group.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "communicator/device/device_part.hpp"
#include "communicator/engine/progress_thread.hpp"
#include "communicator/host_stream.hpp"

namespace coll {
namespace {

/// The calls of a group on one stream, while they are issued.
struct StreamPart {
  HostStream* stream;
  std::shared_ptr<CallGroup> group;
  std::uint64_t number = 0;  ///< the group's on its stream
};

/// Takes the streams, each with room for one more operation. None is kept from others while this
/// waits for room in another: its operations may be what the other waits for.
std::vector<std::unique_lock<std::mutex>> lock_with_room(const std::vector<StreamPart>& parts) {
  while (true) {
    std::vector<std::unique_lock<std::mutex>> locks;
    HostStream* full = nullptr;
    for (const StreamPart& part : parts) {
      if (part.stream == nullptr) continue;
      locks.push_back(part.stream->lock());
      if (!part.stream->has_room()) full = part.stream;
    }
    if (full == nullptr) return locks;
    locks.clear();
    full->wait_for_room();
  }
}

/// The streams of CUDA that issue a group's calls of one communicator do so in any order.
Status check_order(std::span<const GroupedCall> calls, const std::vector<DevicePart>& parts) {
  for (const GroupedCall& call : calls) {
    const auto streams = std::ranges::count_if(
        parts, [&](const DevicePart& part) { return part.issues(*call.communicator); });
    if (streams > 1) {
      return failed(Code::invalid_usage,
                    "a group has operations of a communicator that graphs have captured on two "
                    "streams of CUDA, so nothing orders them",
                    "put them on one stream, or into two groups");
    }
  }
  return {};
}

/// Puts the group's calls on its streams of CUDA. All groups lock in the same order.
Result<std::vector<DevicePart>> put_on_devices(std::span<const GroupedCall> calls,
                                               std::vector<DeviceStream*> streams) {
  std::ranges::sort(streams, std::less<>());
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  std::vector<DevicePart> parts;
  parts.reserve(streams.size());
  for (DeviceStream* const stream : streams) {
    DevicePart& part = parts.emplace_back(*stream);
    for (const GroupedCall& call : calls) {
      if (call.device_stream != stream) continue;
      Request request = call.request;
      if (request.extras != nullptr) request.extras = &call.extras;
      COLL_TRY(part.add(*call.communicator, request, call.deadline_s));
    }
  }
  for (DevicePart& part : parts) COLL_TRY(part.prepare());
  COLL_TRY(check_order(calls, parts));
  get_ready(parts);
  // In the program's order, which is the same on all ranks.
  for (const GroupedCall& call : calls) {
    const auto part = std::ranges::find(parts, call.device_stream, &DevicePart::stream);
    if (part != parts.end()) COLL_TRY(part->put());
  }
  return parts;
}

}  // namespace

Result<IssuedGroup> IssuedGroup::issue(std::span<const GroupedCall> calls) {
  std::vector<StreamPart> parts;
  std::vector<Engine*> engines;
  std::vector<OpenCall*> members;
  IssuedGroup issued;
  members.reserve(calls.size());
  issued.waits_.reserve(calls.size());
  std::vector<DeviceStream*> device_streams;
  for (const GroupedCall& call : calls) {
    Engine* const engine = &call.communicator->engine();
    const bool first = std::ranges::find(engines, engine) == engines.end();
    if (first) engines.push_back(engine);
    if (call.device_stream != nullptr) {
      device_streams.push_back(call.device_stream);
      members.push_back(nullptr);  // so far
      continue;
    }
    engine->await_program(call.request);
    auto part = std::ranges::find(parts, call.stream, &StreamPart::stream);
    if (part == parts.end()) {
      parts.push_back({call.stream, std::make_shared<CallGroup>(call.stream), 0});
      part = std::prev(parts.end());
    }
    members.push_back(&part->group->add(call));
    if (!call.waits) continue;
    issued.waited_ = part->group;
    issued.waits_.push_back({engine, members.back()});
  }
  std::vector<Engine::Guest> guests;  // for `drive_first`
  guests.reserve(engines.size());
  issued.guests_.reserve(engines.size());
  for (Engine* const engine : engines) {
    guests.emplace_back(*engine);
    const auto waited = std::ranges::find(issued.waits_, engine, &IssuedGroup::Wait::engine);
    if (waited != issued.waits_.end()) issued.guests_.emplace_back(*engine);
  }
  // Whoever waits for all calls of one engine moves them alone.
  const bool needs_help = engines.size() > 1 || issued.waits_.size() < calls.size();
  std::shared_ptr<ProgressThread> helper;
  if (needs_help) {
    COLL_ASSIGN(helper, ProgressThread::of_process());
  }
  // All groups lock in the same order.
  std::ranges::sort(parts, std::less<>(), &StreamPart::stream);
  {
    const std::vector<std::unique_lock<std::mutex>> locks = lock_with_room(parts);
    COLL_ASSIGN(std::vector<DevicePart> device_parts,
                put_on_devices(calls, std::move(device_streams)));
    for (StreamPart& part : parts) {
      if (part.stream != nullptr) part.number = part.stream->prepare_place();
    }
    // From here on nothing can fail.
    for (const StreamPart& part : parts) {
      part.group->prepare(part.group, part.number);
      if (part.stream != nullptr) part.stream->append(*part.group, part.number);
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      OpenCall* const call =
          members[i] != nullptr
              ? members[i]
              : std::ranges::find(device_parts, calls[i].device_stream, &DevicePart::stream)
                    ->next_call();
      if (call != nullptr) calls[i].communicator->engine().issue(*call, helper);
    }
  }
  if (helper) {
    for (Engine* const engine : engines) engine->drive_first(*helper);
  }
  return issued;
}

Status IssuedGroup::wait() noexcept {
  Status failure;
  for (const auto& [engine, call] : waits_) {
    engine->drive_until([at = call] { return at->ended.load(std::memory_order_acquire); });
    if (failure.ok()) failure = call->status;
  }
  return failure;
}

CallGroup::CallGroup(HostStream* stream)
    : stream_(stream), end_mutex_(stream == nullptr ? own_mutex_ : stream->end_mutex()) {}

OpenCall& CallGroup::add(const GroupedCall& call) {
  Member& member = members_.emplace_back();
  Request request = call.request;
  if (request.extras != nullptr) request.extras = &call.extras;
  member.renew(request, this, call.deadline_s, call.waits);
  member.engine = &call.communicator->engine();
  member.works = call.works;
  return member;
}

bool CallGroup::may_start(const OpenCall& /*call*/) const noexcept {
  return stream_ == nullptr || stream_->is_turn_of(number_);
}

bool CallGroup::tells(const OpenCall& call, const Work& work) const noexcept {
  const auto& works = static_cast<const Member&>(call).works;
  return std::ranges::any_of(works, [&](const auto& each) { return each.get() == &work; });
}

void CallGroup::on_end(OpenCall& call) noexcept {
  for (std::shared_ptr<Work>& work : static_cast<Member&>(call).works) {
    if (const std::shared_ptr<Work> told = std::move(work)) told->finish(call.status);
  }
  std::shared_ptr<CallGroup> itself;  // the last call's end is the group's
  PointList reached = [&]() -> PointList {
    const std::lock_guard lock(end_mutex_);
    if (failure_.ok()) failure_ = call.status;
    call.ended.store(true, std::memory_order_release);
    if (++ended_ < members_.size()) return {};
    itself = std::move(itself_);
    if (stream_ == nullptr) return {};
    return stream_->end_place(number_, failure_);
  }();
  reached.release_waiters();
}

void CallGroup::notice_ready() noexcept {
  for (const Member& member : members_) member.engine->notice_ready();
}

CallGroup::Unfinished CallGroup::unfinished() const noexcept {
  const auto call = std::ranges::find_if(
      members_, [](const Member& member) { return !member.ended.load(std::memory_order_relaxed); });
  return {call->engine, &*call, itself_};
}

}  // namespace coll
