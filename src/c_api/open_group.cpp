// SPDX-License-Identifier: Apache-2.0
// The operations that a thread has put into its open group.
#include "c_api/open_group.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "communicator/engine/call_check.hpp"

namespace coll {
namespace {

bool with_itself(const GroupedCall& call) {
  return call.request.call.is_pair() && call.request.call.root == call.communicator->rank();
}

/// A rank's send to itself and the recv that it meets, as one copy.
Result<GroupedCall> joined(GroupedCall send, GroupedCall recv) {
  const Call& sent = send.request.call;
  const Call& received = recv.request.call;
  if (sent.count != received.count || sent.type != received.type) {
    return failed(Code::mismatch, "a group's " + sent.text() + " meets " + received.text(),
                  "give both the same count and type");
  }
  if (send.stream != recv.stream) {
    return failed(Code::invalid_usage,
                  "a group's " + sent.text() +
                      " and the recv of the same "
                      "rank are on different streams",
                  "put both on one stream");
  }
  if (sent.count != 0 && send.request.input == nullptr) {
    return failed(Code::invalid_argument, sent.text() + ": send is null");
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
                lone.text() + ": the peer is this rank itself, and the group has no " +
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
  return place().get();
}

OpenGroup::~OpenGroup() {
  open_.fetch_sub(1, std::memory_order_relaxed);
}

void OpenGroup::start() {
  std::unique_ptr<OpenGroup>& group = place();
  if (group) {
    ++group->levels_;
  } else {
    group.reset(new OpenGroup);
  }
}

Status OpenGroup::end() {
  std::unique_ptr<OpenGroup>& open = place();
  if (!open) {
    return failed(Code::invalid_usage, "coll_group_end: this thread has no open group",
                  "call coll_group_start first, on the same thread");
  }
  if (--open->levels_ != 0) return {};
  return std::exchange(open, nullptr)->issue();
}

Status OpenGroup::cancel() {
  const std::unique_ptr<OpenGroup> group = std::exchange(place(), nullptr);
  if (!group) {
    return failed(Code::invalid_usage, "coll_group_cancel: this thread has no open group",
                  "call coll_group_start first, on the same thread");
  }
  group->refused_ = failed(Code::aborted, "the group was cancelled");
  static_cast<void>(group->issue());
  return {};
}

Status OpenGroup::add(GroupedCall call) {
  const Communicator& communicator = *call.communicator;
  Status status = communicator.status();
  // An exchange with oneself is checked when its other half is there.
  if (status.ok() && !with_itself(call)) {
    status = check_request(call.request, communicator.rank(), communicator.size());
  }
  if (status.ok()) {
    calls_.push_back(std::move(call));
  } else if (refused_.ok()) {
    refused_ = status;
  }
  return status;
}

Status OpenGroup::issue() {
  const auto start = [&]() -> Result<IssuedGroup> {
    try {
      if (!refused_.ok()) return refused_.with_context("the group was not issued");
      COLL_ASSIGN(std::vector<GroupedCall> calls, with_copies(calls_));
      return IssuedGroup::issue(calls);
    } catch (const std::exception&) {
      return status_of_exception();
    }
  };
  Result<IssuedGroup> issued = start();
  if (issued.ok()) return issued->wait();
  for (const GroupedCall& call : calls_) {
    for (const std::shared_ptr<Work>& work : call.works) {
      if (work) work->finish(issued.status());
    }
  }
  return issued.status();
}

bool OpenGroup::names(const Communicator& communicator) const {
  return std::ranges::any_of(
      calls_, [&](const GroupedCall& call) { return call.communicator == &communicator; });
}

bool OpenGroup::names(const HostStream& stream) const {
  return std::ranges::any_of(calls_,
                             [&](const GroupedCall& call) { return call.stream == &stream; });
}

bool OpenGroup::names(const Work& work) const {
  return std::ranges::any_of(calls_,
                             [&](const GroupedCall& call) { return call.works[0].get() == &work; });
}

}  // namespace coll
