// SPDX-License-Identifier: Apache-2.0
// How the engine watches over calls that do not move, and ends them when the communicator fails.
#include <algorithm>
#include <utility>

#include "communicator/engine/engine.hpp"
#include "executor/call_turns.hpp"
#include "sys/kept_for_good.hpp"

namespace coll {
namespace {

/// After this long without progress a rank asks whether the others are in the same call at all.
/// Then it asks again after twice as long, and so on.
constexpr double kFirstDoubt_s = 0.3;
constexpr double kLongestPatience_s = 30;

}  // namespace

void Engine::look() noexcept {
  if (failure_.happened()) return fail_all(failure_.status());
  if (quiet() || fail_by_connection()) return;
  const Clock::time_point now = Clock::now();
  // A call may wait for an earlier one, here or on another rank: while that moves, only its own
  // clock runs.
  bool earlier_moved = false;
  for (OpenCall** at = open_.begin(); *at != nullptr; at = &(*at)->next) {
    Run& run = (*at)->bound->run;
    earlier_moved |= std::exchange(run.moved, false);
    if (earlier_moved || waits_for_others(run)) (*at)->looked_at = false;
    if (look_at(**at, now)) return;  // all calls have ended
  }
  const bool others_move = earlier_moved || !held_.empty();
  for (OpenCall** at = queued_.begin(); *at != nullptr; at = &(*at)->next) {
    if ((*at)->state != OpenCall::State::opening) continue;
    if (others_move) (*at)->looked_at = false;
    if (look_at(**at, now)) return;
  }
  look_at_mail(now);
}

/// True if a connection or this rank's GPU, and so the communicator, has failed. The failure is put
/// down to the call whose turn it is on the connection.
bool Engine::fail_by_connection() noexcept {
  const Connection* failed = nullptr;
  const OpenCall* hit = nullptr;
  for (OpenCall** at = open_.begin(); *at != nullptr; at = &(*at)->next) {
    const OpenCall& call = **at;
    if (const Status& refused = call.bound->run.failure; !refused.ok()) {
      fail_all(failure_.settle(refused, call.call, rank_));
      return true;
    }
    const Connection* const found = failed_connection(call.bound->run);
    if (found == nullptr) continue;
    const bool has_turn = uses(call.bound->run, *found);
    if (failed != nullptr && !has_turn) continue;
    failed = found;
    hit = &call;
    if (has_turn) break;
  }
  if (failed == nullptr) return false;
  fail_all(failure_.settle(failed->status(), hit->call, failed->peer()));
  return true;
}

/// True if the call stands still for too long, and so the communicator has failed.
bool Engine::look_at(OpenCall& call, Clock::time_point now) noexcept {
  if (!std::exchange(call.looked_at, true)) {
    call.still_since = now;
    call.patience_s = kFirstDoubt_s;
    return false;
  }
  const double waited_s = std::chrono::duration<double>(now - call.still_since).count();
  const double deadline_s = call.deadline_s < 0 ? deadline_s_ : call.deadline_s;
  if (deadline_s > 0 && waited_s >= deadline_s) {
    const bool unmet = call.state == OpenCall::State::unmet;
    fail_all(failure_.settle_deadline(call.call, waited_s, unmet ? awaited(call) : ""));
    return true;
  }
  if (waited_s >= call.patience_s) {
    if (call.call.tagged() || watch_->doubt(call.call))
      call.patience_s = std::min(2 * waited_s, waited_s + kLongestPatience_s);
  }
  return false;
}

/// Ends the calls that move. Those that are held or queued end when it is their turn to: after the
/// earlier ones of their stream.
void Engine::fail_all(const Status& verdict) noexcept {
  for (CallList* const list : {&open_, &held_}) {
    for (OpenCall** at = list->begin(); *at != nullptr; at = &(*at)->next) {
      if ((*at)->bound == nullptr) continue;
      BoundCall& bound = *std::exchange((*at)->bound, nullptr);
      progress_.abandon(bound.run);
      if (bound.run.lost) keep_for_good(std::shared_ptr<LocalSteps>(std::move((*at)->local)));
      bound.run.program = nullptr;  // its tickets are void
      bound_.give_back(bound);
    }
  }
  CallList unmet;
  mail_.take_all(unmet);
  for (CallList* const list : {&open_, &unmet}) {
    while (OpenCall* const call = list->pop()) end(*call, said_of(verdict, call->call));
  }
  ready_.fetch_add(1, std::memory_order_relaxed);  // held calls may end now
}

void Engine::abort() noexcept {
  Status aborted;
  try {
    aborted = failed(Code::aborted, "rank " + std::to_string(rank_) + " aborted the communicator")
                  .at_rank(rank_);
  } catch (const std::exception&) {
    aborted = status_of_exception();  // what matters is that all end
  }
  [[maybe_unused]] const Status verdict = watch_->report(aborted);
}

}  // namespace coll
