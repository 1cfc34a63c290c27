// SPDX-License-Identifier: Apache-2.0
// How the engine watches over calls that do not move, and ends them when the communicator fails.
#include <algorithm>
#include <utility>

#include "communicator/engine/engine.hpp"

namespace coll {
namespace {

/// After this long without progress a rank asks whether the others are in the same call at all.
/// Then it asks again after twice as long, and so on.
constexpr double kFirstDoubt_s = 0.3;
constexpr double kLongestPatience_s = 30;

}  // namespace

void Engine::look() noexcept {
  if (failure_.happened()) return fail_all(failure_.status());
  if (quiet()) return;
  const Clock::time_point now = Clock::now();
  for (OpenCall** at = open_.begin(); *at != nullptr; at = &(*at)->next) {
    if (look_at(**at, now)) return;  // all calls have ended
  }
  if (OpenCall* const next = queued_.front()) look_at(*next, now);
}

/// True if the call, and so the communicator, has failed.
bool Engine::look_at(OpenCall& call, Clock::time_point now) noexcept {
  if (call.state == OpenCall::State::issued || call.state == OpenCall::State::held) return false;
  if (call.state == OpenCall::State::moving) {
    Run& run = call.bound->run;
    if (const Connection* const failed = failed_connection(run)) {
      fail_all(failure_.settle(failed->status(), call.call, failed->peer()));
      return true;
    }
    if (std::exchange(run.moved, false)) call.looked_at = false;
  }
  if (!std::exchange(call.looked_at, true)) {
    call.still_since = now;
    call.patience_s = kFirstDoubt_s;
    return false;
  }
  const double waited_s = std::chrono::duration<double>(now - call.still_since).count();
  const double deadline_s = call.deadline_s < 0 ? deadline_s_ : call.deadline_s;
  if (deadline_s > 0 && waited_s >= deadline_s) {
    fail_all(failure_.settle_deadline(call.call, waited_s));
    return true;
  }
  if (waited_s >= call.patience_s) {
    if (!call.call.is_pair()) watch_->doubt(call.call);
    call.patience_s = std::min(2 * waited_s, waited_s + kLongestPatience_s);
  }
  return false;
}

/// Ends all calls that have begun; a call that may not end yet, since its stream's earlier ones
/// have not, ends with them. Calls that have not begun end when it is their turn to.
void Engine::fail_all(const Status& verdict) noexcept {
  for (OpenCall** at = open_.begin(); *at != nullptr;) {
    OpenCall& call = **at;
    if (call.bound != nullptr) {
      progress_.abandon(call.bound->run);
      call.bound->run.program = nullptr;  // its tickets are void
      call.bound->in_flight = false;
      call.bound = nullptr;
    }
    if (call.state == OpenCall::State::held) {
      at = &call.next;
    } else {
      open_.erase(at);
      end(call, said_of(verdict, call.call));
    }
  }
}

}  // namespace coll
