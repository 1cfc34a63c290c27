// SPDX-License-Identifier: Apache-2.0
// Calls issued, begun, moved and ended.
#include "communicator/engine/engine.hpp"

#include <exception>
#include <utility>

#include "communicator/calls/call_check.hpp"
#include "communicator/calls/call_digest.hpp"
#include "communicator/engine/progress_thread.hpp"
#include "sys/memory/shared_arena.hpp"

namespace coll {
namespace {

// Beside Mail's own.
constexpr ProgramLanes kHostLanes{.collectives = 0, .pairs = 0x8000};
constexpr ProgramLanes kTaggedLanes{.collectives = 0, .pairs = 0xa000};

/// Memory of calls that ranks of this host read in place.
SharedArena::OwnedBlock readable_by_others(std::size_t bytes) {
  return SharedArena::own(bytes, ArenaUse::calls);
}

/// The digest of the call's messages.
std::uint64_t digest_of(const OpenCall& call) {
  const std::uint64_t digest = numbered(call.bound->digest, call.call.sequence);
  const Extras* const extras = call.request.extras;
  const bool agreed = extras != nullptr && extras->agreed != 0;
  return agreed ? mix_digest(digest, extras->agreed) : digest;
}

}  // namespace

Engine::Engine(Rank rank, Rank size, double deadline_s, const WaitPolicy& waiting,
               const Membership& membership, const ResultStore& results, CommonFailure& failure)
    : rank_(rank),
      size_(size),
      deadline_s_(deadline_s),
      order_(membership.world.order),
      unknown_block_(static_cast<std::uint64_t>(membership.world.costs().cut.unknown_block_bytes)),
      waiting_(waiting),
      failure_(failure),
      scratch_(membership.world.shared_memory ? &readable_by_others : ScratchPool::Readable()),
      programs_(rank, membership, membership.world, kHostLanes, executor_, scratch_,
                memory_counts_),
      tagged_programs_(rank, membership, membership.world, kTaggedLanes, executor_, scratch_,
                       memory_counts_),
      device_(membership.gpu == nullptr
                  ? nullptr
                  : std::make_unique<DeviceMover>(rank, membership, scratch_, memory_counts_)),
      mail_(rank, membership),
      bound_(rank, size, results),
      sends_(static_cast<std::size_t>(size)),
      receives_(static_cast<std::size_t>(size)),
      tagged_sends_(static_cast<std::size_t>(size)),
      tagged_receives_(static_cast<std::size_t>(size)) {}

void Engine::finish() noexcept {
  if (std::exchange(finished_, true)) return;
  while (true) {
    drive_until([this] { return deserted(); });  // guests may still need somebody who drives
    while (!seat_.try_take()) seat_.sleep([] { return false; });
    if (deserted()) break;  // a thread that had the seat may have become a guest since
    give_up_seat();
  }
  if (helper_) helper_->forget(*this);
  programs_.stop_reading();
  tagged_programs_.stop_reading();
  if (device_) device_->stop_reading();
}

void Engine::issue(OpenCall& call, const std::shared_ptr<ProgressThread>& helper) noexcept {
  promise();
  enqueue(call, helper);
}

void Engine::enqueue(OpenCall& call, const std::shared_ptr<ProgressThread>& helper) noexcept {
  const std::lock_guard lock(issue_mutex_);
  issued_.push(call);
  if (helper) issued_helper_ = helper;
  has_issued_.store(true, std::memory_order_release);
}

void Engine::take_issued() noexcept {
  const std::lock_guard lock(issue_mutex_);
  queued_.append(issued_);
  while (Withdrawal* const wish = withdrawals_) {
    withdrawals_ = wish->next;
    wish->next = std::exchange(withdrawing_, wish);
  }
  if (issued_helper_) helper_ = std::move(issued_helper_);
  has_issued_.store(false, std::memory_order_relaxed);
}

void Engine::give_up_seat() noexcept {
  if (idle()) [[likely]]
    return seat_.give_up();
  if (has_issued_.load(std::memory_order_acquire)) take_issued();  // with its helper
  const std::shared_ptr<ProgressThread> helper = helper_;          // may outlive this engine
  seat_.give_up();
  if (helper) helper->poke();
}

/// True if anything moved.
bool Engine::round() noexcept {
  bool moved = false;
  ++rounds_;
  if (has_issued_.load(std::memory_order_acquire)) [[unlikely]]
    take_issued();
  if (!mail_.idle()) [[unlikely]]
    moved = move_mail();
  if (!queued_.empty()) [[unlikely]]
    moved |= failure_.happened() ? end_queued() : begin_queued();
  if (withdrawing_ != nullptr) [[unlikely]]
    serve_withdrawals();
  if (ready_.load(std::memory_order_acquire) != 0) [[unlikely]]
    moved |= release_held();
  if (progress_.poll(moved || mail_.idle() ? std::span<ProgressSource* const>{}
                                           : mail_.sources())) {
    moved = true;
    end_done();
  }
  return moved;
}

/// Begins what can begin. A call whose connections are being opened holds up its order.
bool Engine::begin_queued() noexcept {
  bool moved = false;
  const std::uint64_t walk = ++walks_;
  for (OpenCall** at = queued_.begin(); *at != nullptr;) {
    OpenCall& call = **at;
    if (call.is_unmet()) {
      queued_.erase(at);
      moved = true;
      if (call.may_start()) {
        post(call);
      } else {
        call.state = OpenCall::State::held;
        held_.push(call);
      }
      if (failure_.happened()) return end_queued() || moved;
      continue;
    }
    Order& order = order_of(call.request.call);
    // To ask for connections takes system calls: not in every round of calls that move.
    const bool ask =
        call.state == OpenCall::State::issued || open_.empty() || rounds_ % kOpeningRounds == 0;
    bool begun = false;
    if (order.waiting != walk && ask) {
      try {
        begun = begin(call);
      } catch (const std::exception&) {
        fail_all(failure_.settle(status_of_exception(), call.call, kNoRank));
      }
    }
    if (begun) {
      queued_.erase(at);
      (call.state == OpenCall::State::held ? held_ : open_).push(call);
      moved = true;
    } else {
      order.waiting = walk;
      at = &call.next;
    }
    if (failure_.happened()) return end_queued() || moved;
  }
  return moved;
}

/// Once the communicator has failed. A stream's call ends after the stream's earlier ones.
bool Engine::end_queued() noexcept {
  bool ended = false;
  for (OpenCall** at = queued_.begin(); *at != nullptr;) {
    OpenCall& call = **at;
    if (!call.may_start()) {
      at = &call.next;
      continue;
    }
    queued_.erase(at);
    end(call, said_of(failure_.status(), call.call));
    ended = true;
  }
  return ended;
}

/// False: not yet, as some connections are still being opened, or a GPU's call may not start; or
/// the communicator has failed.
bool Engine::begin(OpenCall& call) {
  if (call.state == OpenCall::State::issued) {
    StreamDevice* const gpu = gpu_of(call.request.call);
    if (gpu != nullptr && !call.may_start()) return false;  // nothing is held on a device
    if (gpu != nullptr && has_to_drain(call.request.call)) return false;
    call.call = call.request.call;
    call.call.sequence = ++order_of(call.call).begun;
    call.state = OpenCall::State::opening;
    Result<std::unique_ptr<LocalSteps>> local =
        LocalSteps::prepare(call.request, rank_, size_, scratch_, call.on_host, gpu);
    if (!local.ok()) {
      fail_all(failure_.settle(local.status(), call.call, rank_));
      return false;
    }
    call.local = *std::move(local);
  }
  BoundCall* bound = bound_.find(call.request);
  if (bound == nullptr) {
    const Result<Program*> program = program_of(call.call);
    if (!program.ok()) {
      const bool own = program.status().rank() == kNoRank;
      const Status said = own ? said_by(rank_, program.status()) : program.status();
      fail_all(failure_.settle(said, call.call, said.rank()));
      return false;
    }
    if (*program == nullptr) {
      if (call.place == 0) call.place = board_.enter(call.call);
      return false;
    }
    if (gpu_of(call.call) != nullptr) {
      if (const Status made = device_->prepare(call.call, key_of(call.call)); !made.ok()) {
        fail_all(failure_.settle(said_by(rank_, made), call.call, rank_));
        return false;
      }
    }
    bound = &bound_.bind(call.request, **program);
  }
  bound->in_flight = true;
  call.bound = bound;
  bound->run.call.digest = digest_of(call);
  if (call.request.extras != nullptr) bound->run.call.own = call.request.extras->own;
  call.looked_at = false;
  if (call.may_start()) {
    call.state = OpenCall::State::moving;
    if (call.place == 0) call.place = board_.enter(call.call);
    if (const Status done = call.before(); !done.ok()) {
      fail_all(failure_.settle(done, call.call, rank_));
      return false;
    }
    progress_.begin(bound->run);
  } else {
    call.state = OpenCall::State::held;
    board_.leave(std::exchange(call.place, 0));
    progress_.hold(bound->run);
  }
  bound->run.by_pass = !call.waited;
  return true;
}

/// Starts the held calls that may start by now, as many as were reported.
bool Engine::release_held() noexcept {
  std::uint32_t ready = ready_.exchange(0, std::memory_order_acquire);
  bool moved = false;
  for (OpenCall** at = held_.begin(); *at != nullptr && ready != 0;) {
    OpenCall& call = **at;
    if (!call.may_start()) {
      at = &call.next;
      continue;
    }
    moved = true;
    --ready;
    held_.erase(at);
    if (failure_.happened()) {
      end(call, said_of(failure_.status(), call.call));
    } else if (call.is_unmet()) {
      post(call);
    } else {
      call.state = OpenCall::State::moving;
      call.place = board_.enter(call.call);
      open_.push(call);
      if (const Status done = call.before(); !done.ok()) {
        fail_all(failure_.settle(done, call.call, rank_));
        return true;
      }
      progress_.release(call.bound->run);
    }
  }
  return moved;
}

void Engine::end_done() noexcept {
  for (OpenCall** at = open_.begin(); *at != nullptr;) {
    OpenCall& call = **at;
    if (call.bound->run.done()) {
      open_.erase(at);
      end(call, {});
    } else {
      at = &call.next;
    }
  }
}

void Engine::end(OpenCall& call, Status status) noexcept {
  if (call.bound != nullptr) {
    if (status.ok()) {
      bound_.count(*call.bound);
      if (const Status done = call.after(); !done.ok()) status = said_of(done, call.call);
    }
    bound_.give_back(*call.bound);
  }
  board_.leave(call.place);
  call.local.reset();
  call.extras.parts.reset();
  call.status = std::move(status);
  if (call.owner != nullptr) {
    call.owner->on_end(call);
    owned_.fetch_sub(1, std::memory_order_release);
  } else {
    call.ended.store(true, std::memory_order_release);
  }
  seat_.wake();
}

}  // namespace coll
