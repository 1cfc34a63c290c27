// SPDX-License-Identifier: Apache-2.0
// The operations that a thread has put into its open group.
#include "c_api/open_group.hpp"

#include <algorithm>
#include <utility>

#include "c_api/c_api_door.hpp"
#include "communicator/calls/call_check.hpp"
#include "communicator/live_communicators.hpp"

namespace coll {
namespace {

bool with_itself(const GroupedCall& call) {
  return call.request.call.is_with_itself(call.communicator->rank());
}

/// "send of float32 x 3"
std::string text_of(const Call& call) {
  return std::string(name_of(call.collective)) + " of " + std::string(name_of(call.type)) + " x " +
         std::to_string(call.count);
}

/// A rank's send to itself and the recv that it meets, as one copy.
Result<GroupedCall> joined(GroupedCall send, GroupedCall recv) {
  const Call& sent = send.request.call;
  const Call& received = recv.request.call;
  if (sent.count != received.count || sent.type != received.type) {
    return failed(Code::mismatch,
                  "this rank's " + text_of(sent) + " to itself meets its " + text_of(received),
                  "give both the same count and type");
  }
  if (send.stream != recv.stream || send.device_stream != recv.device_stream) {
    return failed(Code::invalid_usage,
                  "this rank's " + text_of(sent) + " to itself and its recv are on two streams",
                  "put both on one stream");
  }
  if (sent.count != 0 && send.request.input == nullptr) {
    return failed(Code::invalid_argument, text_of(sent) + ": send is null");
  }
  static constexpr std::byte kNothing{};
  recv.request.input = sent.count == 0 ? &kNothing : send.request.input;
  recv.works[1] = std::move(send.works[0]);
  recv.waits |= send.waits;
  return recv;
}

/// The calls with every exchange of a rank with itself as one: its n-th send meets its n-th recv.
Result<std::vector<GroupedCall>> with_copies(const std::vector<GroupedCall>& calls) {
  std::vector<GroupedCall> all, halves;
  for (const GroupedCall& call : calls) {
    if (!with_itself(call)) {
      all.push_back(call);
      continue;
    }
    const Collective kind = call.request.call.collective;
    const auto half = std::ranges::find_if(halves, [&](const GroupedCall& other) {
      return other.communicator == call.communicator && other.request.call.collective != kind;
    });
    if (half == halves.end()) {
      halves.push_back(call);
      continue;
    }
    const bool sends = kind == Collective::send;
    COLL_ASSIGN(GroupedCall copy, joined(sends ? call : *half, sends ? *half : call));
    COLL_TRY(check_request(copy.request, copy.communicator->rank(), copy.communicator->size()));
    all.push_back(std::move(copy));
    halves.erase(half);
  }
  if (halves.empty()) return all;
  const Call& lone = halves.front().request.call;
  return failed(Code::invalid_usage,
                text_of(lone) + ": the peer is this rank itself, and the group has no " +
                    std::string(name_of(lone.collective == Collective::send ? Collective::recv
                                                                            : Collective::send)) +
                    " to meet it",
                "put both into one group");
}

}  // namespace

std::unique_ptr<OpenGroup>& OpenGroup::place() noexcept {
  static thread_local std::unique_ptr<OpenGroup> group;
  return group;
}

OpenGroup* OpenGroup::find() noexcept {
  std::unique_ptr<OpenGroup>& group = place();
  if (group && !group->is_ours()) group.reset();
  return group.get();
}

/// False in a forked child, which has a copy of its parent's.
bool OpenGroup::is_ours() const noexcept {
  return forks_ == LiveCommunicators::of_process().forks();
}

OpenGroup::OpenGroup() : forks_(LiveCommunicators::of_process().forks()) {
  calls_.reserve(8);
  open_.fetch_add(1, std::memory_order_relaxed);
}

OpenGroup::~OpenGroup() {
  open_.fetch_sub(1, std::memory_order_relaxed);
  if (calls_.empty() || !is_ours()) return;
  give_up(caught([] { return failed(Code::aborted, "the thread ended with its group open"); }));
}

/// Tells the handles.
void OpenGroup::give_up(const Status& why) noexcept {
  for (const GroupedCall& call : calls_) {
    for (const std::shared_ptr<Work>& work : call.works) {
      if (work) work->finish(why);
    }
  }
  calls_.clear();
}

void OpenGroup::start() {
  if (OpenGroup* const open = find()) {
    ++open->levels_;
  } else {
    static_cast<void>(last_error());  // made first, it outlives what the group's end calls
    place().reset(new OpenGroup);
  }
}

Status OpenGroup::end() {
  OpenGroup* const open = find();
  if (open == nullptr) {
    return failed(Code::invalid_usage, "coll_group_end: this thread has no open group",
                  "call coll_group_start first, on the same thread");
  }
  if (--open->levels_ != 0) return {};
  return std::exchange(place(), nullptr)->issue();
}

Status OpenGroup::cancel() {
  if (find() == nullptr) {
    return failed(Code::invalid_usage, "coll_group_cancel: this thread has no open group",
                  "call coll_group_start first, on the same thread");
  }
  const std::unique_ptr<OpenGroup> group = std::exchange(place(), nullptr);
  group->give_up(failed(Code::aborted, "the group was cancelled"));
  return {};
}

Status OpenGroup::add(GroupedCall call) {
  const Communicator& communicator = *call.communicator;
  COLL_TRY(communicator.status());
  // An exchange with oneself is checked further when its other half is there.
  COLL_TRY(with_itself(call)
               ? check_names(call.request.call)
               : check_request(call.request, communicator.rank(), communicator.size()));
  calls_.push_back(std::move(call));
  return {};
}

Status OpenGroup::issue() {
  Result<IssuedGroup> issued = caught([&]() -> Result<IssuedGroup> {
    if (!refused_.ok()) return refused_.with_context("the group was not issued");
    if (std::ranges::none_of(calls_, with_itself)) return IssuedGroup::issue(calls_);
    COLL_ASSIGN(const std::vector<GroupedCall> calls, with_copies(calls_));
    return IssuedGroup::issue(calls);
  });
  if (!issued.ok()) {
    give_up(issued.status());
    return issued.status();
  }
  calls_.clear();
  return issued->wait();
}

}  // namespace coll
