// SPDX-License-Identifier: Apache-2.0
// How the engine moves tagged calls until they meet their other ends, and takes them back.
#include <exception>
#include <utility>

#include "communicator/calls/call_check.hpp"
#include "communicator/engine/engine.hpp"

namespace coll {
namespace {

Status cancelled() {
  return failed(Code::aborted, "the recv was cancelled before it met a message");
}

}  // namespace

/// A tagged call may start: it looks for its other end.
void Engine::post(OpenCall& call) noexcept {
  if (call.cancelled) return end(call, caught(cancelled));
  call.state = OpenCall::State::unmet;
  call.looked_at = false;
  call.call = call.request.call;
  call.call.sequence = ++tagged_;
  if (!board_.half_full()) call.place = board_.enter(call.call);
  connect_ = true;
  const Status posted = caught([&] { return mail_.post(call); });
  if (!posted.ok()) return fail_all(failure_.settle_as_said(said_of(posted, call.call)));
  take_met();
}

/// True if any has moved.
bool Engine::move_mail() noexcept {
  const bool connect = std::exchange(connect_, false) || rounds_ % kOpeningRounds == 0;
  const Result<bool> moved = caught([&] { return mail_.round(connect); });
  if (!moved.ok()) {
    fail_all(failure_.settle_as_said(moved.status()));
    return true;
  }
  if (*moved) take_met();
  return *moved;
}

/// Tagged calls that have met begin as ordinary calls, in the order in which they met.
void Engine::take_met() noexcept {
  while (OpenCall* const call = mail_.over().pop()) {
    if (!call->probe) bound_.count_copy();
    end(*call, {});
  }
  while (OpenCall* const call = mail_.granted().pop()) {
    board_.leave(std::exchange(call->place, 0));
    call->state = OpenCall::State::issued;
    call->looked_at = false;
    queued_.push(*call);
  }
}

/// True if one of them stands still for too long, or cannot meet its other end any more, and so the
/// communicator has failed.
bool Engine::look_at_mail(Clock::time_point now) noexcept {
  return mail_.any_of([&](OpenCall& call) {
    if (const Rank failed = mail_.failed_peer(call); failed != kNoRank) {
      fail_all(failure_.settle(mail_.status_of(failed), call.call, failed));
      return true;
    }
    return look_at(call, now);
  });
}

std::string Engine::awaited(const OpenCall& call) const noexcept {
  try {
    return mail_.awaited(call);
  } catch (const std::exception&) {
    return {};
  }
}

Status Engine::probe(const Request& request, double timeout_s) noexcept {
  if (failure_.happened()) return failure_.status();
  const Status fine = caught([&] { return check_request(request, rank_, size_); });
  if (!fine.ok()) return fine;
  OpenCall call;
  call.request = request;
  call.probe = true;
  if (timeout_s >= 0) call.deadline_s = 0;
  const Guest guest(*this);
  enqueue(call, nullptr);
  const auto ended = [&call] { return call.ended.load(std::memory_order_acquire); };
  drive_until(ended, timeout_s < 0 ? Deadline::max() : after(timeout_s));
  if (!ended()) {
    Withdrawal withdrawal;
    withdrawal.call = &call;
    withdraw(withdrawal);  // it has ended now, in time or not
  }
  return std::move(call.status);
}

bool Engine::cancel(const Work& work) noexcept {
  Withdrawal withdrawal;
  withdrawal.work = &work;
  return withdraw(withdrawal);
}

/// Whoever drives serves it.
bool Engine::withdraw(Withdrawal& withdrawal) noexcept {
  {
    const std::lock_guard lock(issue_mutex_);
    withdrawal.next = std::exchange(withdrawals_, &withdrawal);
    has_issued_.store(true, std::memory_order_release);
  }
  drive_until([&withdrawal] { return withdrawal.done.load(std::memory_order_acquire); });
  return withdrawal.found;
}

void Engine::serve_withdrawals() noexcept {
  while (Withdrawal* const wish = withdrawing_) {
    withdrawing_ = wish->next;
    if (wish->call != nullptr) {  // a probe looks at least once
      connect_ = true;
      move_mail();
    }
    const auto meant = [wish](const OpenCall& call) {
      return wish->work == nullptr ? &call == wish->call
                                   : call.owner != nullptr && call.owner->tells(call, *wish->work);
    };
    OpenCall* found = nullptr;
    for (CallList* const calls : {&mail_.receives(), &held_}) {
      for (OpenCall** at = calls->begin(); found == nullptr && *at != nullptr; at = &(*at)->next) {
        const bool recv = (*at)->is_unmet() && (*at)->request.call.collective == Collective::recv;
        if (recv && meant(**at)) found = *at;
      }
    }
    wish->found = found != nullptr;
    if (found != nullptr && !mail_.take_back(*found)) {
      found->cancelled = true;  // its stream's earlier operations end first
    } else if (found != nullptr) {
      end(*found, found->probe ? caught([] { return failed(Code::in_progress, "no such message"); })
                               : caught(cancelled));
    }
    wish->done.store(true, std::memory_order_release);
    seat_.wake();
  }
}

}  // namespace coll
