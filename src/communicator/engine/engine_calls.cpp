// SPDX-License-Identifier: Apache-2.0
// Calls of threads that wait for them, and which plans and programs calls have.
#include <exception>
#include <utility>

#include "communicator/calls/call_check.hpp"
#include "communicator/calls/call_digest.hpp"
#include "communicator/engine/engine.hpp"

namespace coll {
namespace {

PlanKey unequal_key(const Call& call, Rank size, Rank root, SumOrder order,
                    std::uint64_t unknown_block) {
  const std::uint64_t bytes = call.has_own_count()
                                  ? unknown_block * static_cast<std::uint64_t>(size)
                                  : call.count * size_of(call.type);
  return {{call.collective, size, root, true, order}, size_class(bytes)};
}

}  // namespace

PlanKey Engine::key_of(const Call& call) const {
  const Rank root = has_root(call.collective) ? call.root : 0;
  const bool ordered = reduces(call.collective) && depends_on_order(call.op, call.type);
  const bool sided = ordered && call.op == ReduceOp::own_in_order;
  const SumOrder order = sided ? SumOrder::sided_tree : ordered ? order_ : SumOrder::any;
  if (call.unequal()) return unequal_key(call, size_, root, order, unknown_block_);
  const std::uint32_t bytes_class =
      size_class(call.count * size_of(call.type) * whole_blocks(call.collective, size_));
  // An exchange with oneself is the copy that a broadcast to nobody else is.
  if (call.is_with_itself(rank_)) return {{Collective::broadcast, 1, 0}, bytes_class};
  return {{call.collective, size_, root, false, order}, bytes_class};
}

ProgramCache& Engine::programs_for(const Call& call, const PlanKey& key) {
  if (ProgramCache* const by_gpu = device_ ? device_->programs_for(call, key) : nullptr)
    return *by_gpu;
  return call.tagged() ? tagged_programs_ : programs_;
}

/// The program that the call needs, null while its connections are being opened. The other ranks
/// open theirs in the same call.
Result<Program*> Engine::program_of(const Call& call) {
  const PlanKey key = key_of(call);
  ProgramCache& programs = programs_for(call, key);
  if (const auto* entry = programs.find(key)) return entry->program.get();
  COLL_TRY(programs.prepare(key));
  COLL_ASSIGN(const bool connected, programs.connect(key));
  return connected ? programs.find(key)->program.get() : nullptr;
}

/// All ranks count collectives alike, the two ranks of a pair count what they exchange.
Engine::Order& Engine::order_of(const Call& call) {
  if (!call.is_pair()) [[likely]]
    return collectives_;
  const bool send = call.collective == Collective::send;
  auto& peers =
      call.tagged() ? (send ? tagged_sends_ : tagged_receives_) : (send ? sends_ : receives_);
  return peers[static_cast<std::size_t>(call.root)];
}

Status Engine::run(const Request& request) noexcept {
  if (!seat_.try_take()) [[unlikely]]
    return run_queued(request);
  BoundCall* bound = nullptr;
  // An address that was the host's when the call was bound may be a GPU's by now.
  if (quiet() && !failure_.happened() && !DeviceBuffers::any(request, rank_, size_) &&
      gpu_of(request.call) == nullptr) [[likely]] {
    bound = bound_.find(request);
    if (bound == nullptr) [[unlikely]]
      bound = rebind(request);
  }
  if (bound == nullptr) [[unlikely]] {
    const Guest guest(*this);  // between the seat and the queue
    give_up_seat();
    return run_queued(request);
  }
  Call call = request.call;
  call.sequence = ++order_of(call).begun;
  const std::uint64_t place = board_.enter(call);
  bound->run.call.digest = numbered(bound->digest, call.sequence);
  progress_.begin(bound->run);
  progress_.poll();
  for (Waiter waiter(waiting_); !bound->run.done();) {
    if (progress_.poll()) continue;
    if (waiter.turn()) return finish_alone(request, call, *bound, place);
  }
  board_.leave(place);
  bound->repeats.raise();
  give_up_seat();
  return {};
}

/// Binds a request whose program is there already; null if it is not, or if anything is wrong.
BoundCall* Engine::rebind(const Request& request) noexcept {
  try {
    if (!check_request(request, rank_, size_).ok()) return nullptr;
    const ProgramCache::Entry* const entry = programs_.find(key_of(request.call));
    return entry == nullptr ? nullptr : &bound_.bind(request, *entry->program);
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// It takes long: from now on the call may have others beside it.
Status Engine::finish_alone(const Request& request, const Call& call, BoundCall& bound,
                            std::uint64_t place) noexcept {
  OpenCall open;
  open.request = request;
  open.state = OpenCall::State::moving;
  open.call = call;
  open.bound = &bound;
  open.place = place;
  bound.in_flight = true;
  open_.push(open);
  Waiter waiter(waiting_);
  while (!open.ended.load(std::memory_order_relaxed)) drive_round(waiter);
  give_up_seat();
  return std::move(open.status);
}

Status Engine::run_queued(const Request& request, double deadline_s) noexcept {
  const Guest guest(*this);
  if (failure_.happened()) return failure_.status();
  OpenCall call;
  try {
    COLL_TRY(check_request(request, rank_, size_));
  } catch (const std::exception&) {
    return status_of_exception();  // refused at the door: nothing has begun
  }
  await_program(request);
  call.request = request;
  call.deadline_s = deadline_s;
  enqueue(call, nullptr);
  drive_until([&call] { return call.ended.load(std::memory_order_acquire); });
  return std::move(call.status);
}

}  // namespace coll
