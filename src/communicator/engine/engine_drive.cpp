// SPDX-License-Identifier: Apache-2.0
// Who drives the engine, and what it does while nothing moves.
#include "communicator/engine/engine.hpp"
#include "communicator/engine/progress_thread.hpp"

namespace coll {
namespace {

constexpr int kHelpRounds = 16;             ///< before the progress thread looks at the next engine
constexpr std::uint64_t kLookRounds = 256;  ///< between two looks at calls while some of them move

}  // namespace

void Engine::drive_first(ProgressThread& helper) noexcept {
  if (seat_.try_take()) {
    round();
    give_up_seat();
  }
  if (!idle()) helper.attend(*this);
}

Engine::Help Engine::help() noexcept {
  if (seat_.wanted() || !seat_.try_take()) return Help::not_needed;
  bool moved = false;
  connect_ = true;
  for (int i = 0; i < kHelpRounds && !seat_.wanted() && !quiet(); ++i) {
    if (!round()) break;
    moved = true;
  }
  look();
  seat_.give_up();
  return moved ? Help::moved : Help::nothing_moved;
}

void Engine::add_nap_ends(NapEnds& ends) noexcept {
  if (!seat_.try_take()) return;
  add_open_ends(ends);
  seat_.give_up();
}

void Engine::add_open_ends(NapEnds& ends) noexcept {
  for (OpenCall** at = open_.begin(); *at != nullptr; at = &(*at)->next) {
    for (ProgressSource* source : (*at)->bound->run.program->sources) ends.add(*source);
  }
  mail_.add_nap_ends(ends);
}

bool Engine::retire(const Status& why) noexcept {
  if (!seat_.try_take()) return false;
  const bool retired = quiet();
  if (retired) failure_.set(why);
  seat_.give_up();
  return retired;
}

/// One round, and what has to be done if nothing moved in it.
void Engine::drive_round(Waiter& waiter) noexcept {
  const bool moved = round();
  if (moved) waiter.reset();
  // Also while others move, a call may stand still.
  if (moved ? rounds_ % kLookRounds != 0 : !waiter.turn()) return;
  look();
  // Connecting takes system calls and scheduling: nap from the start.
  const bool opening = open_.empty() && !queued_.empty();
  if (moved || (!opening && !waiter.naps())) return;
  nap_ends_.clear();
  add_open_ends(nap_ends_);
  waiter.nap(nap_ends_);
  connect_ = true;
}

}  // namespace coll
